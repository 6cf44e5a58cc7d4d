"""checkWatches: whether there is a watch of a type."""

import pytest

from codec.constants import ErrorCode, WatcherType
from codec.errors import MalformedPacket
from codec.jute import INT, pack_string
from proxy.operation import Client, Reading
from proxy.ops.check_watches import check_watches
from proxy.refusal import Refusal
from tests.proxy.ops import test_reads
from tests.proxy.ops.room import room
from tests.proxy.world import Proxy


def _check(proxy: Proxy, client: Client, path: str | None, kind: int) -> ErrorCode:
    body = pack_string(path) + INT.pack(kind)
    try:
        assert check_watches(Reading(proxy.mirror.tree, proxy.watches), client, body, 0) == b""
    except Refusal as refusal:
        return refusal.code
    return ErrorCode.OK


def test_types() -> None:
    proxy = room()
    client = test_reads.Client()
    proxy.watches.children.add("/open", client)
    proxy.watches.data.add("/open", test_reads.Client())
    found = [kind for kind in WatcherType if _check(proxy, client, "/open", kind) == ErrorCode.OK]
    assert found == [WatcherType.CHILDREN, WatcherType.ANY]
    assert _check(proxy, client, "/open", WatcherType.DATA) is ErrorCode.NO_WATCHER
    assert _check(proxy, client, None, WatcherType.ANY) is ErrorCode.NO_WATCHER


@pytest.mark.parametrize("kind", [-1, 0, 6])
def test_other_types_are_refused(kind: int) -> None:
    assert _check(room(), test_reads.Client(), "/open", kind) is ErrorCode.MARSHALLING_ERROR


def test_a_cut_packet_is_malformed() -> None:
    proxy = room()
    whole = pack_string("/open") + INT.pack(3)
    for end in range(len(whole)):
        with pytest.raises(MalformedPacket):
            check_watches(Reading(proxy.mirror.tree, proxy.watches), test_reads.Client(), whole[:end], 0)
