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
from proxy.queued import Reads
from proxy.watches import HeldWatches, Watcher, WatchTable
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

# Paths of reads, perhaps answered by now, that are remembered for one connection.
_MAX_PATHS = 4000

_int_at = INT.unpack_from


class Overtaking:
    """The reads of one connection that wait, as far as its next write has to know them."""

    __slots__ = (
        "_answered",
        "_fresh",
        "_owner",
        "_paths",
        "_place",
        "_read_in",
        "_watches",
        "body",
        "passed",
        "waiting",
        "writes",
    )

    body: int  # where a packet's body begins
    writes: Mapping[int, WriteOperation]  # what the connection may ask for

    def __init__(self, watches: WatchTable, owner: Watcher) -> None:
        self._watches = watches
        self._owner = owner
        self.waiting = 0  # runs in the queue
        self._fresh: list[Reads] = []  # runs whose paths are not known yet
        self._read_in: dict[bytes, int] = {}  # by path, the place of the last run that reads it
        self.passed: list[Reads] = []  # runs that the next write overtakes, besides those of earlier writes
        self._paths: list[bytes] = []  # what they read
        self._place = 0  # of the last run that was queued
        self._answered = 0  # the place of the last run that was answered

    def queued(self, run: Reads) -> None:
        """A run has come."""
        self.waiting += 1
        self._place += 1
        run.place = self._place
        self._fresh.append(run)

    def found(self, run: Reads) -> None:
        """A run that was forgotten stands before the next write."""
        self._fresh.append(run)

    def answered(self, run: Reads) -> None:
        """The first run is answered."""
        self._answered = run.place
        self.waiting -= 1
        if not self.waiting:
            self.forget()

    def forget(self) -> None:
        """Forget all runs, for the next write is behind others."""
        self._fresh.clear()
        self._read_in.clear()
        self.passed = []
        self._paths = []

    def allows(self, opcode: int, packet: bytes) -> bool:
        """Whether a write may go to the committer ahead of the runs that wait."""
        touched = write_touches(opcode, self.writes, packet, self.body)
        if touched is None or not self._look_into_runs():
            return False
        answered = self._answered
        for path in touched:
            if self._read_in.get(path, 0) > answered:
                return False
        held = self._watches.held_by(self._owner)
        return held is None or not fires(opcode, touched[0], held)

    def pass_by(self) -> list[bytes]:
        """The next write goes ahead; returns what is read by the runs that it alone overtakes."""
        for run in self.passed:
            run.overtaken = True
        paths, self._paths = self._paths, []
        self.passed = []
        return paths

    def _look_into_runs(self) -> bool:
        """Learn what the runs that wait read; False if one of them is of a kind that no write overtakes."""
        for run in self._fresh:
            if run.place <= self._answered:
                continue
            paths = paths_read(run.opcode, run.calls, self.body)
            if paths is None:
                return False
            self._read_in.update(dict.fromkeys(paths, run.place))
            self._paths += paths
            self.passed.append(run)
        self._fresh.clear()
        if len(self._read_in) > _MAX_PATHS:
            self._read_in = {path: run for path, run in self._read_in.items() if run > self._answered}
        return True


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
    if length < 1 or len(path) < length or path[:1] != b"/":
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
    return path, path.rpartition(b"/")[0] or b"/"


def fires(opcode: int, path: bytes, held: HeldWatches) -> bool:
    """Whether such a write may fire one of these watches."""
    event = _EVENTS[OpCode(opcode)]
    if event == EventType.NONE:
        return False
    return held.tell((TreeEvent(event, path.decode(errors="replace"), OPEN_ACL),))
