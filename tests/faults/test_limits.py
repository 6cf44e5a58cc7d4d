"""Multis that are large for an etcd with its default flags, and those that are too large."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from codec import client as zk
from codec.client import ZooKeeperError
from lab.client.blocking import BAD_ARGUMENTS, Client
from lab.servers import EtcdServer, ZketcdServer

pytestmark = pytest.mark.real

MIB = 1 << 20


@pytest.fixture(scope="module")
def proxies(etcd_server: EtcdServer) -> Iterator[tuple[ZketcdServer, ZketcdServer]]:
    """Two proxies of one tree that take frames larger than etcd takes requests."""
    options = {"prefix": "/test-limits", "max_frame": 8 * MIB, "max_client_connections": 0}
    with (
        ZketcdServer(etcd_server.endpoint, **options) as first,  # type: ignore[arg-type]
        ZketcdServer(etcd_server.endpoint, **options) as second,  # type: ignore[arg-type]
    ):
        yield first, second


@pytest.fixture
def clients(
    proxies: tuple[ZketcdServer, ZketcdServer], request: pytest.FixtureRequest
) -> Iterator[tuple[Client, Client, str]]:
    """A client of each proxy, and a node of the test's own."""
    base = f"/{request.node.name}"
    with Client(proxies[0].port) as first, Client(proxies[1].port) as second:
        first.create(base)
        second.sync()
        yield first, second, base


Clients = tuple[Client, Client, str]


def noise(size: int) -> bytes:
    """Data that cannot be compressed."""
    return random.Random(size).randbytes(size)


def refused_and_alive(client: Client, parts: list[zk.Request[Any]], base: str) -> None:
    """Assert that a multi is refused whole with a clear error, and that its connection lives."""
    before = client.stat(base)
    with pytest.raises(ZooKeeperError) as refused:
        client.transact(parts)
    assert refused.value.code == BAD_ARGUMENTS
    assert client.stat(base) == before, "nothing of it was applied"
    assert client.create(f"{base}/after") == f"{base}/after"


@pytest.mark.parametrize("size", [1.6, 2.5, 6])
def test_a_multi_too_large_for_etcd_is_refused_and_the_connection_lives(
    clients: Clients, size: float
) -> None:
    """Above etcd's --max-request-bytes of 1.5 MiB, and above gRPC's 512 KiB more, compressed."""
    first, _, base = clients
    data = noise(round(size * MIB))
    share = len(data) // 8
    parts = [
        zk.create(f"{base}/{number}", data[number * share : (number + 1) * share]) for number in range(8)
    ]
    refused_and_alive(first, parts, base)


def test_a_multi_that_is_too_large_only_as_the_client_sends_it(clients: Clients) -> None:
    """Entries are compressed."""
    first, second, base = clients
    data = b"<partition>" * (MIB // 20)
    parts = first.transact([zk.create(f"{base}/{number}", data) for number in range(8)])
    assert [part.error for part in parts] == [0] * 8
    second.sync()
    assert second.read(f"{base}/7")[0] == data


def test_a_multi_of_forty_thousand_creates(clients: Clients) -> None:
    """etcd's --max-txn-ops of 128 bounds nothing: it is one put."""
    first, second, base = clients
    parts = first.transact([zk.create(f"{base}/{number}") for number in range(40_000)])
    assert {part.error for part in parts} == {0}
    second.sync()
    names, stat = second.children(base)
    assert names == {str(number) for number in range(40_000)}
    assert (stat.cversion, stat.num_children) == (40_000, 40_000)
    last = second.stat(f"{base}/39999")
    assert last is not None
    assert last.czxid == stat.pzxid, "all of it is one change"


def test_only_the_one_that_is_too_large_is_refused(clients: Clients) -> None:
    """Writes of several sessions at once, one of them too large."""
    first, second, base = clients
    data = noise(2 * MIB)
    sent = first.send(
        *(zk.create(f"{base}/{number}") for number in range(20)),
        zk.create(f"{base}/large", data),
        *(zk.create(f"{base}/{number}") for number in range(20, 40)),
    )
    errors = [first.reply_to(xid).err for xid in sent]
    assert errors == [0] * 20 + [BAD_ARGUMENTS] + [0] * 20
    second.sync()
    assert second.children(base)[0] == {str(number) for number in range(40)}
