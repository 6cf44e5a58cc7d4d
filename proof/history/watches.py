"""ZooKeeper's watch order, by zxids.

A reply's zxid says how much of the log its server had applied. So a watch set at zxid s whose node changes
first at zxid c owes its event before the first reply of its connection with a zxid of c or above, a write's
own included; and an event owes a change. From that follows: no event comes behind newer data, none is lost,
none is doubled, none is made up.

A reconnected client's SetWatches owes, before its reply, an event for each watch whose node changed between
the zxid that the client names and the reply's (for a watch on an absent node: that exists then). These events
have no zxid.

Changes whose zxid is not known (calls without an answer that were applied, sessions that ran out) owe
nothing, but their events are let pass: events carry zxids, and no zxid brings one path's event twice.
A session with a reply of unknown zxid is not judged.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from proof.history.calls import Call, Taken, parent
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
        """Put all in order."""
        for events in self.by_path.values():
            events.sort(key=lambda event: event[0])


Key = tuple[str, str]
"""(kind of watch, path)."""


@dataclass(slots=True)
class _Connection:
    """Watches of one connection. An armed watch has the zxid at which it was set, or last fired."""

    armed: dict[Key, int] = field(default_factory=dict)
    due: list[tuple[int, str, str]] = field(default_factory=list)
    given: set[tuple[int, int, str]] = field(default_factory=set)
    asked: dict[int, set[tuple[int, str]]] = field(default_factory=dict)
    """Of each SetWatches that waits: the events since."""


class _Judge:
    def __init__(self, taken: Taken, changes: Changes) -> None:
        self._taken = taken
        self._changes = changes
        self._below: dict[str, list[tuple[int, int]]] = {}
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
        while connection.due and connection.due[0][0] <= zxid:
            due, kind, path = heappop(connection.due)
            armed = connection.armed.get((kind, path))
            if armed is None or self._next(kind, path, armed) != due:
                continue
            yield Violation(
                "watch lost or late",
                f"{path} changed at {due:#x}; a reply with {zxid:#x} came before its {kind} watch's event",
                (place,),
            )
            self._fire(connection, (kind, path), due)
        request, reply = call.request, call.reply
        assert reply is not None
        if isinstance(request, SetWatches):
            if reply.error == OK:
                yield from self._set_again(connection, call, request, zxid, place)
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

    def _set_again(
        self, connection: _Connection, call: Call, request: SetWatches, zxid: int, place: int
    ) -> Iterator[Violation]:
        came = connection.asked.pop(call.number, set())
        for kind, paths in (("data", request.data), ("children", request.children)):
            for path in paths:
                missed = self._between(path, _TYPES[kind], request.zxid, zxid)
                if any((type, path) in came for type in _TYPES[kind]):
                    continue
                if missed:
                    yield _missed(kind, path, place)
                self._arm(connection, (kind, path), zxid)
        for path in request.exists:
            before = self._between(path, _OF_DATA, -1, zxid)
            if (CREATED, path) in came:
                continue
            if before and before[-1][1] != DELETED and before[-1][0] > request.zxid:
                yield _missed("data", path, place)
            self._arm(connection, ("data", path), zxid)
        for kind, paths in (("persistent", request.persistent), ("recursive", request.recursive)):
            for path in paths:
                self._arm(connection, (kind, path), zxid)

    def _event(self, connection: _Connection, event: Event, place: int) -> Iterator[Violation]:
        name = f"event {_NAMES.get(event.type, event.type)} of {event.path}"
        if event.zxid is None:
            waiting = [came for came in connection.asked.values() if (event.type, event.path) not in came]
            if waiting:
                waiting[0].add((event.type, event.path))
                for key in self._matching(connection, event):
                    if key[0] not in _LASTING:
                        connection.armed.pop(key, None)
                return
            if not self._matching(connection, event):
                yield Violation("watch doubled", f"{name} has no watch", (place,))
            for key in self._matching(connection, event):
                if key[0] not in _LASTING:
                    connection.armed.pop(key)
            return
        keys = self._matching(connection, event)
        if not keys:
            yield Violation("watch doubled", f"{name} at {event.zxid:#x} has no watch", (place,))
            return
        known = (event.zxid, event.type) in self._changes.by_path.get(event.path, ())
        found = self._found.setdefault((event.type, event.path), set())
        if not known:
            found.add(event.zxid)
        if len(found) > self._changes.may_be(event.type, event.path):
            yield Violation("watch without change", f"{name}: nothing like that at {event.zxid:#x}", (place,))
        given = (event.zxid, event.type, event.path)
        repeats = self._changes.by_path.get(event.path, []).count((event.zxid, event.type))
        # A session's end at an unknown zxid may take several children away.
        several = repeats > 1 or (not known and event.type == CHILDREN)
        if given in connection.given and not several:
            yield Violation("watch doubled", f"{name} at {event.zxid:#x} came twice", (place,))
        connection.given.add(given)
        for key in keys:
            due = self._next(*key, connection.armed[key])
            if known and due is not None and due < event.zxid and event.type in _TYPES[key[0]]:
                yield Violation(
                    "watch lost or late", f"{name}: the change at {due:#x} was left out", (place,)
                )
            self._fire(connection, key, event.zxid)

    def _fire(self, connection: _Connection, key: Key, zxid: int) -> None:
        """A watch has given its event: one that lasts waits for the next."""
        if key[0] in _LASTING:
            self._arm(connection, key, zxid)
        else:
            connection.armed.pop(key, None)

    def _arm(self, connection: _Connection, key: Key, zxid: int) -> None:
        if key[0] not in _LASTING and key in connection.armed:
            return  # set twice is set once
        connection.armed[key] = zxid
        due = self._next(*key, zxid)
        if due is not None:
            heappush(connection.due, (due, *key))

    def _matching(self, connection: _Connection, event: Event) -> list[Key]:
        """The armed watches that this event may come from."""
        keys: list[Key] = [
            (kind, event.path)
            for kind, types in _TYPES.items()
            if event.type in types and kind != "recursive"
        ]
        if event.type in _OF_DATA:
            path = event.path
            while True:
                keys.append(("recursive", path))
                if path == "/":
                    break
                path = parent(path)
        return [key for key in keys if key in connection.armed]

    def _between(self, path: str, types: frozenset[int], after: int, until: int) -> list[tuple[int, int]]:
        events = self._changes.by_path.get(path, [])
        first = bisect_right(events, after, key=lambda event: event[0])
        last = bisect_right(events, until, key=lambda event: event[0])
        return [event for event in events[first:last] if event[1] in types]

    def _next(self, kind: str, path: str, zxid: int) -> int | None:
        """The first change that a watch set at `zxid` owes an event for."""
        if kind == "recursive":
            events: Sequence[tuple[int, int]] = self._subtree(path)
        else:
            events = self._changes.by_path.get(path, [])
        types = _TYPES[kind]
        for place in range(bisect_right(events, zxid, key=lambda event: event[0]), len(events)):
            if events[place][1] in types:
                return events[place][0]
        return None

    def _subtree(self, path: str) -> list[tuple[int, int]]:
        known = self._below.get(path)
        if known is None:
            start = path.rstrip("/") + "/"
            known = self._below[path] = sorted(
                (zxid, type)
                for other, events in self._changes.by_path.items()
                if other == path or other.startswith(start)
                for zxid, type in events
                if type != CHILDREN
            )
        return known


def check_watches(taken: Taken, changes: Changes) -> Iterator[Violation]:
    """Yield what is wrong with watch events. `changes`: all that the tree went through, sorted."""
    yield from _Judge(taken, changes).run()


def _missed(kind: str, path: str, place: int) -> Violation:
    return Violation(
        "watch lost or late", f"SetWatches: {path} has changed, its {kind} watch told nothing", (place,)
    )
