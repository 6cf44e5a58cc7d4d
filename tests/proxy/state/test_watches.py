"""The watch table: which client gets which event, once, and in which order."""

import zlib
from itertools import islice
from sys import getsizeof
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codec.constants import EventType, WatcherType
from codec.jute import Acl
from proxy.state import by_path
from proxy.state import watches as module
from proxy.state.notifications import Notifications
from proxy.state.pause import Lengths, Pause
from proxy.state.rights import Rights, rights_of
from proxy.state.watches import TreeEvent, WatchTable
from schema.entry import Identity
from tests.table import one_by_one

CREATED, DELETED, CHANGED, CHILDREN = (
    EventType.NODE_CREATED,
    EventType.NODE_DELETED,
    EventType.NODE_DATA_CHANGED,
    EventType.NODE_CHILDREN_CHANGED,
)
NODE_ACL = rights_of((Acl(1, "ip", "::1"),))
PARENT_ACL = rights_of((Acl(1, "ip", "::2"),))


class Client:
    """A watcher that notes its events, together with all others."""

    def __init__(self, name: str, told: list[tuple[str, int, str]]) -> None:
        self.session_id = ord(name)
        self.identities = (Identity("super", ""),)  # may READ all nodes
        self.name = name
        self.told = told

    def notify(self, notifications: Notifications) -> None:
        assert notifications.zxid == 7
        for kind, path in notifications.events:
            assert notifications.rights is (PARENT_ACL if kind == CHILDREN else NODE_ACL)
            self.told.append((self.name, kind, path))


class Room:
    def __init__(self) -> None:
        self.told: list[tuple[str, int, str]] = []
        self.table = WatchTable()
        self.a, self.b = Client("a", self.told), Client("b", self.told)

    def fire(self, kind: int, path: str) -> list[tuple[str, int, str]]:
        """The events of one change."""
        self.told.clear()
        self.table.fire([TreeEvent(kind, path, NODE_ACL, PARENT_ACL)], 7)
        return list(self.told)

    def do(self, what: str, path: str, detail: int) -> object:
        """One of `_STEPS`: the events, or whether a watch was removed."""
        client = self.b if detail is True else self.a
        if what in ("data", "children"):
            (self.table.data if what == "data" else self.table.children).add(path, client)
        elif what in ("persistent", "recursive"):
            self.table.add_lasting(path, client, recursive=what == "recursive")
        elif what == "drop":
            self.table.drop(client)
        elif what == "remove":
            return self.table.remove(path, client, WatcherType(detail))
        else:
            return self.fire(detail, path)
        return None


@pytest.fixture
def room() -> Room:
    return Room()


def test_watchers_are_told_in_the_order_in_which_they_came(room: Room) -> None:
    room.table.data.add("/p/n", room.b)
    room.table.data.add("/p/n", room.a)
    assert [name for name, _, _ in room.fire(CHANGED, "/p/n")] == ["b", "a"]


def test_children_that_changed_unseen_are_told_of_alone_and_to_no_recursive_watch() -> None:
    """After a load, when the event of the child itself is not known."""
    table = WatchTable()
    told: list[tuple[str, int, Rights]] = []

    class Loose(Client):
        def notify(self, notifications: Notifications) -> None:
            told.extend((self.name, kind, notifications.rights) for kind, _ in notifications.events)

    once, lasting, recursive = (Loose(name, []) for name in "abc")
    table.data.add("/p", once)
    table.children.add("/p", once)
    table.add_lasting("/p", lasting, recursive=False)
    table.add_lasting("/p", recursive, recursive=True)
    for names in ("ab", "b"):
        told.clear()
        table.fire([TreeEvent(CHILDREN, "/p", NODE_ACL, PARENT_ACL)], 7)
        assert told == [(name, CHILDREN, NODE_ACL) for name in names]
    assert table.counts() == (3, 1, 3)


def test_what_administrators_are_told(room: Room) -> None:
    table = room.table
    table.data.add("/p", room.a)
    table.add_lasting("/p", room.a, recursive=False)
    table.add_lasting("/q", room.a, recursive=True)
    table.data.add("/q", room.b)
    assert dict(table.paths_by_watcher()) == {room.a: {"/p", "/q"}, room.b: {"/q"}}
    watchers = {path: set(watchers) for path, watchers in table.watchers_by_path()}
    assert watchers == {"/p": {room.a}, "/q": {room.a, room.b}}


