"""ZooKeeper's watch order, by zxids.

A reply's zxid says how much of the log its server had applied. So a watch set at zxid s whose node changes
first at zxid c owes its event before the first reply of its connection with a zxid of c or above, a write's
own included; and an event owes a change after s. Events come in the order of their changes. A lasting watch
owes one event for each change, also if several have one zxid (a multi's, a session's end's). From that
follows: no event comes behind newer data, none is lost, none is doubled, none is made up.

A reconnected client's SetWatches owes, before its reply, an event for each watch whose node changed between
the zxid that the client names and the reply's (for a watch on an absent node: that exists then), and none
for others. These events have no zxid. Its watches are set one after the other, so events of later changes,
with their zxids, may come before its reply as well.

A server that loads its state anew skips some of the log, and tells the watches of its sessions what differs
then. So they miss a node that came and went meanwhile, as a reconnected client's do (`Skipped`).

Changes whose zxid is not known (calls without an answer that were applied, sessions that ran out) owe
nothing, but their events are let pass: events carry zxids, and no zxid brings one path's event twice.
A session with a reply of unknown zxid is not judged.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from proof.history.calls import Call, Taken, parent
from proof.history.partition import FOREIGN
from proof.history.records import (
    CHANGED,
    CHILDREN,
    CREATED,
    DELETED,
    NO_NODE,
    OK,
    SEQUENCE_DIGITS,
    AddWatch,
    Event,
    Exists,
    GetChildren,
    GetData,
    Invoked,
    Lost,
    Replied,
    SetWatches,
    Violation,
)

_NAMES = {CREATED: "created", DELETED: "deleted", CHANGED: "changed", CHILDREN: "children"}
_OF_DATA = frozenset({CREATED, DELETED, CHANGED})
_OF_CHILDREN = frozenset({DELETED, CHILDREN})
_TYPES = {
    "data": _OF_DATA,
    "children": _OF_CHILDREN,
    "persistent": _OF_DATA | _OF_CHILDREN,
    "recursive": _OF_DATA,
}
_LASTING = ("persistent", "recursive")


@dataclass(slots=True)
class Changes:
    """What happened to the nodes, as events: by path, in the order of zxids."""

    by_path: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """(zxid, type) of each event that a watch on this very path is due."""
    uncertain: Counter[tuple[int, str]] = field(default_factory=Counter)
    """(type, path) of changes that may have been, at a zxid that is not known, with how many they may be."""

    def add(self, zxid: int | None, type: int, path: str) -> None:
        """One event; those of known zxids in any order, before `sort`."""
        if zxid is None:
            self.uncertain[type, path] += 1
        else:
            self.by_path.setdefault(path, []).append((zxid, type))

    def may_be(self, type: int, path: str) -> int:
        """How many changes of unknown zxid may give this event; a sequential node's is under its prefix."""
        return self.uncertain[type, path] + self.uncertain[type, path[:-SEQUENCE_DIGITS] + "*"]

    def change(self, zxid: int | None, type: int, path: str) -> None:
        """A node that came, went or got other data, with what its parent's watches are due."""
        self.add(zxid, type, path)
        if type != CHANGED and path != "/":
            self.add(zxid, CHILDREN, parent(path))

    def sort(self) -> None:
        """Sort all events."""
        for events in self.by_path.values():
            events.sort(key=lambda event: event[0])


Skipped = Mapping[int, Sequence[tuple[int, int]]]
"""By session what its server has skipped while it was there: zxids above the first, up to the second."""
NOTHING_SKIPPED: Skipped = {}

Key = tuple[str, str]
"""(kind of watch, path)."""


