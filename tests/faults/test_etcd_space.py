"""etcd's quota is used up: reads and endings go on, writes are refused; once there is space all is well."""

from collections.abc import Iterator

import pytest

from tests.faults import client as zk
from tests.faults.client import (
    DELETED,
    EPHEMERAL,
    OK,
    SEQUENTIAL,
    SYSTEM_ERROR,
    Client,
    Disconnected,
    events_of,
)
from tests.faults.conftest import Start
from tests.faults.tools import etcdctl, keys_of
from tests.harness import EtcdServer, wait_until

_QUOTA = 4 << 20
_DATA = bytes(100_000)
_SHORT_MS = 2_000


@pytest.fixture
def small_etcd() -> Iterator[EtcdServer]:
    """An etcd that is soon full."""
    with EtcdServer(f"--quota-backend-bytes={_QUOTA}") as etcd:
        yield etcd


def _fill(client: Client) -> None:
    """Write until etcd is full, always the same node; etcd counts what it has committed, every 100 ms."""
    client.create("/big")
    wait_until(lambda: client.refusal(zk.set_data("/big", _DATA)) != OK, "etcd is full", interval=0)


def _make_space(etcd: EtcdServer) -> None:
    status = etcdctl(etcd, "endpoint", "status", "--write-out=fields")
    (revision,) = (line.split()[-1] for line in status.splitlines() if line.startswith('"Revision"'))
    etcdctl(etcd, "compact", "--physical", revision)
    etcdctl(etcd, "defrag")
    etcdctl(etcd, "alarm", "disarm")


def _goes(watcher: Client, path: str) -> None:
    """Wait for the event of a node that has been watched; there are no others."""
    seen = len(watcher.events)
    assert events_of(watcher, seen + 1)[seen:] == [(DELETED, path)]


def test_writes_are_refused_and_reads_go_on_until_there_is_space(
    start: Start, small_etcd: EtcdServer
) -> None:
    proxy = start(small_etcd)
    with Client(proxy.port) as client:
        client.create("/a", b"data")
        _fill(client)
        version = client.read("/a")[1].version
        for request in (
            zk.create("/b"),
            zk.create("/n-", b"", SEQUENTIAL),
            zk.create("/e", b"", EPHEMERAL),
            zk.set_data("/a", b"more"),
            zk.delete("/a"),
            zk.multi([zk.create("/b"), zk.delete("/a")]),
        ):
            assert client.refusal(request) == SYSTEM_ERROR
        # In the order they came, those that are tried again too.
        sent = client.send(zk.create("/b"), zk.SYNC, zk.create("/c"), zk.exists("/a"), zk.SYNC)
        errors = [client.reply_to(xid).err for xid in sent]
        assert errors == [SYSTEM_ERROR, 0, SYSTEM_ERROR, 0, 0]
        assert client.read("/a")[0] == b"data"
        assert client.children("/")[0] == {"a", "big", "zookeeper"}
        # A client that loses its connection keeps its session; a new one needs space.
        client.reconnect(proxy.port)
        assert client.read("/a")[1].version == version
        with pytest.raises(Disconnected):
            Client(proxy.port)
        _make_space(small_etcd)
        wait_until(lambda: client.refusal(zk.set_data("/a", b"more")) == 0, "writes go on", interval=0.1)
        assert client.create("/n-", b"", SEQUENTIAL) == "/n-0000000002"
        assert client.read("/a")[1].version == version + 1
        with Client(proxy.port) as other:
            other.create("/e", b"", EPHEMERAL)


def test_sessions_end_while_etcd_is_full(start: Start, small_etcd: EtcdServer) -> None:
    proxy = start(small_etcd)
    with (
        Client(proxy.port) as watcher,
        Client(proxy.port) as closing,
        Client(proxy.port) as revoked,
        Client(proxy.port, _SHORT_MS) as silent,
    ):
        watcher.create("/d")
        for client, path in ((closing, "/d/closing"), (revoked, "/d/revoked"), (silent, "/d/silent")):
            client.create(path, b"", EPHEMERAL)
        watcher.sync()
        _fill(watcher)
        for path in ("/d/closing", "/d/revoked"):
            assert watcher.stat(path, watch=True)
        closing.close()
        _goes(watcher, "/d/closing")
        etcdctl(small_etcd, "lease", "revoke", f"{revoked.id:x}")
        _goes(watcher, "/d/revoked")
        if watcher.stat("/d/silent", watch=True):
            _goes(watcher, "/d/silent")
        names, stat = watcher.children("/d")
        assert names == set()
        assert stat.cversion == 6, "three created and three deleted, the silent one perhaps while etcd filled"
        assert watcher.refusal(zk.create("/d/x")) == SYSTEM_ERROR, "etcd is full still"


def test_a_proxy_that_starts_on_a_full_etcd(start: Start, small_etcd: EtcdServer) -> None:
    """All its markers are to be opened, and it cannot register."""
    first = start(small_etcd)
    with Client(first.port) as client, Client(first.port, _SHORT_MS) as orphan:
        client.create("/a", b"data")
        client.create("/e", b"", EPHEMERAL)
        orphan.create("/orphan", b"", EPHEMERAL)
        client.sync()
        _fill(client)
        first.kill()
        second = start(small_etcd)
        client.reconnect(second.port)
        client.sync()
        assert client.read("/a")[0] == b"data"
        assert client.refusal(zk.set_data("/a", b"more")) == SYSTEM_ERROR
        wait_until(lambda: client.stat("/orphan") is None, "the end of a session of the first proxy")
        known = set(keys_of(small_etcd, "/zketcd/proxy/"))
        _make_space(small_etcd)
        wait_until(lambda: client.refusal(zk.set_data("/a", b"more")) == 0, "writes go on", interval=0.1)
        wait_until(
            lambda: set(keys_of(small_etcd, "/zketcd/proxy/")) - known, "the proxy registers", interval=0.2
        )
        client.close()
        with Client(second.port) as other:
            assert other.stat("/e") is None