def test_to_list_many_watched_paths_pauses_also_where_they_are_listed_already(room: Room) -> None:
    for number in range(3000):
        room.table.data.add(f"/{number}", room.a)
        room.table.add_lasting(f"/{number}", room.a, recursive=False)
    pauses: list[int] = []

    class Counted(Pause):
        def __call__(self) -> None:
            super().__call__()
            pauses.append(1)

    assert len(dict(room.table.watchers_by_path(Counted(Lengths(every=1000))))) == 3000
    assert len(pauses) == 6


@pytest.mark.parametrize("listed", [0, 1, 2])
def test_a_path_whose_watches_change_during_a_list_is_listed_once(room: Room, listed: int) -> None:
    """`listed`: so many paths are listed before the change."""
    table = room.table
    table.data.add("/fires", room.a)
    table.add_lasting("/fires", room.b, recursive=False)
    table.data.add("/stays", room.a)
    table.add_lasting("/read", room.b, recursive=False)
    listing = table.watchers_by_path()
    paths = [path for path, _ in islice(listing, listed)]
    table.data.add("/read", room.a)
    table.fire([TreeEvent(CHANGED, "/fires", NODE_ACL, PARENT_ACL)], 7)
    paths += [path for path, _ in listing]
    assert sorted(paths) == ["/fires", "/read", "/stays"]


def test_a_null_path_can_be_watched_and_never_fires(room: Room) -> None:
    room.table.add_lasting(None, room.a, recursive=False)
    assert room.table.holds(None, room.a, WatcherType.PERSISTENT)
    assert room.table.remove(None, room.a, WatcherType.ANY)
    assert not room.table


_PATHS = ["/", "/p", "/p/n", "/p/m", "/p/n/d"]
_NODES = st.sampled_from(_PATHS[1:])
_ONE_SHOT, _PERSISTENT, _RECURSIVE = range(3)  # ZooKeeper's WatcherMode
_MODES = ("data", "children", "persistent", "recursive")
_STEPS = st.lists(
    st.one_of(
        *[st.tuples(st.just(mode), st.sampled_from(_PATHS), st.booleans()) for mode in _MODES],
        st.tuples(st.just("fire"), _NODES, st.sampled_from([CREATED, DELETED, CHANGED])),
        st.tuples(st.just("remove"), st.sampled_from(_PATHS), st.sampled_from(list(WatcherType))),
        st.tuples(st.just("drop"), st.just(""), st.booleans()),
    ),
    max_size=40,
)


class Manager:
    """ZooKeeper's WatchManager, as plain as can be: the modes of each (client, path)."""

    def __init__(self) -> None:
        self.modes: dict[tuple[str, str], set[int]] = {}

    def add(self, name: str, path: str, mode: int) -> None:
        self.modes.setdefault((name, path), set()).add(mode)

    def remove(self, name: str, path: str, modes: set[int]) -> bool:
        """removeWatcher(path, watcher, mode)."""
        held = self.modes.get((name, path), set())
        removed = bool(held & modes)
        held -= modes
        if not held:
            self.modes.pop((name, path), None)
        return removed

    def trigger(self, path: str) -> set[str]:
        """triggerWatch: whom it would tell."""
        told = set()
        for (name, watched), modes in list(self.modes.items()):
            above = watched == "/" or path.startswith(watched + "/")
            if watched == path:
                told.add(name)
                self.remove(name, path, {_ONE_SHOT})
            elif above and _RECURSIVE in modes:
                told.add(name)
        return told


_ALL_MODES = {_ONE_SHOT, _PERSISTENT, _RECURSIVE}


