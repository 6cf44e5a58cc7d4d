"""setWatches and setWatches2: what a client missed is told at once, the rest is watched."""

import pytest

from codec.constants import EventType, WatcherType
from codec.errors import MalformedPacket
from codec.jute import INT, LONG, NULL, pack_string, pack_strings
from proxy.state.operation import ReadOperation
from proxy.state.ops.set_watches import set_watches, set_watches2
from tests.proxy.state.naive import Create, Delete, SetData
from tests.proxy.state.ops.room import do, room
from tests.proxy.state.ops.test_reads import Client, held
from tests.proxy.state.world import World


def _ask(world: World, last_seen: int, data: list[str], exist: list[str], children: list[str]) -> Client:
    client = Client()
    frame = b"head" + LONG.pack(last_seen) + pack_strings(data) + pack_strings(exist) + pack_strings(children)
    assert set_watches(world.reading, client, frame, 4) == b""
    return client


_List = list[str | None] | None


def _strings(texts: _List) -> bytes:
    return NULL if texts is None else INT.pack(len(texts)) + b"".join(map(pack_string, texts))


_PATHS = ["/open", "/closed", "/gone"]


def test_nothing_missed_is_all_watched() -> None:
    world = room()
    client = _ask(world, world.machine.zxid, ["/open"], ["/gone"], ["/open"])
    assert client.told == []
    assert held(world, client) == [{"/open", "/gone"}, {"/open"}, set(), set()]


def test_what_was_missed_is_told() -> None:
    world = room()
    do(world, Create("/gone"))
    last = world.machine.zxid
    do(world, SetData("/open"), Create("/closed-too"), Delete("/gone"), Create("/closed2"))
    client = _ask(world, last, _PATHS, ["/open", "/gone"], ["/", "/open", "/gone"])
    assert [(kind, path) for kind, path, _, _ in client.told] == [
        (EventType.NODE_DATA_CHANGED, "/open"),
        (EventType.NODE_DELETED, "/gone"),
        (EventType.NODE_CREATED, "/open"),
        (EventType.NODE_CHILDREN_CHANGED, "/"),
        (EventType.NODE_DELETED, "/gone"),
    ]
    assert {zxid for _, _, zxid, _ in client.told} == {-1}
    assert held(world, client) == [{"/closed", "/gone"}, {"/open"}, set(), set()]


def test_what_lasts_is_set_whatever_was_missed() -> None:
    world = room()
    client = Client()
    lists: tuple[_List, ...] = ([], [], ["/gone"], ["/open", None], ["/closed"])
    frame = LONG.pack(0) + b"".join(map(_strings, lists))
    assert set_watches2(world.reading, client, frame, 0) == b""
    assert [(kind, path) for kind, path, _, _ in client.told] == [(EventType.NODE_DELETED, "/gone")]
    assert world.watches.holds("/open", client, WatcherType.PERSISTENT)
    assert world.watches.holds(None, client, WatcherType.PERSISTENT)
    assert world.watches.holds("/closed", client, WatcherType.PERSISTENT_RECURSIVE)
    assert world.watches.total() == 5


@pytest.mark.parametrize(
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
    frame = LONG.pack(world.machine.zxid) + b"".join(map(_strings, lists))
    with pytest.raises(MalformedPacket):
        set_watches2(world.reading, Client(), frame, 0)
    assert world.watches.total() == set_before


@pytest.mark.parametrize("operation", [set_watches, set_watches2])
def test_a_cut_packet_sets_nothing(operation: ReadOperation) -> None:
    world = room()
    whole = LONG.pack(world.machine.zxid) + _strings(["/open"]) * (3 if operation is set_watches else 5)
    for end in range(len(whole)):
        with pytest.raises(MalformedPacket):
            operation(world.reading, Client(), whole[:end], 0)
    assert world.watches.total() == 0
