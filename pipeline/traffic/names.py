"""Names as ZooKeeper writes them: operations of traffic, results as in KeeperException.Code."""

from codec.constants import EPHEMERAL_MODES, SEQUENTIAL_MODES, CreateMode, ErrorCode
from codec.operation_names import operation_name
from proxy.state.effect import Effect
from proxy.state.operation import WriteOperation
from proxy.state.ops import ROWS
from schema.entry import Kind

MULTI = "multi"
OK = "OK"
ERROR = "error"
CLOSE_SESSION = "closeSession"
REMOVE_RECURSIVE = "removeRecursive"


def with_effect(*effects: Effect) -> frozenset[str]:
    """The operations that have one of these effects."""
    rows = {opcode: row for opcode, row in ROWS.items() if isinstance(row, WriteOperation)}
    return frozenset(operation_name(opcode) for opcode, row in rows.items() if row.effect in effects)


CREATES = with_effect(Effect.CREATES)
DELETES = with_effect(Effect.DELETES)

#: The proxies' own requests, besides those of clients. If ZooKeeper has the same, its name.
OF_PROXIES = {
    Kind.OPEN: "createSession",
    Kind.ATTACH: "attachSession",
    Kind.CLOSE: CLOSE_SESSION,
    Kind.CARRY_OVER: "carryOver",
    Kind.NODE_DUE: "deleteContainer",  # of TTL nodes as well, as in ZooKeeper
    Kind.EPOCH: "newEpoch",
    Kind.LEVEL: "raiseLevel",
    Kind.FORGET: "forgetProxy",
    Kind.BUDGET: "setBudget",
    Kind.FOLLOWED: "followed",  # changes of the source that the tree followed
}

_EPHEMERAL = {CreateMode(mode).name for mode in EPHEMERAL_MODES}
_SEQUENTIAL = {CreateMode(mode).name for mode in SEQUENTIAL_MODES}
_RESULTS = {int(member): member.name.replace("_", "") for member in ErrorCode}
_MODES = {int(member): member.name for member in CreateMode}


def result(code: int) -> str:
    """An error code's name, or its number."""
    return _RESULTS.get(code, str(code))


def mode(flags: int) -> str | None:
    """The CreateMode that a create's flags mean; None for flags that mean none."""
    return _MODES.get(flags)


def is_ephemeral(name: str | None) -> bool:
    """Whether a CreateMode makes ephemerals."""
    return name in _EPHEMERAL


def is_sequential(name: str | None) -> bool:
    """Whether a CreateMode adds a number to the path."""
    return name in _SEQUENTIAL
