"""removeWatches: only the caller's own, and once."""

import pytest

from codec.constants import ErrorCode, WatcherType
from codec.jute import INT, pack_string
from proxy.operation import Reading
from proxy.ops.remove_watches import remove_watches
from proxy.refusal import Refusal
from tests.proxy.ops.room import room
from tests.proxy.ops.test_reads import Client


def test_a_watch_is_removed_once_and_without_an_event() -> None:
    proxy = room()
    reading = Reading(proxy.mirror.tree, proxy.watches)
    client, other = Client(), Client()
    for one in (client, other):
        proxy.watches.data.add("/open", one)
    frame = b"head" + pack_string("/open") + INT.pack(WatcherType.DATA)
    assert remove_watches(reading, client, frame, 4) == b""
    with pytest.raises(Refusal) as refusal:
        remove_watches(reading, client, frame, 4)
    assert refusal.value.code is ErrorCode.NO_WATCHER
    assert client.told == []
    assert proxy.watches.holds("/open", other, WatcherType.DATA)
