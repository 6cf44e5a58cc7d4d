"""etcd dies, comes back, or is out of reach for long: no write lost or doubled, no session lost."""

import time
from contextlib import ExitStack

import pytest

from lab.client.blocking import CREATED, DELETED, EPHEMERAL, Client, Disconnected, events_of, set_data
from lab.servers import EtcdServer, wait_until
from lab.servers.link import Link
from tests.faults.agreement import let_in_again
from tests.faults.conftest import Start

_SHORT_MS = 2_000


def test_etcd_away_for_longer_than_the_sessions_timeouts(start: Start, own_etcd_server: EtcdServer) -> None:
    proxy = start(own_etcd_server)
    with Client(proxy.port, _SHORT_MS) as reader, Client(proxy.port, 2 * _SHORT_MS) as idle:
        assert reader.timeout_ms == _SHORT_MS
        reader.create("/a", b"data")
        reader.create("/reader", b"", EPHEMERAL)
        idle.create("/idle", b"", EPHEMERAL)
        own_etcd_server.kill()
        # Reads go on for a while, with the truth; then the proxy gives up.
        assert reader.read("/a")[0] == b"data"
        with pytest.raises(Disconnected):
            wait_until(lambda: reader.read("/a")[0] != b"data", "the end of the connection")
        closed = time.monotonic()
        idle.until_closed()
        with pytest.raises(Disconnected):
            Client(proxy.port)
        # By now both have been silent for their whole timeouts, had they run.
        wait_until(lambda: time.monotonic() > closed + 2 * _SHORT_MS / 1000, "the timeouts")
        own_etcd_server.start()
        known = {client: client.id for client in (idle, reader)}
        for client in known:  # the one with the shorter timeout last, which goes on at once
            let_in_again(client, proxy.port)
        for client, path in ((reader, "/reader"), (idle, "/idle")):
            client.sync()
            assert client.owner(path) == client.id == known[client]
        reader.write("/a", b"more", 0)
        idle.close()
        assert reader.stat("/idle") is None


def test_a_proxy_cut_off_while_another_is_not(start: Start, own_etcd_server: EtcdServer) -> None:
    with ExitStack() as stack:
        link = stack.enter_context(Link(own_etcd_server.port))
        lonely, other = start(link.endpoint), start(own_etcd_server)
        short = stack.enter_context(Client(lonely.port, _SHORT_MS))
        long = stack.enter_context(Client(lonely.port))
        watcher = stack.enter_context(Client(other.port))
        watcher.create("/a", b"old")
        long.create("/long", b"", EPHEMERAL)
        short.create("/short", b"", EPHEMERAL)
        watcher.sync()
        assert watcher.stat("/short", watch=True)
        assert long.stat("/made", watch=True) is None
        link.block()
        assert long.read("/a")[0] == b"old"
        waiting = long.send(set_data("/a", b"new", 0))
        # To everybody else the short session ends on time; its own proxy lets it go.
        assert events_of(watcher, 1) == [(DELETED, "/short")]
        with pytest.raises(Disconnected):
            wait_until(short.ping, "the end of the connection")
        watcher.create("/made")
        link.unblock()
        with pytest.raises(Disconnected, match="expired"):
            let_in_again(short, lonely.port)
        assert long.result(waiting[0]).version == 1
        assert events_of(long, 1) == [(CREATED, "/made")]
        assert long.stat("/short") is None
        watcher.sync()
        assert watcher.read("/a")[0] == b"new"
        assert watcher.owner("/long") == long.id
