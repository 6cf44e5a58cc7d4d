"""What a proxy that stops leaves of its sessions."""

import time
from contextlib import ExitStack

from codec import client as zk
from lab.client.blocking import DELETED, EPHEMERAL, Client, events_of
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer, wait_until
from lab.servers.operator import count_keys, ctl
from tests.faults.conftest import Start

Pair = tuple[ZketcdServer, ZketcdServer]


def test_a_drained_proxy_answers_what_is_in_flight_and_leaves_sessions_alone(pair: Pair) -> None:
    first, second = pair
    with ExitStack() as stack:
        watcher = stack.enter_context(Client(second.port))
        watcher.create("/d")
        clients = [stack.enter_context(Client(first.port)) for _ in range(20)]
        for number, client in enumerate(clients):
            client.sync()
            client.create(f"/d/{number}", b"", EPHEMERAL)
        watcher.sync()  # the creates were answered by the other proxy
        assert watcher.stat("/d/0", watch=True)
        sent = [
            client.send(*(zk.create(f"/d/{number}-{place}", b"", EPHEMERAL) for place in range(50)))
            for number, client in enumerate(clients)
        ]
        for client, xids in zip(clients, sent, strict=True):
            client.result(xids[0])  # they are in flight
        assert first.stop() == 0
        answered: set[str] = {str(number) for number in range(20)}
        for number, (client, xids) in enumerate(zip(clients, sent, strict=True)):
            replies = client.until_closed()
            assert [reply.xid for reply in replies] == xids[1 : 1 + len(replies)]
            assert not any(reply.err for reply in replies)
            answered.update(f"{number}-{place}" for place in range(1 + len(replies)))
        watcher.sync()
        # What was answered is there, and what was applied was answered: no client had to guess.
        assert watcher.children("/d")[0] == answered
        for client in clients:
            client.reconnect(second.port)
            client.ping()
        assert watcher.children("/d")[0] == answered
        assert not watcher.events
        for client in clients:
            client.close()
        watcher.sync()
        assert watcher.children("/d")[0] == set()
        assert events_of(watcher, 1) == [(DELETED, "/d/0")]


def test_a_client_that_only_reads_outlives_its_timeout(pair: Pair, zookeeper_server: ZooKeeperServer) -> None:
    """It sends neither pings nor writes: ClickHouse lost sessions of such clients at Keeper's followers."""
    timeout = 1.0
    for ports in ([server.port for server in pair], [zookeeper_server.port] * 2):
        with Client(ports[0], int(timeout * 1000)) as reader, Client(ports[1]) as other:
            reader.create("/reader", b"", EPHEMERAL)
            for port in ports:
                reader.reconnect(port)
                until = time.monotonic() + 2.5 * timeout
                while time.monotonic() < until:
                    assert reader.owner("/reader") == reader.id
                    time.sleep(timeout / 4)
            other.sync()
            assert other.owner("/reader") == reader.id
            # Its reads have kept it alive, and nothing else.
            wait_until(lambda other=other: other.stat("/reader") is None, "its end")  # type: ignore[misc]


def test_a_stopped_proxy_takes_its_key_away_unless_sessions_need_it(
    start: Start, own_etcd_server: EtcdServer
) -> None:
    """Others take a key that goes for a lease that ran out, and would end the sessions before their time."""
    key = "/zketcd/live/proxy/"
    proxy = start(own_etcd_server)
    with Client(proxy.port) as client:
        client.create("/a")
        assert count_keys(own_etcd_server, key) == 1
        proxy.stop()
        assert count_keys(own_etcd_server, key) == 1
        wait_until(lambda: count_keys(own_etcd_server, key) == 0, "the end of the lease", interval=0.2)
        assert len(ctl(own_etcd_server, "sessions")) == 1
        proxy.start()
        client.reconnect(proxy.port)
        client.close()
        assert count_keys(own_etcd_server, key) == 1
        proxy.stop()
        assert count_keys(own_etcd_server, key) == 0
