"""Which writes may go ahead of reads of their own session that still wait for their turn.

Pure. A read waits for the writes before it, and sees the tree as the Txn of the last of them left it. A write
behind it may be part of that very Txn where the read cannot tell: docs/decisions/0013 has the argument. Raw
paths are compared: only one sequence of bytes is the valid path of a node (see codec.jute.to_text).
"""

from collections.abc import Iterable, Mapping

from codec.constants import CreateMode, EventType, OpCode
from codec.errors import MalformedPacket
from codec.jute import INT
from proxy.operation import WriteOperation
from proxy.watches import HeldWatches
from schema.values import OPEN_ACL, TreeEvent

# Reads whose whole answer is one node's: a path, and whether to watch it.
_OF_ONE_NODE = (OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2)
# Writes that change one node, and the event that each fires there; with those that come or go, the parent.
_EVENTS = {
    OpCode.SET_DATA: EventType.NODE_DATA_CHANGED,
    OpCode.SET_ACL: EventType.NONE,
    OpCode.DELETE: EventType.NODE_DELETED,
    OpCode.CREATE: EventType.NODE_CREATED,
    OpCode.CREATE2: EventType.NODE_CREATED,
}
_CREATES = (OpCode.CREATE, OpCode.CREATE2)
_IN_PLACE = (OpCode.SET_DATA, OpCode.SET_ACL)
# Sequential ones get their name from what is there.
_NAMED_MODES = (CreateMode.PERSISTENT, CreateMode.EPHEMERAL)
# What these nodes tell depends on others: usage counts of quotas.
_SPECIAL = b"/zookeeper"

_int_at = INT.unpack_from


def paths_read(opcode: int, calls: Iterable[tuple[int, bytes]], body: int) -> list[bytes] | None:
    """The raw paths of such reads; None if one of them is of another kind, or is odd.

    `calls` are pairs of an xid and a packet, whose body begins at `body`.
    """
    if opcode not in _OF_ONE_NODE:
        return None
    start = body + 4
    paths = []
    for _, packet in calls:
        path = packet[start:-1]
        # Nothing behind the flag; and the root may be read by an empty path too.
        if not path or _int_at(packet, body)[0] != len(path) or path.startswith(_SPECIAL):
            return None
        paths.append(path)
    return paths


def write_touches(
    opcode: int, writes: Mapping[int, WriteOperation], packet: bytes, body: int
) -> tuple[bytes, ...] | None:
    """The raw path of the node that a write changes, and its parent's if it comes or goes. None: unknown."""
    if opcode not in _EVENTS or len(packet) < body + 4:
        return None
    (length,) = _int_at(packet, body)
    path = packet[body + 4 : body + 4 + length]
    parent, slash, _ = path.rpartition(b"/")
    if length < 1 or len(path) < length or not slash:
        return None
    if opcode in _IN_PLACE:
        return (path,)
    if opcode in _CREATES:
        try:
            fields, _ = writes[opcode].decode(packet, body)
            if fields[3] not in _NAMED_MODES:
                return None
        except MalformedPacket:
            return None
    return path, parent or b"/"


def fires(opcode: int, path: bytes, held: HeldWatches) -> bool:
    """Whether such a write may fire one of these watches."""
    event = _EVENTS[OpCode(opcode)]
    if event == EventType.NONE:
        return False
    return held.tell((TreeEvent(event, path.decode(errors="replace"), OPEN_ACL),))
