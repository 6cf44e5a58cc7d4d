"""A transaction of ZooKeeper's log as a row of traffic."""

from collections.abc import Sequence

from codec.constants import CreateMode, ErrorCode, OpCode
from codec.operation_names import operation_name
from pipeline.table import TransactionRow
from pipeline.traffic import names
from pipeline.traffic.table import Operation, TrafficRow
from schema.znode import kind_of

#: The modes that make a kind of znode, the sequential one last. No mode is of sequential containers.
_MODES = {
    "persistent": (CreateMode.PERSISTENT, CreateMode.PERSISTENT_SEQUENTIAL),
    "ephemeral": (CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL),
    "ttl": (CreateMode.PERSISTENT_WITH_TTL, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL),
    "container": (CreateMode.CONTAINER, CreateMode.CONTAINER),
}


def row(parts: Sequence[TransactionRow], size: int) -> TrafficRow:
    """The row of one transaction, given its rows and its bytes in the log.

    ZooKeeper's log has the changes, not the requests: of a failed request it has only the error.
    """
    first = parts[0]
    multi = first.part >= 0 or first.type == OpCode.MULTI
    subs = [part for part in parts if part.part >= 0]
    operations = _operations(subs) if multi else ()
    codes = [part.error for part in parts if part.error not in (None, ErrorCode.OK)]
    result = names.result(codes[0] or 0) if codes else names.OK
    return TrafficRow(
        time=first.time,
        zxid=first.zxid,
        session_id=first.session_id,
        operation=names.MULTI if multi else operation_name(first.type),
        path=None if multi else first.path,
        bytes=sum(len(part.data or b"") for part in parts),
        size=size,
        mode=None if multi else _mode(first),
        parts=operations if multi else None,
        result=result,
        paths=first.paths,
        nodes=0 if codes else sum(map(_nodes, subs if multi else parts)),
        grown=None,
        position=None,
        proxy=None,
        number=None,
        request=None,
        identities=None,
        cxid=first.cxid,
        file=first.file,
        offset=first.offset,
    )


def _operations(parts: Sequence[TransactionRow]) -> tuple[Operation, ...]:
    return tuple(
        Operation(
            operation_name(part.type),
            part.path,
            len(part.data or b""),
            _mode(part),
            names.result(part.error or ErrorCode.OK),
        )
        for part in parts
    )


def _mode(part: TransactionRow) -> str | None:
    """The CreateMode of a create. The log does not say that a node is sequential, but its number does."""
    if operation_name(part.type) not in names.CREATES or part.path is None:
        return None
    counter = part.parent_cversion
    sequential = counter is not None and part.path.endswith(f"{counter - 1:010d}")
    plain, numbered = _MODES[kind_of(part.owner or 0)]
    return (numbered if sequential else plain).name


def _nodes(part: TransactionRow) -> int:
    """By how many the number of znodes has grown."""
    name = operation_name(part.type)
    if name in names.CREATES:
        return 1
    return -1 if name in names.DELETES else -len(part.paths or ())