class Model:
    """DataTree's two managers."""

    def __init__(self) -> None:
        self.data, self.children = Manager(), Manager()

    def add(self, what: str, path: str, name: str) -> None:
        if what in ("data", "children"):
            (self.data if what == "data" else self.children).add(name, path, _ONE_SHOT)
        elif what == "persistent":
            self.data.add(name, path, _PERSISTENT)
            self.children.add(name, path, _PERSISTENT)
        else:
            self.data.add(name, path, _RECURSIVE)

    def remove(self, path: str, name: str, kind: WatcherType) -> bool:
        if kind is WatcherType.CHILDREN:
            return self.children.remove(name, path, {_ONE_SHOT})
        if kind is WatcherType.DATA:
            return self.data.remove(name, path, {_ONE_SHOT})
        if kind is WatcherType.PERSISTENT_RECURSIVE:
            return self.data.remove(name, path, {_RECURSIVE})
        modes = _ALL_MODES if kind is WatcherType.ANY else {_PERSISTENT}
        return self.children.remove(name, path, modes) | self.data.remove(name, path, modes)

    def drop(self, name: str) -> None:
        for manager in (self.data, self.children):
            for _, path in [key for key in manager.modes if key[0] == name]:
                manager.remove(name, path, _ALL_MODES)

    def fire(self, kind: int, path: str) -> list[tuple[str, int, str]]:
        """The events, sorted within each trigger."""
        processed = self.data.trigger(path)
        told = [(name, kind, path) for name in sorted(processed)]
        if kind == DELETED:
            told += [(name, kind, path) for name in sorted(self.children.trigger(path) - processed)]
        if kind != CHANGED:
            above = path[: path.rindex("/")] or "/"
            told += [(name, int(CHILDREN), above) for name in sorted(self.children.trigger(above))]
        return told


_FIRES = [
    ("fire", path, kind) for kind in (CREATED, CHANGED, DELETED) for path in ("/p", "/p/n", "/p/n/d") * 2
]


@given(_STEPS)
@example([("data", "/p/n", False), *[("children", "/p/n", who) for who in (False, True)], *_FIRES])
@example([("children", "/", True), ("children", "/p", False), ("children", "/p/n", False), *_FIRES])
@example(
    [("data", "/p", False), *[("children", "/p", who) for who in (False, True)], ("fire", "/p", DELETED)]
)
@example([(mode, path, False) for path in ("/p", "/p/n") for mode in _MODES] + _FIRES)
@example(
    [(mode, path, who) for mode in _MODES for path in ("/p", "/p/n") for who in (False, True)]
    + [("remove", "/p", kind) for kind in WatcherType]
)
@example([("recursive", "/", True), ("recursive", "/p", False), ("children", "/p/n", False), *_FIRES])
@example([("persistent", "/p", False), *_FIRES, ("data", "/p", True), ("drop", "", False), *_FIRES])
def test_the_table_agrees_with_zookeepers_two_managers(steps: list[tuple[str, str, int]]) -> None:
    room, model = Room(), Model()
    table = room.table
    for what, path, detail in steps:
        client = room.b if detail is True else room.a
        held = what == "remove" and table.holds(path, client, WatcherType(detail))
        done = room.do(what, path, detail)
        if what in _MODES:
            model.add(what, path, client.name)
        elif what == "drop":
            model.drop(client.name)
        elif what == "remove":
            assert held is done is model.remove(path, client.name, WatcherType(detail))
        else:
            assert isinstance(done, list)
            assert sorted(done, key=str) == sorted(model.fire(detail, path), key=str)
        data, children = model.data.modes, model.children.modes
        assert table.counts() == (len({name for name, _ in data}), len({path for _, path in data}), len(data))
        assert table.total() == len(data) + len(children)
        assert table.held() == sum(map(len, data.values())) + sum(
            _ONE_SHOT in modes for modes in children.values()
        )
        assert bool(table) is bool(data or children)


@given(_STEPS, st.sets(st.integers(0, 40)))
def test_a_copy_stays_the_same_by_the_changes(steps: list[tuple[str, str, int]], passed: set[int]) -> None:
    """`passed`: before which steps changes are taken, besides at the end."""
    room, copy = Room(), WatchTable()

    def pass_changes() -> None:
        for client in (room.a, room.b):
            count = room.table.count_changes(client)
            got, gone = room.table.take_changes(client)
            assert sum(map(len, got)) + sum(map(len, gone)) == count
            assert room.table.count_changes(client) == 0
            copy.change(client, got, are_added=True)
            copy.change(client, gone, are_added=False)

    for number, (what, path, detail) in enumerate(steps):
        if number in passed:
            pass_changes()
        room.do(what, path, detail)
        if what == "drop":
            copy.drop(room.b if detail else room.a)
    pass_changes()
    for mode in _MODES:
        assert getattr(copy, mode).by_watcher == getattr(room.table, mode).by_watcher


def test_what_has_not_changed_is_no_change(room: Room) -> None:
    table = room.table
    table.data.add("/p", room.a)
    table.take_changes(room.a)
    table.data.add("/p", room.a)
    assert table.count_changes(room.a) == 0
    table.children.add("/p", room.a)
    assert table.take_changes(room.a) == ([set(), {"/p"}, set(), set()], [set()] * 4)
    table.forget_changes()
    assert table.count_changes(room.a) == 2


