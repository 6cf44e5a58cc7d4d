"""setWatches and setWatches2: what a client missed is told at once, the rest is watched."""

import pytest

from codec.constants import EventType, WatcherType
from codec.errors import MalformedPacket
from codec.jute import INT, LONG, NULL, pack_string, pack_strings
from proxy.operation import Reading, ReadOperation
from proxy.ops.set_watches import set_watches, set_watches2
from tests.proxy.naive import Create, Delete, SetData
from tests.proxy.ops.room import do, room
from tests.proxy.ops.test_reads import Client
from tests.proxy.world import Proxy


def _ask(proxy: Proxy, last_seen: int, data: list[str], exist: list[str], children: list[str]) -> Client:
    client = Client()
    frame = b"head" + LONG.pack(last_seen) + pack_strings(data) + pack_strings(exist) + pack_strings(children)
    assert set_watches(Reading(proxy.mirror.tree, proxy.watches), client, frame, 4) == b""
    return client


_List = list[str | None] | None


def _strings(texts: _List) -> bytes:
    return NULL if texts is None else INT.pack(len(texts)) + b"".join(map(pack_string, texts))


_PATHS = ["/open", "/closed", "/gone"]


def test_nothing_missed_is_all_watched() -> None:
    proxy = room()
    client = _ask(proxy, proxy.mirror.zxid, ["/open"], ["/gone"], ["/open"])
    assert client.told == []
    held = proxy.watches.held_by(client)
    assert held is not None
    data, children, *_ = held
    assert set(data) == {"/open", "/gone"}
    assert set(children) == {"/open"}


def test_what_was_missed_is_told() -> None:
    proxy = room()
    do(proxy, Create("/gone"))
    last = proxy.mirror.zxid
    do(proxy, SetData("/open"), Create("/closed-too"), Delete("/gone"), Create("/closed2"))
    client = _ask(proxy, last, _PATHS, ["/open", "/gone"], ["/", "/open", "/gone"])
    assert [(kind, path) for kind, path, _, _ in client.told] == [
        (EventType.NODE_DATA_CHANGED, "/open"),
        (EventType.NODE_DELETED, "/gone"),
        (EventType.NODE_CREATED, "/open"),
        (EventType.NODE_CHILDREN_CHANGED, "/"),
        (EventType.NODE_DELETED, "/gone"),
    ]
    assert {zxid for _, _, zxid, _ in client.told} == {-1}
    held = proxy.watches.held_by(client)
    assert held is not None
    data, children, *_ = held
    assert set(data) == {"/closed", "/gone"}
    assert set(children) == {"/open"}


def test_what_lasts_is_set_whatever_was_missed() -> None:
    proxy = room()
    client = Client()
    lists: tuple[_List, ...] = ([], [], ["/gone"], ["/open", None], ["/closed"])
    frame = LONG.pack(0) + b"".join(map(_strings, lists))
    assert set_watches2(Reading(proxy.mirror.tree, proxy.watches), client, frame, 0) == b""
    assert [(kind, path) for kind, path, _, _ in client.told] == [(EventType.NODE_DELETED, "/gone")]
    assert proxy.watches.holds("/open", client, WatcherType.PERSISTENT)
    assert proxy.watches.holds(None, client, WatcherType.PERSISTENT)
    assert proxy.watches.holds("/closed", client, WatcherType.PERSISTENT_RECURSIVE)
    assert proxy.watches.total() == 5


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
    proxy = room()
    frame = LONG.pack(proxy.mirror.zxid) + b"".join(map(_strings, lists))
    with pytest.raises(MalformedPacket):
        set_watches2(Reading(proxy.mirror.tree, proxy.watches), Client(), frame, 0)
    assert proxy.watches.total() == set_before


@pytest.mark.parametrize("operation", [set_watches, set_watches2])
def test_a_cut_packet_sets_nothing(operation: ReadOperation) -> None:
    proxy = room()
    whole = LONG.pack(proxy.mirror.zxid) + _strings(["/open"]) * (3 if operation is set_watches else 5)
    for end in range(len(whole)):
        with pytest.raises(MalformedPacket):
            operation(Reading(proxy.mirror.tree, proxy.watches), Client(), whole[:end], 0)
    assert proxy.watches.total() == 0
