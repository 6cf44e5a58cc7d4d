"""addWatch: what is watched, and which modes there are."""

import pytest

from codec.constants import AddWatchMode, ErrorCode, WatcherType
from codec.errors import MalformedPacket
from codec.jute import INT, NULL, pack_string
from proxy.state.ops.add_watch import add_watch
from proxy.state.refusal import Refusal
from tests.proxy.state.ops.room import room
from tests.proxy.state.ops.test_reads import Client


@pytest.mark.parametrize("mode", AddWatchMode)
@pytest.mark.parametrize("path", ["/open", "/missing", "/closed", "", None])
def test_any_path_can_be_watched(path: str | None, mode: AddWatchMode) -> None:
    world = room()
    client = Client()
    body = pack_string(path) + INT.pack(mode)
    assert add_watch(world.reading, client, b"head" + body, 4) == INT.pack(0)
    kinds = [kind for kind in WatcherType if world.watches.holds(path, client, kind)]
    own = WatcherType.PERSISTENT_RECURSIVE if mode else WatcherType.PERSISTENT
    assert kinds == [WatcherType.ANY, own]


@pytest.mark.parametrize("mode", [-1, 2])
def test_other_modes_are_refused(mode: int) -> None:
    world = room()
    with pytest.raises(Refusal) as refusal:
        add_watch(world.reading, Client(), pack_string("/open") + INT.pack(mode), 0)
    assert refusal.value.code is ErrorCode.MARSHALLING_ERROR
    assert world.watches.total() == 0


@pytest.mark.parametrize("body", [b"", NULL, pack_string("/open"), pack_string("/open") + b"\0\0\0"])
def test_a_cut_packet_watches_nothing(body: bytes) -> None:
    world = room()
    with pytest.raises(MalformedPacket):
        add_watch(world.reading, Client(), body, 0)
    assert world.watches.total() == 0
