"""setWatches: what a client missed is told at once, the rest is watched."""

import pytest

from codec.constants import EventType
from codec.errors import MalformedPacket
from codec.jute import LONG, NULL, pack_strings
from proxy.operation import Reading
from proxy.ops.set_watches import set_watches
from tests.proxy.naive import Create, Delete, SetData
from tests.proxy.ops.room import do, room
from tests.proxy.ops.test_reads import Client
from tests.proxy.world import Proxy


def _ask(proxy: Proxy, last_seen: int, data: list[str], exist: list[str], children: list[str]) -> Client:
    client = Client()
    frame = b"head" + LONG.pack(last_seen) + pack_strings(data) + pack_strings(exist) + pack_strings(children)
    assert set_watches(Reading(proxy.mirror.tree, proxy.watches), client, frame, 4) == b""
    return client


_PATHS = ["/open", "/closed", "/gone"]


def test_nothing_missed_is_all_watched() -> None:
    proxy = room()
    client = _ask(proxy, proxy.mirror.zxid, ["/open"], ["/gone"], ["/open"])
    assert client.told == []
    data, children = proxy.watches.held_by(client)
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
    data, children = proxy.watches.held_by(client)
    assert set(data) == {"/closed", "/gone"}
    assert set(children) == {"/open"}


def test_a_null_vector_is_refused() -> None:
    proxy = room()
    frame = LONG.pack(0) + pack_strings([]) + NULL + pack_strings([])
    with pytest.raises(MalformedPacket):
        set_watches(Reading(proxy.mirror.tree, proxy.watches), Client(), frame, 0)
