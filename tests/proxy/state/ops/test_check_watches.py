"""checkWatches: whether there is a watch of a type."""

import pytest

from codec.constants import ErrorCode, WatcherType
from codec.errors import MalformedPacket
from codec.jute import INT, pack_string
from proxy.state.operation import Client
from proxy.state.ops.check_watches import check_watches
from proxy.state.refusal import Refusal
from tests.proxy.state.ops import test_reads
from tests.proxy.state.ops.room import room
from tests.proxy.state.world import World


def _check(world: World, client: Client, path: str | None, kind: int) -> ErrorCode:
    body = pack_string(path) + INT.pack(kind)
    try:
        assert check_watches(world.reading, client, body, 0) == b""
    except Refusal as refusal:
        return refusal.code
    return ErrorCode.OK


def test_types() -> None:
    world = room()
    client = test_reads.Client()
    world.watches.children.add("/open", client)
    world.watches.data.add("/open", test_reads.Client())
    found = [kind for kind in WatcherType if _check(world, client, "/open", kind) == ErrorCode.OK]
    assert found == [WatcherType.CHILDREN, WatcherType.ANY]
    assert _check(world, client, "/open", WatcherType.DATA) is ErrorCode.NO_WATCHER
    assert _check(world, client, None, WatcherType.ANY) is ErrorCode.NO_WATCHER


@pytest.mark.parametrize("kind", [-1, 0, 6])
def test_other_types_are_refused(kind: int) -> None:
    assert _check(room(), test_reads.Client(), "/open", kind) is ErrorCode.MARSHALLING_ERROR


def test_a_cut_packet_is_malformed() -> None:
    world = room()
    whole = pack_string("/open") + INT.pack(3)
    for end in range(len(whole)):
        with pytest.raises(MalformedPacket):
            check_watches(world.reading, test_reads.Client(), whole[:end], 0)
