"""Sessions when proxies are paused, killed, drained and started again."""

import time
from contextlib import ExitStack

import pytest

from lab.client import blocking as zk
from lab.client.blocking import (
    CHILDREN,
    DELETED,
    EPHEMERAL,
    SESSION_EXPIRED,
    Client,
    Disconnected,
    events_of,
)
from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.link import Link
from lab.servers.operator import count_keys, ctl
from tests.faults.conftest import Start

Pair = tuple[ZketcdServer, ZketcdServer]

SHORT_MS = 2_000


def keep_alive_until_gone(watcher: Client, path: str) -> None:
    """Wait until a node is gone."""
    wait_until(lambda: watcher.stat(path) is None, f"the end of {path}", interval=0.1)


@pytest.mark.parametrize("without_news", [False, True])
def test_a_proxy_that_slept_past_its_sessions_writes_nothing_for_them(
    start: Start, etcd_server: EtcdServer, etcd_prefix: str, without_news: bool
) -> None:
    """`without_news`: when it wakes, it can write some time before it hears what has happened."""
    with ExitStack() as stack:
        link = stack.enter_context(Link(etcd_server.port))
        first = start(link.endpoint, prefix=etcd_prefix)
        second = start(etcd_server, prefix=etcd_prefix)
        watcher = stack.enter_context(Client(second.port))
        watcher.create("/d")
        clients = [stack.enter_context(Client(first.port, SHORT_MS)) for _ in range(8)]
        for number in range(len(clients)):
            watcher.create(f"/own-{number}")
        lasting = stack.enter_context(Client(first.port))
        for number, client in enumerate(clients):
            client.sync()
            client.create(f"/d/alive-{number}", b"", EPHEMERAL)
        watcher.sync()
        first.pause()
        # What the paused proxy reads first when it wakes: writes of sessions that have ended by then.
        sent = []
        for number, client in enumerate(clients):
            # Of what these look at, nothing but the session changes meanwhile.
            alone = [zk.set_data(f"/own-{number}", b"late"), zk.create(f"/own-{number}/late")]
            among_others = [
                zk.create(f"/d/late-{number}"),
                zk.create(f"/d/late-ephemeral-{number}", b"", EPHEMERAL),
                zk.set_data("/d", b"late"),
                zk.delete("/d"),
                zk.multi([zk.create(f"/d/late-multi-{number}")]),
                zk.create(f"/late-{number}"),
            ]
            sent.append(client.send(*(alone if number % 2 else among_others)))
        written = lasting.send(zk.create("/in-time"))
        for number in range(len(clients)):
            keep_alive_until_gone(watcher, f"/d/alive-{number}")
        before = watcher.stat("/d")
        if without_news:
            link.cut()
        first.resume()
        # Whose session lives on is served.
        lasting.result(written[0])
        for client, xids in zip(clients, sent, strict=True):
            replies = client.until_closed()
            assert [reply.xid for reply in replies] == xids[: len(replies)]
            assert {reply.err for reply in replies} <= {SESSION_EXPIRED}
            with pytest.raises(Disconnected):
                client.reconnect(first.port)
        lasting.create("/after")
        for client in (watcher, lasting):
            client.sync()
            assert client.stat("/d") == before
            names, _ = client.children("/")
            assert names == {"zookeeper", "d", "in-time", "after", *(f"own-{n}" for n in range(len(clients)))}
            for number in range(len(clients)):
                stat = client.stat(f"/own-{number}")
                assert stat is not None
                assert (stat.version, stat.cversion) == (0, 0)


def test_a_proxy_that_starts_ends_the_sessions_that_ran_out_while_none_lived(
    start: Start, own_etcd_server: EtcdServer
) -> None:
    proxy = start(own_etcd_server)
    timeout_s = 4.0  # on a slow machine the client comes seconds after the proxy has begun to serve
    with Client(proxy.port, int(1000 * timeout_s)) as short, Client(proxy.port) as long:
        long.create("/d")
        for number in range(5):
            short.create(f"/d/short-{number}", b"", EPHEMERAL)
        long.create("/d/long", b"", EPHEMERAL)
        before = long.stat("/d")
        assert before is not None
        proxy.kill()
        ended = time.monotonic()
        wait_until(lambda: time.monotonic() > ended + timeout_s + 1, "more than the timeout")
        # Nobody is there to clear up.
        assert len(ctl(own_etcd_server, "ls", "/d")) == 6
        assert len(ctl(own_etcd_server, "sessions")) == 2
        proxy.start()
        started = time.monotonic()
        # As an elected leader of ZooKeeper it gives every session its whole timeout, then ends the one.
        with Client(proxy.port) as client:
            assert client.children("/d", watch=True)[0] == {"long", *(f"short-{n}" for n in range(5))}
            long.reconnect(proxy.port)
            assert events_of(client, 1) == [(CHILDREN, "/d")]
            assert time.monotonic() - started >= timeout_s / 2, "not before its time"
            names, stat = client.children("/d")
            assert names == {"long"}
            assert (stat.cversion, stat.num_children) == (12 - 1, 1)
            assert stat.pzxid > before.pzxid
            assert len(ctl(own_etcd_server, "ls", "/d")) == 1
            with pytest.raises(Disconnected):
                short.reconnect(proxy.port)
            long.close()
            client.sync()
            assert client.children("/d")[0] == set()


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
        # What was answered is there, and what was applied was answered: nobody had to guess.
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