@dataclass(slots=True)
class _Connection:
    """Watches of one connection."""

    since: dict[Key, int] = field(default_factory=dict)
    """The zxid at which an armed watch was set."""
    settled: dict[Key, int] = field(default_factory=dict)
    """The zxid up to which an armed watch has given what it owes."""
    due: list[tuple[int, str, str]] = field(default_factory=list)
    given: Counter[tuple[int, int, str]] = field(default_factory=Counter)
    """How often (zxid, type, path) was reported."""
    asked: dict[int, set[tuple[int, str]]] = field(default_factory=dict)
    """Of each SetWatches that waits: the events since."""
    listed: dict[int, frozenset[Key]] = field(default_factory=dict)
    """And the watches that it sets."""
    told: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Of these the ones that no watch gave that was armed before, and how often."""


def _watching(event: Event) -> Iterator[Key]:
    """The watches that give this event."""
    for kind, types in _TYPES.items():
        if event.type in types and kind != "recursive":
            yield kind, event.path
    if event.type in _OF_DATA:
        path = event.path
        while True:
            yield "recursive", path
            if path == "/":
                break
            path = parent(path)


def _listed(request: SetWatches) -> Iterator[Key]:
    """The watches that a request sets."""
    for kind, paths in (
        ("data", request.data),
        ("data", request.exists),
        ("children", request.children),
        ("persistent", request.persistent),
        ("recursive", request.recursive),
    ):
        for path in paths:
            yield kind, path


class _Judge:
    def __init__(self, taken: Taken, changes: Changes, skipped: Skipped) -> None:
        self._taken = taken
        self._changes = changes
        self._skipped = skipped
        self._owed: dict[Key, list[tuple[int, int, str]]] = {}
        self._connections: dict[int, _Connection] = {}
        self._found: dict[tuple[int, str], set[int]] = {}  # zxids of events of no known change

    def run(self) -> Iterator[Violation]:
        calls = {call.number: call for call in self._taken.calls}
        unknown = {call.session for call in self._taken.calls if call.reply is not None and call.zxid is None}
        for place, record in enumerate(self._taken.records):
            if isinstance(record, Invoked):
                if isinstance(record.request, SetWatches):
                    connection = self._connections.setdefault(record.session, _Connection())
                    connection.asked[record.call] = set()
                    connection.listed[record.call] = frozenset(_listed(record.request))
            elif isinstance(record, Replied):
                call = calls[record.call]
                if call.session not in unknown and call.zxid is not None:
                    connection = self._connections.setdefault(call.session, _Connection())
                    yield from self._reply(connection, call, call.zxid, place)
            elif isinstance(record, Event):
                if record.session in unknown:
                    continue
                connection = self._connections.setdefault(record.session, _Connection())
                yield from self._event(connection, record, place)
            elif not isinstance(record, Lost):  # a connection began or ended
                self._connections.pop(record.session, None)

    def _reply(self, connection: _Connection, call: Call, zxid: int, place: int) -> Iterator[Violation]:
        for due, kind, path in self._overdue(connection, call.session, zxid):
            yield Violation(
                "watch lost or late",
                f"{path} changed at {due:#x}; a reply with {zxid:#x} came before its {kind} watch's event",
                (place,),
            )
        request, reply = call.request, call.reply
        assert reply is not None
        if isinstance(request, SetWatches):
            came = connection.asked.pop(call.number, set())
            connection.listed.pop(call.number, None)
            if reply.error == OK:
                yield from self._set_again(connection, request, came, zxid, place)
        elif isinstance(request, AddWatch):
            if reply.error == OK:
                self._arm(
                    connection, ("recursive" if request.recursive else "persistent", request.path), zxid
                )
        elif isinstance(request, Exists | GetData | GetChildren) and request.watch:
            absent = isinstance(request, Exists) and reply.error == NO_NODE
            if reply.error == OK or absent:
                kind = "children" if isinstance(request, GetChildren) else "data"
                self._arm(connection, (kind, request.path), zxid)

    def _overdue(self, connection: _Connection, session: int, zxid: int) -> Iterator[tuple[int, str, str]]:
        """What is owed up to `zxid` and was not given. It is not owed any more then."""
        while connection.due and connection.due[0][0] <= zxid:
            due, kind, path = heappop(connection.due)
            key = (kind, path)
            settled = connection.settled.get(key)
            if settled is None or self._next(key, settled) != due:
                continue
            if (after := self._missed_until(session, due, path)) is not None:
                self._settle(connection, key, after)
                continue
            if kind not in _LASTING:
                yield due, kind, path
                self._disarm(connection, key)
                continue
            events = self._events(key)
            first = bisect_left(events, due, key=lambda event: event[0])
            last = bisect_right(events, due, key=lambda event: event[0])
            owed = Counter(events[first:last])
            if any(connection.given[event] < count for event, count in owed.items()):
                yield due, kind, path
            self._settle(connection, key, due)

    def _missed_until(self, session: int, zxid: int, path: str) -> int | None:
        """The end of what was skipped, if a change was with it and the node is absent at both ends."""
        for before, after in self._skipped.get(session, ()):
            if before < zxid <= after and not any(self._is_there(path, end) for end in (before, after)):
                return after
        return None

    def _is_there(self, path: str, zxid: int) -> bool:
        states = self._between(path, frozenset({CREATED, DELETED}), -1, zxid)
        return bool(states) and states[-1][1] == CREATED

    def _set_again(
        self, connection: _Connection, request: SetWatches, came: set[tuple[int, str]], zxid: int, place: int
    ) -> Iterator[Violation]:
        reasons: Counter[tuple[int, str]] = Counter()  # events that the watches may give
        for kind, paths in (("data", request.data), ("children", request.children)):
            for path in paths:
                missed = self._between(path, _TYPES[kind], request.zxid, zxid)
                changed = missed or any(self._changes.may_be(type, path) for type in _TYPES[kind])
                # Of a node that is not there a server tells DELETED, whenever it went.
                possible = _TYPES[kind] if changed else {DELETED}
                reasons.update(
                    (type, path) for type in possible if self._may_exist(type, path, request.zxid, zxid)
                )
                if any((type, path) in came for type in _TYPES[kind]):
                    continue
                if missed:
                    yield _missed(kind, path, place)
                self._arm(connection, (kind, path), zxid)
        for path in request.exists:
            before = self._between(path, _OF_DATA, -1, zxid)
            if self._may_exist(CREATED, path, request.zxid, zxid):
                reasons[CREATED, path] += 1
            if (CREATED, path) in came:
                continue
            if before and before[-1][1] != DELETED and before[-1][0] > request.zxid:
                yield _missed("data", path, place)
            self._arm(connection, ("data", path), zxid)
        for kind, paths in (("persistent", request.persistent), ("recursive", request.recursive)):
            for path in paths:
                self._arm(connection, (kind, path), zxid)
        # With a second SetWatches on its way there is no knowing whose events came.
        if not connection.asked:
            for type, path in sorted(connection.told - reasons):
                name = f"event {_NAMES.get(type, type)} of {path}"
                yield Violation("watch without change", f"SetWatches: {name}: nothing like that", (place,))
            connection.told.clear()

    def _may_exist(self, type: int, path: str, since: int, until: int) -> bool:
        """Whether a node may be in the state that an event of a SetWatches tells, between two zxids."""
        if any(self._changes.may_be(uncertain, path) for uncertain in (CREATED, DELETED)):
            return True
        if path.startswith(FOREIGN):
            return True
        states = frozenset({CREATED, DELETED})
        first = CREATED if path == "/" else DELETED
        before = [first, *(state for _, state in self._between(path, states, -1, since))]
        # A multi may change it twice: only the last state at a zxid is seen.
        seen = {before[-1], *dict(self._between(path, states, since, until)).values()}
        return (DELETED if type == DELETED else CREATED) in seen

    def _event(self, connection: _Connection, event: Event, place: int) -> Iterator[Violation]:
        name = f"event {_NAMES.get(event.type, event.type)} of {event.path}"
        keys = self._matching(connection, event)
        if event.zxid is None:
            told = (event.type, event.path)
            if connection.asked:
                # A deleted node is reported once for each list of the request that has it.
                next((came for came in connection.asked.values() if told not in came), set()).add(told)
                if not keys:
                    connection.told[told] += 1
            elif not keys:
                yield Violation("watch doubled", f"{name} has no watch", (place,))
            for key in keys:
                if key[0] in _LASTING:
                    self._give_next(connection, key, event)
                else:
                    self._disarm(connection, key)
            return
        if not keys and not self._is_set_early(connection, event):
            yield Violation("watch doubled", f"{name} at {event.zxid:#x} has no watch", (place,))
            return
        repeats = self._changes.by_path.get(event.path, []).count((event.zxid, event.type))
        if repeats:
            for due, kind, path in self._overdue(connection, event.session, event.zxid - 1):
                if (kind, path) in keys:
                    what = f"{name}: the change at {due:#x} was left out"
                    yield Violation("watch lost or late", what, (place,))
                else:
                    what = f"{name} at {event.zxid:#x} came before that of {path} at {due:#x}"
                    yield Violation("watch order", what, (place,))
        else:
            found = self._found.setdefault((event.type, event.path), set())
            found.add(event.zxid)
            if len(found) > self._changes.may_be(event.type, event.path):
                what = f"{name}: nothing like that at {event.zxid:#x}"
                yield Violation("watch without change", what, (place,))
        given = (event.zxid, event.type, event.path)
        connection.given[given] += 1
        # A session's end at an unknown zxid may take several children away.
        several = event.type == CHILDREN and self._changes.may_be(CHILDREN, event.path) > 0
        if connection.given[given] > max(repeats, 1) and not several:
            yield Violation("watch doubled", f"{name} at {event.zxid:#x} came twice", (place,))
        for key in keys:
            if key[0] not in _LASTING:
                self._disarm(connection, key)
            elif not repeats:
                self._settle(connection, key, event.zxid)

    def _is_set_early(self, connection: _Connection, event: Event) -> bool:
        """Whether a SetWatches that waits may have set its watch. That gives one event, unless it lasts."""
        told = (event.type, event.path)
        keys = set(_watching(event))
        for call, listed in connection.listed.items():
            came = connection.asked[call]
            if any(kind in _LASTING or told not in came for kind, _ in keys & listed):
                came.add(told)
                return True
        return False

    def _give_next(self, connection: _Connection, key: Key, event: Event) -> None:
        """An event without a zxid is that of the first change for which a lasting watch owes one."""
        first = connection.settled[key]
        for owed, count in Counter(self._events(key)).items():
            if owed[0] > first and owed[1:] == (event.type, event.path) and connection.given[owed] < count:
                connection.given[owed] += 1
                break

    def _disarm(self, connection: _Connection, key: Key) -> None:
        connection.since.pop(key, None)
        connection.settled.pop(key, None)

    def _arm(self, connection: _Connection, key: Key, zxid: int) -> None:
        if key[0] not in _LASTING and key in connection.since:
            return  # set twice is set once
        connection.since.setdefault(key, zxid)
        self._settle(connection, key, zxid)

    def _settle(self, connection: _Connection, key: Key, zxid: int) -> None:
        """Settle a watch: no event up to `zxid` is missing any more."""
        connection.settled[key] = zxid
        due = self._next(key, zxid)
        if due is not None:
            heappush(connection.due, (due, *key))

    def _matching(self, connection: _Connection, event: Event) -> list[Key]:
        """The armed watches that this event may come from."""
        zxid = event.zxid
        return [
            key
            for key in _watching(event)
            if key in connection.since and (zxid is None or zxid > connection.since[key])
        ]

    def _between(self, path: str, types: frozenset[int], after: int, until: int) -> list[tuple[int, int]]:
        events = self._changes.by_path.get(path, [])
        first = bisect_right(events, after, key=lambda event: event[0])
        last = bisect_right(events, until, key=lambda event: event[0])
        return [event for event in events[first:last] if event[1] in types]

    def _next(self, key: Key, zxid: int) -> int | None:
        """The first change behind `zxid` that a watch owes an event for."""
        events = self._events(key)
        place = bisect_right(events, zxid, key=lambda event: event[0])
        return events[place][0] if place < len(events) else None

    def _events(self, key: Key) -> Sequence[tuple[int, int, str]]:
        """What a watch that is always armed owes, as (zxid, type, path) in the order of zxids."""
        known = self._owed.get(key)
        if known is None:
            kind, path = key
            start = path.rstrip("/") + "/"
            paths = {path}
            if kind == "recursive":
                paths |= {other for other in self._changes.by_path if other.startswith(start)}
            known = self._owed[key] = sorted(
                (zxid, type, of)
                for of in paths
                for zxid, type in self._changes.by_path.get(of, ())
                if type in _TYPES[kind]
            )
        return known


def check_watches(taken: Taken, changes: Changes, skipped: Skipped) -> Iterator[Violation]:
    """Yield what is wrong with watch events. `changes`: all that the tree went through, sorted."""
    yield from _Judge(taken, changes, skipped).run()


def _missed(kind: str, path: str, place: int) -> Violation:
    return Violation(
        "watch lost or late", f"SetWatches: {path} has changed, its {kind} watch told nothing", (place,)
    )
