"""How much of etcd's quota is in use, and which requests are refused before the quota is used up. Pure.

A part of the quota is a reserve, with room for one more snapshot of the tree at least. While it is touched,
this proxy does not append requests that make the tree grow. Everything else continues, above all what gives
space back: deletes, ends of sessions, snapshots, truncation. Each proxy decides for the requests of its own
clients: a request that is not appended is no part of the log, so proxies need not agree.

The size in use decides: etcd's file never shrinks, and its free pages are used again.
"""

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from codec.constants import CREATES, KeeperOpCode, OpCode
from codec.errors import MalformedPacket
from proxy.log.pending import Pending
from proxy.log.stats import Stats
from proxy.state.machine import Machine
from proxy.state.node import Node
from proxy.state.ops import EXTENDED
from schema.entry import Kind
from schema.record import SnapshotRef

log = logging.getLogger(__name__)

_NODE = 100  # bytes that a node takes besides its path and data, about
_INTERVAL, _PRESSED_INTERVAL = 10.0, 1.0  # seconds between two looks at etcd's size
_NEVER = float("inf")
_DELETES = (OpCode.DELETE, KeeperOpCode.TRY_REMOVE)


class Pressure(NamedTuple):
    """The reserve is touched. Sizes in bytes."""

    reserve: int
    room: int  # of the quota that is not in use
    snapshot: int  # what one more snapshot takes at most, about


class Space:
    """The space in etcd, as one proxy knows it."""

    def __init__(self, percent: int, machine: Machine, stats: Stats) -> None:
        """`percent`: the share of the quota that is the reserve; 0 for none."""
        self._percent = percent
        self._machine = machine
        self._stats = stats
        self._quota = 0
        self._reserve = 0
        # The size in use without what was applied here: between two looks at etcd the log shows its growth.
        self._base = 0
        self._check_at = _NEVER  # when so many bytes are applied
        self._pressed = False
        self._name, self._size = "", 0  # of the current snapshot
        self._applied = 0  # bytes that were applied when it came

    @property
    def pressure(self) -> Pressure | None:
        """None while the reserve is whole."""
        if not self._pressed:
            return None
        return Pressure(self._reserve, self._quota - self._in_use, self._next_snapshot)

    def learned(self, in_use: int, quota: int, current: SnapshotRef | None) -> float:
        """etcd's size in use, its quota (0: not known yet; below 0: none), current snapshot.

        Returns the seconds until the next look.
        """
        self._quota = quota
        self._base = in_use - self._stats.applied_bytes
        if current is not None and current.name != self._name:
            self._name, self._size, self._applied = current.name, current.bytes, self._stats.applied_bytes
        if quota > 0 and self._percent:
            # A tenth of the reserve more than needed, so that the refusals do not come and go.
            has_room = self._judge() > self._reserve // 10
        else:
            has_room, self._check_at = True, _NEVER
        if self._pressed and has_room:
            self._pressed = False
            log.warning("the reserve of etcd's quota is whole again: %d MiB are in use", in_use >> 20)
        return _PRESSED_INTERVAL if self._pressed else _INTERVAL

    def is_short(self) -> bool:
        """Whether the reserve is touched, so that `refuses` has to be asked about each request."""
        if not self._pressed and self._stats.applied_bytes >= self._check_at:
            self._judge()
        return self._pressed

    def refuses(self, pending: Pending) -> bool:
        """Whether a request is refused since it makes the tree grow. Called while space `is_short`."""
        if pending.kind != Kind.CLIENT:
            return False
        fields, operation = pending.fields, EXTENDED.writes.get(pending.opcode)
        if operation is None:
            return False
        try:
            if fields is None:
                fields, _ = operation.decode(pending.body, 0)
        except MalformedPacket:
            return False  # the state machine answers it
        return growth(self._machine.tree.nodes, pending.opcode, fields) > 0

    def count(self) -> None:
        """A request was refused."""
        self._stats.growth_refused += 1

    @property
    def _in_use(self) -> int:
        return self._base + self._stats.applied_bytes

    @property
    def _next_snapshot(self) -> int:
        tree = self._machine.tree
        grown = self._size + self._stats.applied_bytes - self._applied
        return min(grown, tree.data_size + _NODE * len(tree.nodes))

    def _judge(self) -> int:
        """Find out whether the reserve is touched; the bytes that may be used before it is."""
        self._reserve = max(self._quota * self._percent // 100, self._next_snapshot * 5 // 4)
        left = self._quota - self._reserve - self._in_use
        # Each byte of the log may also be one of the next snapshot.
        self._check_at = self._stats.applied_bytes + max(left // 4, 0)
        if left < 0 and not self._pressed:
            self._pressed = True
            log.error(
                "etcd is nearly full: %d of %d MiB are in use, and %d MiB are reserved. Requests that make"
                " the tree grow are refused with SYSTEMERROR until there is more space",
                self._in_use >> 20,
                self._quota >> 20,
                self._reserve >> 20,
            )
        return left


def growth(nodes: Mapping[str, Node], opcode: int, fields: Any) -> int:
    """By how many bytes a write makes the tree larger, about; below 0: smaller."""
    if opcode == OpCode.MULTI:
        return sum(growth(nodes, kind.opcode, part) for kind, part in fields)
    if opcode in CREATES:
        return _NODE + len(fields[0] or "") + len(fields[1] or b"")
    if opcode == OpCode.SET_DATA and (node := nodes.get(fields[0])) is not None:
        return len(fields[1] or b"") - node.size
    if opcode == OpCode.SET_ACL and (node := nodes.get(fields[0])) is not None:
        return len(fields[1] or ()) - len(node.acl)
    if opcode in _DELETES and (node := nodes.get(fields[0])) is not None:
        return -_NODE - len(fields[0]) - node.size
    return 0