def test_many_watches_are_not_compared_to_count_them(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million took half a second at each look of a monitor."""
    monkeypatch.setattr(module, "COMPARED", 4)
    table = room.table
    for number in range(4):
        table.data.add(f"/{number}", room.a)
        table.add_lasting(f"/{number}", room.a, recursive=False)
    assert (table.counts(), table.total()) == ((1, 4, 4), 8)
    table.add_lasting("/9", room.a, recursive=True)
    assert (table.counts(), table.total()) == ((1, 9, 9), 13)


def test_watches_of_a_connection_are_dropped_some_at_a_time(room: Room) -> None:
    table = room.table
    for number in range(5):
        table.data.add(f"/d{number}", room.a)
        table.add_lasting(f"/p{number}", room.a, recursive=False)
    table.data.add("/d0", room.b)
    left = [table.total()]
    while not table.drop(room.a, 3):
        left.append(table.total())
        watched = dict(table.watchers_by_path())
        for path in ("/d0", "/d1", "/p0"):
            assert table.holds(path, room.a, WatcherType.ANY) is (room.a in watched.get(path, ()))
    assert len(left) == 4
    assert left == sorted(left, reverse=True)
    assert dict(table.watchers_by_path()) == {"/d0": {room.b: None}}


def _crowd(room: Room, count: int) -> list[Client]:
    clients = [Client(chr(number + 1), room.told) for number in range(count)]
    for client in clients:
        room.table.data.add("/p/n", client)
    return clients


@pytest.mark.parametrize("kind", [CREATED, DELETED, CHANGED])
def test_very_many_are_notified_with_pauses(room: Room, kind: EventType) -> None:
    clients = _crowd(room, 1500)
    for client in clients[:10]:
        room.table.children.add("/p", client)
    notified: set[int] = set()

    class Noting(Pause):
        def __call__(self) -> None:
            super().__call__()
            notified.add(len(room.told))

    room.table.fire([TreeEvent(kind, "/p/n", NODE_ACL, PARENT_ACL)], 7, Noting())
    assert len(notified) >= 3, "they were notified at a stretch"
    expected = [(client.name, kind, "/p/n") for client in clients]
    if kind != CHANGED:
        expected += [(client.name, CHILDREN, "/p") for client in clients[:10]]
    assert room.told == expected
    assert room.fire(kind, "/p/n") == []
    assert room.table.counts() == (0, 0, 0)


def test_a_connection_may_be_gone_while_its_watches_are_taken(room: Room) -> None:
    first, *_, last = _crowd(room, 1500)
    room.table.data.add("/other", last)

    class Dropping(Pause):
        def __call__(self) -> None:
            super().__call__()
            for client in (first, last):
                assert room.table.drop(client)

    room.table.fire([TreeEvent(CHANGED, "/p/n", NODE_ACL, PARENT_ACL)], 7, Dropping(Lengths(every=100)))
    assert not room.table


def test_recursive_watches_above_a_deep_node_may_go_while_they_are_looked_for(room: Room) -> None:
    path = "/a" * 300
    for length in range(2, len(path) + 1, 2):
        room.table.add_lasting(path[:length], room.a if length % 4 else room.b, recursive=True)
    pauses: list[int] = []

    class Dropping(Pause):
        def __call__(self) -> None:
            super().__call__()
            pauses.append(1)
            room.table.drop(room.b)

    room.table.fire([TreeEvent(CHANGED, path, NODE_ACL, PARENT_ACL)], 7, Dropping(Lengths(every=500)))
    assert len(pauses) >= 1
    assert room.told[0] == ("a", CHANGED, path)


def test_watchers_of_one_change_are_not_merged_for_each_ancestor(room: Room) -> None:
    path = "/a" * 400
    for length in range(2, len(path) + 1, 2):
        room.table.add_lasting(path[:length], Client(chr(0x100 + length), room.told), recursive=True)
    pauses: list[int] = []

    class Counted(Pause):
        def __call__(self) -> None:
            super().__call__()
            pauses.append(1)

    room.table.fire([TreeEvent(CHANGED, path, NODE_ACL, PARENT_ACL)], 7, Counted(Lengths(every=1000)))
    assert len(room.told) == 400
    assert len(pauses) <= 2


@one_by_one(
    ("each_in_a_folder", "watchers", "one_more_each", "most"),
    [(False, 50, False, 10), (True, 50, False, 100), (True, 100, True, 100)],
)
def test_watchers_of_common_ancestors_are_merged_once(
    each_in_a_folder: bool, watchers: int, one_more_each: bool, most: int
) -> None:
    """The nodes of a session that ended, below a hundred ancestors.

    These have the same watchers, or each has one more than the one above it.
    """
    room, top = Room(), "/a" * 100
    paths = [f"{top}/{number}/n" if each_in_a_folder else f"{top}/{number}" for number in range(400)]
    clients = [Client(chr(0x100 + number), room.told) for number in range(watchers)]
    for number, client in enumerate(clients):
        for length in range(2 + 2 * number * one_more_each, len(top) + 1, 2):
            room.table.add_lasting(top[:length], client, recursive=True)
    for number, path in enumerate(paths):
        room.table.add_lasting(path.removesuffix("/n"), clients[number % watchers], recursive=True)
    pauses: list[int] = []

    class Counted(Pause):
        def __call__(self) -> None:
            super().__call__()
            pauses.append(1)

    room.table.fire(
        [TreeEvent(DELETED, path, NODE_ACL, PARENT_ACL) for path in paths], 7, Counted(Lengths(every=1000))
    )
    assert sorted(room.told) == sorted((client.name, DELETED, path) for client in clients for path in paths)
    assert len(pauses) < most


def _branches(count: int, depth: int) -> list[TreeEvent]:
    """Deep branches that are deleted level by level, as by removeRecursive."""
    return [
        TreeEvent(DELETED, f"/{branch}" * steps, NODE_ACL, PARENT_ACL)
        for steps in range(depth, 0, -1)
        for branch in range(count)
    ]


def test_branches_that_go_in_turn_are_searched_once(room: Room) -> None:
    """A removeRecursive of 8,000 nodes in two branches would take many seconds."""
    events = _branches(3, 200)
    for event in events:
        room.table.add_lasting(event.path, room.a, recursive=True)
    with mock.patch.object(by_path, "crc32", wraps=zlib.crc32) as checksum:
        room.table.fire(events, 7)
    assert room.told == [("a", DELETED, event.path) for event in events]
    assert checksum.call_count < 10 * len(events)


def test_watchers_that_are_the_same_below_many_paths_are_merged_once(room: Room) -> None:
    """However many: all that were merged are remembered by the watchers, not by the paths."""
    events = _branches(6, 50)
    clients = [Client(chr(0x100 + number), room.told) for number in range(200)]
    for client in clients:
        room.table.add_lasting("/", client, recursive=True)
    for event in events:
        room.table.add_lasting(event.path, clients[0], recursive=True)
    with (
        mock.patch.object(module, "_MERGED", 5000),
        mock.patch.object(
            by_path.ByPath, "upwards", autospec=True, side_effect=by_path.ByPath.upwards
        ) as upwards,
    ):
        room.table.fire(events, 7)
    assert upwards.call_count <= 2 * 6
    assert len(room.told) == len(clients) * len(events)


def test_what_was_merged_is_forgotten_where_there_is_much_of_it(room: Room) -> None:
    events = _branches(3, 20)
    clients = [Client(chr(0x100 + number), room.told) for number in range(20)]
    for event in events:
        room.table.add_lasting(event.path, clients[len(event.path) // 2 - 1], recursive=True)
    with mock.patch.object(module, "_MERGED", 30):
        room.table.fire(events, 7)
    above = [(client.name, DELETED, path) for _, path, _, _ in events for client in clients[: len(path) // 2]]
    assert sorted(room.told) == sorted(above)


@pytest.mark.parametrize("fires", [True, False])
def test_watches_that_were_many_once_do_not_keep_their_room(room: Room, fires: bool) -> None:
    """`mntr` compares the watches of each connection, which takes as long as there is room for them."""
    paths = [f"/{number}" for number in range(20_000)]
    for path in paths:
        room.table.data.add(path, room.a)
    *gone, left = paths
    for path in gone:
        if fires:
            room.fire(CHANGED, path)
        else:
            room.table.remove(path, room.a, WatcherType.DATA)
    assert room.table.data.by_watcher[room.a] == {left}
    assert getsizeof(room.table.data.by_watcher[room.a]) < 1 << 20
