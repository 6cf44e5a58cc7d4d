"""The watch table: who is told of what, once, and in which order."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.constants import EventType
from codec.jute import Acl
from proxy.watches import WatchTable

CREATED, DELETED, CHANGED, CHILDREN = (
    EventType.NODE_CREATED,
    EventType.NODE_DELETED,
    EventType.NODE_DATA_CHANGED,
    EventType.NODE_CHILDREN_CHANGED,
)
NODE_ACL = (Acl(1, "ip", "::1"),)
PARENT_ACL = (Acl(1, "ip", "::2"),)


class Client:
    """A watcher that notes what it is told, together with all others."""

    def __init__(self, name: str, told: list[tuple[str, int, str]]) -> None:
        self.name = name
        self.told = told

    def notify(self, kind: int, path: str, zxid: int, acl: Sequence[Acl]) -> None:
        assert zxid == 7
        assert acl == (PARENT_ACL if kind == CHILDREN else NODE_ACL)
        self.told.append((self.name, kind, path))


class Room:
    def __init__(self) -> None:
        self.told: list[tuple[str, int, str]] = []
        self.table = WatchTable()
        self.a, self.b = Client("a", self.told), Client("b", self.told)

    def fire(self, kind: int, path: str) -> list[tuple[str, int, str]]:
        """What is told of one change."""
        self.told.clear()
        self.table.fire(kind, path, 7, NODE_ACL, PARENT_ACL)
        return list(self.told)


@pytest.fixture
def room() -> Room:
    return Room()


@pytest.mark.parametrize("kind", [CREATED, DELETED, CHANGED])
def test_a_data_watch_fires_once(room: Room, kind: EventType) -> None:
    room.table.data.add("/p/n", room.a)
    room.table.data.add("/p/n", room.a)
    room.table.data.add("/p/other", room.a)
    assert room.fire(kind, "/p/n") == [("a", kind, "/p/n")]
    assert room.fire(kind, "/p/n") == []


@pytest.mark.parametrize("kind", [CREATED, DELETED])
def test_a_child_watch_fires_once_for_a_child_that_comes_or_goes(room: Room, kind: EventType) -> None:
    room.table.children.add("/p", room.a)
    assert room.fire(kind, "/p/n") == [("a", CHILDREN, "/p")]
    assert room.fire(kind, "/p/n") == []


def test_a_child_watch_does_not_fire_for_data(room: Room) -> None:
    room.table.children.add("/p", room.a)
    room.table.children.add("/p/n", room.a)
    assert room.fire(CHANGED, "/p/n") == []
    assert room.fire(CREATED, "/p/n/deeper") == [("a", CHILDREN, "/p/n")]
    assert room.fire(CREATED, "/p/n") == [("a", CHILDREN, "/p")]


def test_a_node_that_is_deleted_is_told_of_once_to_each(room: Room) -> None:
    room.table.data.add("/p/n", room.a)
    room.table.children.add("/p/n", room.a)
    room.table.children.add("/p/n", room.b)
    room.table.children.add("/p", room.b)
    assert room.fire(DELETED, "/p/n") == [
        ("a", DELETED, "/p/n"),
        ("b", DELETED, "/p/n"),
        ("b", CHILDREN, "/p"),
    ]
    assert room.table.counts() == (0, 0, 0)


def test_the_children_of_the_root(room: Room) -> None:
    room.table.children.add("/", room.a)
    assert room.fire(CREATED, "/n") == [("a", CHILDREN, "/")]


def test_watchers_are_told_in_the_order_in_which_they_came(room: Room) -> None:
    room.table.data.add("/p/n", room.b)
    room.table.data.add("/p/n", room.a)
    assert [name for name, _, _ in room.fire(CHANGED, "/p/n")] == ["b", "a"]


def test_children_that_came_and_went_in_a_gap_are_told_of_alone(room: Room) -> None:
    table = WatchTable()
    told: list[tuple[int, Sequence[Acl]]] = []

    class Gap:
        def notify(self, kind: int, path: str, zxid: int, acl: Sequence[Acl]) -> None:
            told.append((kind, acl))

    watcher = Gap()
    table.data.add("/p", watcher)
    table.children.add("/p", watcher)
    table.fire(CHILDREN, "/p", 7, NODE_ACL, PARENT_ACL)
    assert told == [(CHILDREN, NODE_ACL)]
    assert table.counts() == (1, 1, 1)


def test_a_client_that_is_gone_is_forgotten(room: Room) -> None:
    for path in ("/p", "/p/n", "/q"):
        room.table.data.add(path, room.a)
        room.table.children.add(path, room.a)
    room.table.data.add("/p", room.b)
    assert room.table.counts() == (2, 6, 7)
    room.table.drop(room.a)
    room.table.drop(room.a)
    assert room.table.counts() == (1, 1, 1)
    assert room.fire(DELETED, "/p") == [("b", DELETED, "/p")]


def test_an_empty_table_is_false(room: Room) -> None:
    assert not room.table
    room.table.children.add("/p", room.a)
    assert room.table
    room.fire(CREATED, "/p/n")
    assert not room.table


_PATHS = st.sampled_from(["/", "/p", "/p/n", "/p/m"])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["data", "children"]), _PATHS, st.booleans()),
        st.tuples(
            st.just("fire"),
            _PATHS.filter(lambda path: path != "/"),
            st.sampled_from([CREATED, DELETED, CHANGED]),
        ),
        st.tuples(st.just("drop"), st.just(""), st.booleans()),
    ),
    max_size=30,
)


@given(_STEPS)
def test_the_table_agrees_with_the_plainest_one(steps: list[tuple[str, str, int]]) -> None:
    """Against sets of (path, client): what is told, and what is left."""
    room = Room()
    plain: dict[str, set[tuple[str, str]]] = {"data": set(), "children": set()}

    def take(kind: str, path: str) -> set[str]:
        found = {entry for entry in plain[kind] if entry[0] == path}
        plain[kind] -= found
        return {name for _, name in found}

    for what, path, detail in steps:
        client = room.b if detail else room.a
        if what in plain:
            (room.table.data if what == "data" else room.table.children).add(path, client)
            plain[what].add((path, client.name))
        elif what == "drop":
            room.table.drop(client)
            for entries in plain.values():
                entries -= {entry for entry in entries if entry[1] == client.name}
        else:
            expected = {(name, detail, path) for name in take("data", path)}
            if detail == DELETED:
                expected |= {(name, detail, path) for name in take("children", path)}
            if detail != CHANGED:
                above = path[: path.rindex("/")] or "/"
                expected |= {(name, CHILDREN, above) for name in take("children", above)}
            told = room.fire(detail, path)
            assert sorted(told) == sorted(expected)
        left = plain["data"] | plain["children"]
        assert room.table.counts() == (
            len({name for _, name in left}),
            len({path for path, _ in plain["data"]}) + len({path for path, _ in plain["children"]}),
            len(plain["data"]) + len(plain["children"]),
        )
        assert bool(room.table) is bool(left)
