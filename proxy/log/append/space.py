"""How much of etcd's quota is in use, and which requests are refused before the quota is used up. Pure.

A part of the quota is a reserve, with room for one more snapshot of the tree at least. While it is touched,
this proxy does not append requests that make the tree grow. Everything else continues, above all what gives
space back: deletes, ends of sessions, snapshots, truncation. When what is left is needed for that snapshot,
only these continue. Each proxy decides for the requests of its own clients: a request that is not appended is
no part of the log, so proxies need not agree.

Ephemeral nodes make the tree grow, but clients need them to start again: a ClickHouse server that cannot mark
its replicas as active keeps their tables read-only, and its cleanup, which would give space back, does not
run. So the reserve has room for new ephemeral nodes, and each session may use a share of it.

The size in use decides: etcd's file never shrinks, and its free pages are used again.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from codec.constants import CREATES, CreateMode, KeeperOpCode, OpCode
from codec.errors import MalformedPacket
from proxy.log.append.pending import Pending
from proxy.log.status import Pressure, Stats
from proxy.state.machine import Machine
from proxy.state.node import Node
from proxy.state.ops import EXTENDED
from proxy.state.ops.create import SEQUENTIAL
from proxy.support import probe
from schema.entry import Kind
from schema.record import SnapshotRef

log = logging.getLogger(__name__)

_NODE = 100  # bytes that a node takes besides its path and data, about
_INTERVAL, _SHORT_INTERVAL = 10.0, 1.0  # seconds between two looks at etcd's size
_SOON = 3  # reserves of room: from less on, etcd's size is looked at often
_NEVER = float("inf")
_SHARES = 8  # one session may use this part of the room for new ephemeral nodes
_EPHEMERAL = (CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL)
# Appended as long as etcd has space, whatever they find: the delete of a missing node gets NONODE.
_DELETES = (
    OpCode.DELETE,
    OpCode.DELETE_CONTAINER,
    KeeperOpCode.TRY_REMOVE,
    KeeperOpCode.REMOVE_RECURSIVE,
)
_SIZED = (OpCode.SET_DATA, OpCode.SET_ACL, *_DELETES)  # what they change depends on the node that is there
#: The requests of clients that are never refused for want of space: no session could end without them.
UNMETERED = (OpCode.CLOSE_SESSION, OpCode.SYNC)


class Space:
    """The space in etcd, as one proxy knows it.

    More than twelve attributes: between two looks at etcd each request is judged by sums that were made once.
    """

    def __init__(self, percent: int, machine: Machine, stats: Stats) -> None:
        """`percent`: the share of the quota that is the reserve; 0 for none."""
        self._percent = percent
        self._machine = machine
        self._stats = stats
        self._quota = 0
        self._reserve = 0
        self._least = 0  # the last room: with less, only what makes the tree smaller is appended
        self._for_ephemerals = 0  # the part of the last room that new ephemeral nodes may use
        self._pressed_at = 0  # the zxid at which the reserve was touched
        # The size in use without what was applied here: between two looks at etcd the log shows its growth.
        self._base = 0
        self._check_at = _NEVER  # when so many bytes are applied
        self._pressed = False
        self._is_last = False
        self._needed = 2  # snapshots until one deletes anything
        self._size = 0  # of the current snapshot
        self._applied = 0  # bytes that were applied at its position

    @property
    def pressure(self) -> Pressure | None:
        """None while the reserve is whole."""
        if not self._pressed:
            return None
        return Pressure(self._reserve, self._room, self._next_snapshot + self._margin // 2, self._is_last)

    def learned(self, in_use: int, quota: int, current: SnapshotRef | None, log_bytes: int) -> float:
        """etcd's size in use, its quota (0: not known yet; below 0: none), current snapshot, log since then.

        Returns the seconds until the next look.
        """
        self._quota = quota
        self._base = in_use - self._appended
        self._needed = 2 if current is None else 1
        self._size = 0 if current is None else current.bytes
        self._applied = self._stats.applied_bytes - log_bytes
        if quota > 0 and self._percent:
            self._judge()
            # A tenth of the reserve more than needed, so that the refusals do not come and go.
            room: float = self._room - self._reserve // 10
        else:
            room = self._check_at = _NEVER
        if self._is_last and room > self._least:
            self._is_last = False
            log.warning("there is more room again than snapshots need: %d MiB are in use", in_use >> 20)
        if self._pressed and room > self._reserve:
            self._pressed = False
            probe.current.reached("a reserve that is whole again")
            log.warning("the reserve of etcd's quota is whole again: %d MiB are in use", in_use >> 20)
        return _SHORT_INTERVAL if room < _SOON * self._reserve else _INTERVAL

    def is_short(self) -> bool:
        """Whether the reserve is touched, so that `refuses` has to be asked about each request."""
        if self._stats.applied_bytes >= self._check_at:
            self._judge()
        return self._pressed

    def refuses(self, pending: Pending) -> bool:
        """Whether a request is refused since it makes the tree grow, or not smaller.

        Deletes never are, nor are ephemeral nodes as long as there is room for them. Called while space
        `is_short`.
        """
        opcode = pending.opcode
        if pending.kind != Kind.CLIENT or opcode in UNMETERED or opcode in _DELETES:
            return False
        fields, operation = pending.fields, EXTENDED.writes.get(opcode)
        if operation is None:
            return False
        try:
            if fields is None:
                fields, _ = operation.decode(pending.body, 0)
        except MalformedPacket:
            return False  # the state machine answers it
        parts = (
            [(kind.opcode, part) for kind, part in fields] if opcode == OpCode.MULTI else [(opcode, fields)]
        )
        if all(map(_never_grows, parts)):
            return False
        growth = _growth(self._machine.tree.nodes, parts)
        if growth.ephemeral and self._holds(pending.session_id, growth.ephemeral):
            return growth.lasting > 0
        # In the last room a request has to give back what its entry takes.
        return growth.lasting + growth.ephemeral + (len(pending.body) if self._is_last else 0) > 0

    def _holds(self, session_id: int, size: int) -> bool:
        """Whether the reserve has room for new ephemeral nodes of this size, of this session."""
        if self._room < self._least - self._for_ephemerals:
            return False
        tree = self._machine.tree
        for path in tree.ephemerals.get(session_id, ()):
            node = tree.nodes[path]
            if node.czxid > self._pressed_at:
                size += _NODE + len(path) + node.size
        return size <= self._for_ephemerals // _SHARES

    def count(self) -> None:
        """A request was refused."""
        room = "room for one snapshot" if self._is_last else "reserve"
        probe.current.reached(f"a request that the {room} refuses")
        self._stats.growth_refused += 1

    @property
    def _appended(self) -> int:
        return _in_etcd(self._stats.applied_bytes)

    @property
    def _in_use(self) -> int:
        return self._base + self._appended

    @property
    def _room(self) -> int:
        return self._quota - self._in_use

    @property
    def _next_snapshot(self) -> int:
        tree = self._machine.tree
        grown = self._size + self._stats.applied_bytes - self._applied
        return _in_etcd(min(grown, tree.data_size + _NODE * len(tree.nodes)))

    @property
    def _wanted(self) -> int:
        return self._quota * self._percent // 100

    @property
    def _margin(self) -> int:
        """etcd's file is a little larger than what is in use, and grows until the next look at it."""
        return self._wanted * 2 // 5

    def _judge(self) -> None:
        """Find out whether the reserve is touched, and whether more of it is used than may be."""
        snapshots = self._needed * self._next_snapshot
        self._for_ephemerals = self._wanted // 10
        self._least = snapshots + self._margin + self._for_ephemerals
        self._reserve = max(self._wanted, self._least + self._margin)
        if self._room < self._reserve and not self._pressed:
            self._pressed = True
            self._pressed_at = self._machine.zxid
            log.error(
                "etcd is nearly full: %d of %d MiB are in use, and %d MiB are reserved. Requests that make"
                " the tree grow are refused with SYSTEMERROR until there is more space",
                self._in_use >> 20,
                self._quota >> 20,
                self._reserve >> 20,
            )
        if self._room < self._least and not self._is_last:
            self._is_last = True
            log.error(
                "etcd is nearly full: the last %d MiB are kept for snapshots of the tree. All writes of"
                " clients but deletes, some ephemeral nodes and what makes the tree smaller are refused with"
                " SYSTEMERROR",
                self._least >> 20,
            )
        left = self._room - (self._least if self._pressed else self._reserve)
        # Each byte of the log may also be one of the next snapshot.
        self._check_at = self._stats.applied_bytes + max(left // 4, 0)


def _in_etcd(size: int) -> int:
    """What values of this size take: etcd's pages are not full. Entries of 10 kB took a fifth more."""
    return size * 5 // 4


class _Growth(NamedTuple):
    """By how many bytes a request makes the tree larger, about; below 0: smaller."""

    lasting: int
    ephemeral: int  # by nodes that go with their session


def _never_grows(part: tuple[int, Any]) -> bool:
    """Whether an operation cannot make the tree larger, whatever it finds.

    Keeper lets a set of empty data pass as well when it is short of memory (ClickHouse 112386).
    """
    opcode, fields = part
    return opcode in _DELETES or (opcode == OpCode.SET_DATA and not fields[1])


def _growth(nodes: Mapping[str, Node], parts: Sequence[tuple[int, Any]]) -> _Growth:
    """The growth by a request that has these parts; a request that is no multi is its only part."""
    lasting = ephemeral = 0
    for opcode, fields in parts:
        if opcode in CREATES:
            if len(parts) == 1 and fields[0] in nodes and not fields[3] & SEQUENTIAL:
                continue  # it is refused, or content with that node; in a multi it may be deleted before
            size = _NODE + len(fields[0] or "") + len(fields[1] or b"")
            if fields[3] in _EPHEMERAL:
                ephemeral += size
            else:
                lasting += size
            continue
        node = nodes.get(fields[0]) if opcode in _SIZED else None
        if node is None:
            continue
        if opcode == OpCode.SET_DATA:
            lasting += len(fields[1] or b"") - node.size
        elif opcode == OpCode.SET_ACL:
            lasting += len(fields[1] or ()) - len(node.acl)
        else:  # a subtree counts as its topmost node
            lasting -= _NODE + len(fields[0]) + node.size
    return _Growth(lasting, ephemeral)
