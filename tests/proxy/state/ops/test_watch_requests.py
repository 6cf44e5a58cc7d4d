"""Requests about watches: addWatch, checkWatches, removeWatches, setWatches; more in tests/compat."""

import pytest

from codec.constants import AddWatchMode, ErrorCode, EventType, OpCode, WatcherType
from codec.errors import MalformedPacket
from codec.jute import INT, LONG, NULL, pack_string
from lab.oracle.requests import Create, Delete, SetData
from tests.proxy.state.ops.room import Client, do, held, read, refused, room
from tests.proxy.state.world import World
from tests.table import one_by_one


@one_by_one("mode", AddWatchMode)
@one_by_one("path", ["/open", "/missing", "/closed", "", None])
def test_any_path_can_be_watched(path: str | None, mode: AddWatchMode) -> None:
    world = room()
    client = Client()
    assert read(world, OpCode.ADD_WATCH, pack_string(path) + INT.pack(mode), client) == INT.pack(0)
    kinds = [kind for kind in WatcherType if world.watches.holds(path, client, kind)]
    own = WatcherType.PERSISTENT_RECURSIVE if mode else WatcherType.PERSISTENT
    assert kinds == [WatcherType.ANY, own]


def test_types() -> None:
    world = room()
    client = Client()
    world.watches.children.add("/open", client)
    world.watches.data.add("/open", Client())
    for kind in WatcherType:
        frame = pack_string("/open") + INT.pack(kind)
        if kind in (WatcherType.CHILDREN, WatcherType.ANY):
            assert read(world, OpCode.CHECK_WATCHES, frame, client) == b""
        else:
            assert refused(world, OpCode.CHECK_WATCHES, frame, client) is ErrorCode.NO_WATCHER
    assert refused(world, OpCode.CHECK_WATCHES, NULL + INT.pack(3), client) is ErrorCode.NO_WATCHER


def test_a_watch_is_removed_once_and_without_an_event() -> None:
    world = room()
    client, other = Client(), Client()
    for one in (client, other):
        world.watches.data.add("/open", one)
    frame = pack_string("/open") + INT.pack(WatcherType.DATA)
    assert read(world, OpCode.REMOVE_WATCHES, frame, client) == b""
    assert refused(world, OpCode.REMOVE_WATCHES, frame, client) is ErrorCode.NO_WATCHER
    assert client.told == []
    assert world.watches.holds("/open", other, WatcherType.DATA)


_List = list[str | None] | None


def _lists(last_seen: int, *lists: _List) -> bytes:
    """What setWatches takes, with three lists, and setWatches2 with five."""
    return LONG.pack(last_seen) + b"".join(
        NULL if texts is None else INT.pack(len(texts)) + b"".join(map(pack_string, texts)) for texts in lists
    )


def _set(world: World, last_seen: int, *lists: _List) -> Client:
    client = Client()
    opcode = OpCode.SET_WATCHES if len(lists) == 3 else OpCode.SET_WATCHES2
    assert read(world, opcode, _lists(last_seen, *lists), client) == b""
    return client


def test_what_was_missed_is_told() -> None:
    world = room()
    do(world, Create("/gone"))
    last = world.machine.zxid
    do(world, SetData("/open"), Create("/closed-too"), Delete("/gone"), Create("/closed2"))
    client = _set(world, last, ["/open", "/closed", "/gone"], ["/open", "/gone"], ["/", "/open", "/gone"])
    assert [(kind, path) for kind, path, _, _ in client.told] == [
        (EventType.NODE_DATA_CHANGED, "/open"),
        (EventType.NODE_DELETED, "/gone"),
        (EventType.NODE_CREATED, "/open"),
        (EventType.NODE_CHILDREN_CHANGED, "/"),
        (EventType.NODE_DELETED, "/gone"),
    ]
    assert {zxid for _, _, zxid, _ in client.told} == {-1}
    assert held(world, client) == [{"/closed", "/gone"}, {"/open"}, set(), set()]


def test_what_was_missed_carries_the_acl_that_may_withhold_it() -> None:
    world = room()
    client = _set(world, 0, ["/closed"], ["/closed"], ["/closed"])
    closed = world.machine.tree.nodes["/closed"].rights
    assert [rights for *_, rights in client.told] == [closed] * 3


@one_by_one(
    ("lists", "set_before"),
    [
        ((["/open"], None, [], [], []), 1),
        ((["/open", None], [], [], [], []), 1),
        (([], ["/gone", None], [], [], []), 1),
        (([], [], ["/open", None, "/"], [], []), 1),
        ((["/open"], ["/gone"], None, ["/open"], []), 2),
        ((["/open"], [], [], None, ["/open"]), 1),
        (([], [], [], ["/"], None), 2),
    ],
)
def test_a_null_is_stumbled_over_at_its_turn(lists: tuple[_List, ...], set_before: int) -> None:
    world = room()
    with pytest.raises(MalformedPacket):
        _set(world, world.machine.zxid, *lists)
    assert world.watches.total() == set_before
