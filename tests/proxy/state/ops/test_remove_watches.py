"""removeWatches: only the caller's own, and once."""

import pytest

from codec.constants import ErrorCode, WatcherType
from codec.jute import INT, pack_string
from proxy.state.ops.remove_watches import remove_watches
from proxy.state.refusal import Refusal
from tests.proxy.state.ops.room import room
from tests.proxy.state.ops.test_reads import Client


def test_a_watch_is_removed_once_and_without_an_event() -> None:
    world = room()
    reading = world.reading
    client, other = Client(), Client()
    for one in (client, other):
        world.watches.data.add("/open", one)
    frame = b"head" + pack_string("/open") + INT.pack(WatcherType.DATA)
    assert remove_watches(reading, client, frame, 4) == b""
    with pytest.raises(Refusal) as refusal:
        remove_watches(reading, client, frame, 4)
    assert refusal.value.code is ErrorCode.NO_WATCHER
    assert client.told == []
    assert world.watches.holds("/open", other, WatcherType.DATA)
