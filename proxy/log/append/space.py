"""How much of etcd's quota is in use, and which requests are refused before the quota is used up. Pure.

A part of the quota is a reserve, with room for one more snapshot of the tree at least. While it is touched,
this proxy does not append requests that make the tree grow. Everything else continues, above all what gives
space back: deletes, ends of sessions, snapshots, truncation. Each proxy decides for the requests of its own
clients: a request that is not appended is no part of the log, so proxies need not agree.

Every entry takes space, until two snapshots are written and etcd has compacted. So in the last room, which is
kept for a snapshot, **a request may not take more than it gives back** (`admits`):

- It takes its bytes, those of its client's identities, and what etcd adds (`_cost`).
- It gives back the nodes that it deletes and the data that it makes shorter, each once: a request may fail,
  and be sent again and again (`_given_back`). A delete may take `_BRIEF` in any case, if its node exists.
- What it takes beyond that comes from the shares below, or from what others have given back, until little is
  left (`Rooms.shares_end`). Then only short deletes of nodes that exist are appended.
- A short create of a node that exists is appended until then: ClickHouse 18.16 does not start without.
- At last (`Rooms.clients_end`) no client's request is, and no session opens; sessions still end.

Ephemeral nodes make the tree grow, but clients need them to start again: a ClickHouse server that cannot mark
its replicas as active keeps their tables read-only, and its cleanup, which would give space back, does not
run. So the reserve has room for new ephemeral nodes, and each session may use a share of it. Clients also
create nodes in order to delete others: a DROP PARTITION is an entry in the table's log, which each replica
copies. So each session may make the tree grow by another share, and what it deletes restores that share.
A request may take a quarter of what is left of it, so that inserts do not use up what these entries need.
Beyond it a session may take what others have given back, while the tree stays smaller than it was when the
reserve was touched: a replica that has spent its share copies and fetches behind the one that drops.

The size in use decides: etcd's file never shrinks, and its free pages are used again.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, assert_never

from codec.constants import EPHEMERAL_MODES, OpCode
from codec.errors import MalformedPacket
from codec.jute import OPEN_ACL, Acl
from proxy.log.append.pending import Pending
from proxy.log.status import Pressure, Stats
from proxy.state.effect import Effect, path_of
from proxy.state.machine import Machine
from proxy.state.node import Node
from proxy.state.ops import EXTENDED
from proxy.state.ops.create import SEQUENTIAL
from proxy.state.pause import BRIEFLY, NO_PAUSE, TooLong
from proxy.state.tree import NODE_SIZE
from proxy.support import probe
from schema.entry import Kind, size_of
from schema.pages import size_of_acl
from schema.record import SnapshotRef
from schema.znode import session_of

log = logging.getLogger(__name__)

_ENTRY = 160  # bytes that an entry with one request takes besides its body and identities, about
_BRIEF = 1024  # bytes that the delete of a node may take, however little it gives back
_ENDING = 512  # bytes that the end of a session may take
_MOST_GIVEN_BACK = 1 << 16
#: Bytes of requests that are judged in one turn of the loop. A longer one is refused, if it has many parts.
JUDGED_AT_ONCE = 128 << 10
_INTERVAL, _SHORT_INTERVAL = 10.0, 1.0  # seconds between two looks at etcd's size
_QUIET = 5  # looks without an entry between them, after which one is asked for
_SOON = 3  # reserves of room: from less on, etcd's size is looked at often
_NEVER = float("inf")
_COUNTED_PER_REQUEST = 64  # ephemeral nodes
_PARTS = 4  # a request may take one of what is left: so large ones leave something for small ones
_SHARES = 8  # one session may use this part of the room for new ephemeral nodes, or for other growth
#: The requests of clients that a full etcd takes: no session could end without them.
UNMETERED = (OpCode.CLOSE_SESSION, OpCode.SYNC)


class Rooms(NamedTuple):
    """Bytes. With less room left than each of the first six, less is appended; each is above the next."""

    reserve: int = 0  # what makes the tree grow is refused, except the shares
    last: int = 0  # a request may take no more than it gives back, except from the shares
    ephemerals_end: int = 0  # new ephemeral nodes count as other growth does, too
    shares_end: int = 0  # of clients only short deletes of nodes that exist, and ends of sessions
    clients_end: int = 0  # of clients only ends of sessions; they may continue one
    attaches_end: int = 0  # no session is continued
    #: All shares together: by so much the tree may still grow, and again for new ephemeral nodes.
    allowance: int = 0
    surplus: int = 0  # so much more room than one of these ends what began with less: it does not come and go


def rooms_of(quota: int, percent: int, snapshot: int, needed: int) -> Rooms:
    """`percent`: as of `Space`. `snapshot`: bytes of one; so many are `needed` until one deletes anything."""
    wanted = quota * percent // 100
    # etcd's file is larger than what is in use, as free pages are too small for a snapshot's, and grows until
    # the next look at it.
    margin = max(wanted * 2 // 5, snapshot // 4)
    allowance = wanted // 10
    last = needed * snapshot + margin + allowance
    reserve = max(wanted, last + margin)
    clients_end = margin // 4
    return Rooms(
        reserve, last, last - allowance, margin, clients_end, clients_end // 2, allowance, reserve // 10
    )


class _NewEphemerals:
    """The bytes of the new ephemeral nodes of one session, as they were when they were last counted.

    A session may own very many nodes, so each request counts some of them.
    """

    def __init__(self) -> None:
        self.size = 0
        self._left: Iterator[str] | None = None  # not counted yet; None between two counts
        self._found = 0
        self._as_of = -1  # the zxid at which this count began

    def add(self, size: int) -> None:
        """A request creates some."""
        self.size += size
        self._found += size

    def count(self, session_id: int, machine: Machine, since: int) -> None:
        """Count some more of those made after the zxid `since`; after the last one begin anew."""
        nodes = machine.tree.nodes
        if self._left is None:
            if self._as_of == machine.zxid:
                return
            self._as_of, self._found = machine.zxid, 0
            self._left = iter(tuple(machine.tree.ephemerals.get(session_id, ())))
        some = list(islice(self._left, _COUNTED_PER_REQUEST))
        for path in some:
            node = nodes.get(path)
            if node is not None and node.owner == session_id and node.czxid > since:
                self._found += NODE_SIZE + len(path) + node.size + node.rights.size
        if len(some) < _COUNTED_PER_REQUEST:
            self.size, self._left = self._found, None


class Space:
    """The space in etcd, as one proxy knows it.

    Between two looks at etcd each request is judged by sums that were made once.
    """

    def __init__(self, percent: int, machine: Machine, stats: Stats) -> None:
        """`percent`: the share of the quota that is the reserve; 0 for none."""
        self._percent = percent
        self._machine = machine
        self._stats = stats
        self._quota = 0
        self._rooms = Rooms()
        self._pressed_at = 0  # the zxid at which the reserve was touched
        self._tree_then = 0  # the size of the tree at that moment
        self._spent: dict[int, int] = {}  # bytes of its share of lasting growth that a session has used
        # Bytes that entries of sessions without a share have taken in the last room: nothing shows when they
        # are deleted, so they count until the reserve is whole again.
        self._taken_back = 0
        # Nodes that have counted as given back in the last room, with `_changed`.
        self._given_back: dict[str, int] = {}
        self._new_ephemerals: dict[int, _NewEphemerals] = {}  # by session
        # The size in use without what was applied here: between two looks at etcd the log shows its growth.
        self._base = 0
        self._check_at = _NEVER  # when so many bytes are applied
        self._pressed = False
        self._is_last = False
        self._quiet = 0  # looks since which nothing was applied
        self._looked_at = 0  # bytes that were applied at the last look
        self._refused = 0  # requests, when an entry was last asked for
        self._needed = 2  # snapshots until one deletes anything
        self._size = 0  # of the current snapshot
        self._applied = 0  # bytes that were applied at its position

    @property
    def pressure(self) -> Pressure | None:
        """None while the reserve is whole."""
        if not self._pressed:
            return None
        rooms = self._rooms
        if self._is_last:  # a snapshot is written before the shares end
            worth = rooms.allowance
        else:
            worth = min(rooms.reserve // 4, rooms.reserve + rooms.surplus - self._room)
        snapshot = self._next_snapshot + rooms.shares_end // 2
        return Pressure(rooms.reserve, self._room, snapshot, worth, self._is_last)

    def learned(self, in_use: int, quota: int, current: SnapshotRef | None, log_bytes: int) -> float:
        """etcd's size in use, its quota (0: not known yet; below 0: none), current snapshot, log since then.

        Returns the seconds until the next look.
        """
        self._quota = quota
        self._quiet = self._quiet + 1 if self._looked_at == self._stats.applied_bytes else 0
        self._looked_at = self._stats.applied_bytes
        self._base = in_use - self._appended
        self._needed = 2 if current is None else 1
        self._size = 0 if current is None else current.bytes
        self._applied = self._stats.applied_bytes - log_bytes
        if quota > 0 and self._percent:
            self._measure()
            room: float = self._room - self._rooms.surplus
        else:
            room = self._check_at = _NEVER
        sessions = self._machine.sessions
        self._spent = {session: spent for session, spent in self._spent.items() if session in sessions}
        self._new_ephemerals = {
            session: counted for session, counted in self._new_ephemerals.items() if session in sessions
        }
        nodes = self._machine.tree.nodes
        self._given_back = {
            path: zxid
            for path, zxid in self._given_back.items()
            if path in nodes and _changed(nodes[path]) == zxid
        }
        if self._is_last and room > self._rooms.last:
            self._is_last = False
            self._given_back.clear()
            log.warning("there is more room again than snapshots need: %d MiB are in use", in_use >> 20)
        if self._pressed and room > self._rooms.reserve:
            self._pressed = False
            self._taken_back = 0
            self._spent.clear()
            self._new_ephemerals.clear()
            probe.current.reached("a reserve that is whole again")
            log.warning("the reserve of etcd's quota is whole again: %d MiB are in use", in_use >> 20)
        return _SHORT_INTERVAL if room < _SOON * self._rooms.reserve else _INTERVAL

    def needs_entry(self) -> bool:
        """Whether an entry has to be appended, so that clients are not refused for ever.

        Called after `learned`. etcd's size in use counts pages that a compaction has freed only after another
        write (bbolt's FreePageN is without pending pages). If all that clients send is refused,
        there is none.
        """
        if not self._pressed or self._quiet < _QUIET or self._refused == self._stats.growth_refused:
            return False
        self._quiet, self._refused = 0, self._stats.growth_refused
        return True

    def is_short(self) -> bool:
        """Whether the reserve is touched, so that `admits` has to be asked about each request."""
        if self._stats.applied_bytes >= self._check_at:
            self._measure()
        return self._pressed

    def admits(self, pending: Pending, unseen: int) -> bool:
        """Whether a request is sent, and not refused since it takes space. What is admitted is counted.

        `unseen`: bytes of entries that are not applied here. Called while space `is_short`.
        """
        room = self._room - in_etcd(unseen)
        if pending.kind != Kind.CLIENT:
            # What lets clients in ends at last, and an open session may still be continued then.
            ends = {Kind.OPEN: self._rooms.clients_end, Kind.ATTACH: self._rooms.attaches_end}
            least = ends.get(Kind(pending.kind))
            return least is None or room >= least
        if not pending.session_id:
            return True  # this proxy itself needs an entry
        is_last = self._is_last or room < self._rooms.last
        cost = _cost(pending) if is_last else 0
        if pending.opcode == OpCode.CLOSE_SESSION and cost <= _ENDING:
            return True
        parts = _parts(pending)
        if parts is None or room < self._rooms.clients_end:
            admitted = False
        else:
            admitted = self._admits(pending.session_id, parts, cost, unseen)
        if not admitted:
            fields = parts[0][1] if parts and len(parts) == 1 else None
            probe.current.refused(pending.session_id, pending.opcode, fields, self._machine, is_last=is_last)
        return admitted

    def _admits(self, session_id: int, parts: Sequence[tuple[Effect, Any]], cost: int, unseen: int) -> bool:
        """As `admits`. `cost`: what the entry takes; 0: this is not the last room."""
        is_last = cost > 0
        given_back = self._given_back if is_last else {}
        lasting, ephemeral, given, deleted = _growth(self._machine.tree.nodes, parts, given_back)
        repeats = lasting == ephemeral == 0 and len(parts) == 1 and parts[0][0] is Effect.CREATES
        cost = max(0, cost - (deleted + repeats) * _BRIEF)
        if cost and ephemeral > 0:  # these have a room of their own, with their entries
            cost = max(0, cost - ephemeral - _BRIEF)
        net = max(lasting, lasting + cost + min(ephemeral, 0))
        if self._room - in_etcd(unseen) < self._rooms.shares_end:
            admitted = lasting <= 0 and ephemeral <= 0 and not cost and deleted > 0
        elif ephemeral > 0 and not self._has_room_for(session_id, ephemeral):
            admitted = net + ephemeral <= 0
        else:
            admitted = net <= 0 or self._may_grow(session_id, lasting, net - lasting, unseen)
        if admitted:
            self._spend(session_id, net)
            if is_last:
                given_back.update(given)
        return admitted

    def _may_grow(self, session_id: int, lasting: int, cost: int, unseen: int) -> bool:
        """Whether this session may make the tree grow by so much, with an entry that takes `cost` besides."""
        size = lasting + cost
        has_share = size <= (self._share - self._spent.get(session_id, 0)) // _PARTS
        if not self._has_allowance(size) or not (has_share or self._takes_back(lasting + unseen, cost)):
            return False
        probe.current.reached("growth that the reserve has room for")
        return True

    def _takes_back(self, growth: int, cost: int) -> bool:
        """Whether the tree is then still smaller than when the reserve was touched; if so, `cost` counts."""
        if self._machine.tree.size + growth + self._taken_back + cost > self._tree_then:
            return False
        self._taken_back += cost
        return True

    def _has_allowance(self, size: int) -> bool:
        """Whether the tree is then larger by `Rooms.allowance` at most than when the reserve was touched.

        This bounds all sessions together, and `Rooms.shares_end` does in the last room.
        """
        left = self._rooms.allowance - (self._machine.tree.size - self._tree_then)
        return size <= left // _PARTS and self._room >= self._rooms.shares_end

    def _spend(self, session_id: int, size: int) -> None:
        """Take from the share of a session, or restore it if `size` is below 0."""
        if not size:
            return
        spent = self._spent.pop(session_id, 0) + size
        if spent > 0:
            self._spent[session_id] = spent

    def _has_room_for(self, session_id: int, size: int) -> bool:
        """Whether the reserve has room for new ephemeral nodes of this size, of this session."""
        if self._room < self._rooms.ephemerals_end and not self._has_allowance(size):
            return False
        counted = self._new_ephemerals.setdefault(session_id, _NewEphemerals())
        counted.count(session_id, self._machine, self._pressed_at)
        if counted.size + size > self._share:
            return False
        counted.add(size)
        probe.current.reached("an ephemeral node that the reserve has room for")
        return True

    def count_refused(self) -> None:
        """A request was refused."""
        room = "room for one snapshot" if self._is_last else "reserve"
        probe.current.reached(f"a request that the {room} refuses")
        self._stats.growth_refused += 1

    @property
    def _appended(self) -> int:
        return in_etcd(self._stats.applied_bytes)

    @property
    def _in_use(self) -> int:
        return self._base + self._appended

    @property
    def _room(self) -> int:
        return self._quota - self._in_use

    @property
    def _next_snapshot(self) -> int:
        grown = self._size + self._stats.applied_bytes - self._applied
        return in_etcd(min(grown, self._machine.tree.size))

    @property
    def _share(self) -> int:
        """By so many bytes one session may make the tree grow, and again with new ephemeral nodes."""
        return self._rooms.allowance // _SHARES

    def _measure(self) -> None:
        """Find out whether the reserve is touched, and whether more of it is used than may be."""
        self._rooms = rooms = rooms_of(self._quota, self._percent, self._next_snapshot, self._needed)
        if self._room < rooms.reserve and not self._pressed:
            self._pressed = True
            self._pressed_at = self._machine.zxid
            self._tree_then = self._machine.tree.size
            log.error(
                "etcd is nearly full: %d of %d MiB are in use, and %d MiB are reserved. Requests that make"
                " the tree grow are refused with SYSTEMERROR until there is more space",
                self._in_use >> 20,
                self._quota >> 20,
                rooms.reserve >> 20,
            )
        if self._room < rooms.last and not self._is_last:
            self._is_last = True
            log.error(
                "etcd is nearly full: the last %d MiB are kept for snapshots of the tree. All writes of"
                " clients but deletes, some ephemeral nodes and what makes the tree smaller are refused with"
                " SYSTEMERROR",
                rooms.last >> 20,
            )
        left = self._room - (rooms.last if self._pressed else rooms.reserve)
        # Each byte of the log may also be one of the next snapshot.
        self._check_at = self._stats.applied_bytes + max(left // 4, 0)


def in_etcd(size: float) -> int:
    """What values of this size take: etcd's pages are not full. Entries of 10 kB took a fifth more."""
    return int(size * 5 // 4)


def _cost(pending: Pending) -> int:
    """The bytes that a request takes in etcd until its entry is deleted, about."""
    return _ENTRY + len(pending.body) + size_of(pending.identities)


def _parts(pending: Pending) -> Sequence[tuple[Effect, Any]] | None:
    """What a request does. A request that is no multi is its only part; None if to find out takes long."""
    operation = EXTENDED.writes.get(pending.opcode)
    if operation is None:
        return ()
    fields = pending.fields
    if fields is None:
        is_short = len(pending.body) <= JUDGED_AT_ONCE
        try:
            fields, _ = operation.decode(pending.body, 0, NO_PAUSE if is_short else BRIEFLY)
        except MalformedPacket:
            return ()  # the state machine answers it
        except TooLong:
            return None
    if operation.effect is Effect.OF_PARTS:
        return [(kind.effect, part) for kind, part in fields]
    return ((operation.effect, fields),)


def _size_of(acl: Sequence[Acl] | None) -> int:
    """Bytes of an ACL that a client sends, as `Rights.size`."""
    return 0 if acl is OPEN_ACL or acl is None else size_of_acl(acl)


def _changed(node: Node) -> int:
    """The zxid at which a node's data or children were changed."""
    return max(node.mzxid, node.pzxid)


class _Growth(NamedTuple):
    """By how many bytes a request makes the tree larger, about; below 0: smaller."""

    lasting: int
    ephemeral: int  # by nodes that go with their session
    given: dict[str, int]  # the nodes that count as given back, with `_changed`
    deleted: int  # how many of these it deletes


def _growth(
    nodes: Mapping[str, Node], parts: Sequence[tuple[Effect, Any]], given_back: Mapping[str, int]
) -> _Growth:
    """The growth by a request that has these parts. `given_back`: nodes that have been given back before."""
    lasting = ephemeral = deleted = 0
    given: dict[str, int] = {}
    full = len(given_back) >= _MOST_GIVEN_BACK
    for effect, fields in parts:
        if effect is Effect.CREATES:
            if len(parts) == 1 and fields[0] in nodes and not fields[3] & SEQUENTIAL:
                continue  # it is refused, or content with that node; in a multi it may be deleted before
            size = NODE_SIZE + len(fields[0] or "") + len(fields[1] or b"") + _size_of(fields[2])
            if fields[3] in EPHEMERAL_MODES:
                ephemeral += size
            else:
                lasting += size
            continue
        if effect is Effect.NOTHING or effect is Effect.OF_PARTS:  # no multi has a multi
            continue
        path = path_of(fields)
        node = None if path is None else nodes.get(path)
        if path is None or node is None:
            continue
        is_new = not full and path not in given and given_back.get(path) != _changed(node)
        if effect is Effect.DELETES:  # a subtree counts as its topmost node
            if not is_new:
                continue
            deleted += 1
            # A snapshot is compressed: the names above this one take next to nothing in it.
            size = NODE_SIZE + len(path) - path.rfind("/") + node.size + node.rights.size
            if session_of(node.owner):
                ephemeral -= size
            else:
                lasting -= size
        else:
            if effect is Effect.SETS_DATA:
                change = len(fields[1] or b"") - (0 if path in given else node.size)
            elif effect is Effect.SETS_ACL:
                change = _size_of(fields[1]) - node.rights.size
            else:
                assert_never(effect)
            if change >= 0:
                lasting += change
                continue
            if not is_new:
                continue
            lasting += change
        given[path] = _changed(node)
    return _Growth(lasting, ephemeral, given, deleted)
