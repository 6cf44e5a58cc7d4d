"""Names as ZooKeeper writes them: operations as in ZooDefs.OpCode, results as in KeeperException.Code."""

import re
from enum import IntEnum

from codec.constants import CreateMode, ErrorCode, KeeperOpCode, OpCode
from schema.entry import Kind

MULTI = "multi"
OK = "OK"
ERROR = "error"
CLOSE_SESSION = "closeSession"
CREATE_IF_NOT_EXISTS = "createIfNotExists"
REMOVE_RECURSIVE = "removeRecursive"

CREATES = frozenset(("create", "create2", "createContainer", "createTTL", CREATE_IF_NOT_EXISTS))
DELETES = frozenset(("delete", "deleteContainer", "tryRemove", REMOVE_RECURSIVE))

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
    Kind.FOLLOWED: "followed",  # changes of a ZooKeeper that the tree followed
}

_EPHEMERAL = frozenset((CreateMode.EPHEMERAL.name, CreateMode.EPHEMERAL_SEQUENTIAL.name))


def _camel(member: IntEnum) -> str:
    first, *rest = member.name.split("_")
    return first.lower() + "".join(word if word in ("ACL", "TTL") else word.title() for word in rest)


_OPERATIONS = {int(member): _camel(member) for names in (OpCode, KeeperOpCode) for member in names}
_RESULTS = {int(member): member.name.replace("_", "") for member in ErrorCode}
_MODES = {int(member): member.name for member in CreateMode}


def operation(opcode: int) -> str:
    """An opcode's name, or its number."""
    return _OPERATIONS.get(opcode, str(opcode))


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
    return name is not None and "SEQUENTIAL" in name


_NUMBER = re.compile(r"[0-9]{10}$")


def without_number(path: str) -> str:
    """A sequential node's path without its number; if it has no number yet, the path."""
    return _NUMBER.sub("", path)
