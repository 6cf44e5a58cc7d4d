"""Sessions and their connections: silence, reattaching, passwords, moves, and a proxy that stops meanwhile.

Where a session has to end its timeout is short; where it has to live on it is long, since a busy machine
may keep its client from pinging for a while.
"""

import socket
import threading
import time
from contextlib import suppress

import pytest

from lab.client import blocking as zk
from lab.client.blocking import (
    CHILDREN,
    DELETED,
    EPHEMERAL,
    OK,
    SESSION_EXPIRED,
    SESSION_MOVED,
    Client,
    Disconnected,
    Reply,
    events_of,
)
from lab.client.requests import connect, packet
from lab.servers import EtcdServer, ZketcdServer, wait_until
from proxy.log.contact import OUTAGE
from tests.conftest import TICK_TIME_MS
from tests.faults.conftest import Start

Pair = tuple[ZketcdServer, ZketcdServer]

BRIEF_MS = 3_000
FIRM_MS = 4_000


def let_in(port: int) -> bool:
    """Whether a new client gets a session, which it ends."""
    with suppress(Disconnected), Client(port) as client:
        client.close()
        return True
    return False


def rest_of(client: Client, connection: int) -> list[Reply]:
    """Return all replies that come over a connection until the server closes it."""
    replies = []

    def read_on() -> None:
        while True:
            message = client.receive(connection)
            if isinstance(message, Reply):
                replies.append(message)

    with pytest.raises(Disconnected, match="closed the connection"):
        read_on()
    return replies


def assert_refused(client: Client, port: int) -> None:
    """The server tells a client that its session is over: it does not just disconnect."""
    with pytest.raises(Disconnected, match="expired"):
        client.reconnect(port)


def ping_for(client: Client, seconds: float) -> None:
    """Keep a session alive for a while."""
    end = time.monotonic() + seconds

    def over() -> bool:
        client.ping()
        return time.monotonic() > end

    wait_until(over, "time passes", interval=0.2)


def test_a_silent_session_ends_in_one_step_that_other_proxies_watch(pair: Pair) -> None:
    first, second = pair
    names = ["/group/a", "/group/b", "/group/c"]
    with Client(first.port, BRIEF_MS) as idle, Client(second.port) as watcher:
        assert idle.timeout_ms == BRIEF_MS
        idle.send(zk.create("/group"), *(zk.create(name, mode=EPHEMERAL) for name in names))
        for _ in range(4):
            idle.receive()
        began = time.monotonic()
        idle.ping()
        watcher.sync()
        assert watcher.children("/group", watch=True)[0] == {"a", "b", "c"}
        for name in names:
            assert watcher.stat(name, watch=True)

        events = events_of(watcher, 4)
        assert time.monotonic() - began >= BRIEF_MS / 1000, "not before its time"
        assert sorted(events) == sorted([*((DELETED, name) for name in names), (CHILDREN, "/group")])
        (zxid,) = {event.zxid for event in watcher.events}
        left, group = watcher.children("/group")
        assert left == set()
        assert (group.pzxid, group.cversion, group.num_children) == (zxid, 6, 0)
        # The proxy's own clock has ended it, and closed the connection that was open all the time.
        wait_until(lambda: f"session 0x{idle.id:x}: expired: " in first.log_text(), "the line of its end")
        idle.until_closed()
        assert_refused(idle, first.port)
        assert_refused(idle, second.port)


def test_a_timeout_changes_with_a_reattach_as_on_zookeeper(pair: Pair) -> None:
    with Client(pair[0].port, FIRM_MS) as client, Client(pair[0].port) as watcher:
        client.create("/mine", mode=EPHEMERAL)
        assert client.session is not None
        for port, wanted, given in (
            (pair[0].port, 20 * FIRM_MS, 40_000),  # the longest that these proxies give
            (pair[1].port, 1, 2 * TICK_TIME_MS),
            (pair[1].port, 2 * FIRM_MS, 2 * FIRM_MS),
            (pair[0].port, BRIEF_MS, BRIEF_MS),
        ):
            client.wanted_ms = wanted
            client.reconnect(port)
            assert client.timeout_ms == given
        watcher.stat("/mine", watch=True)
        began = time.monotonic()
        assert client.owner("/mine") == client.id
        assert events_of(watcher, 1) == [(DELETED, "/mine")]
        took = time.monotonic() - began
        assert BRIEF_MS / 1000 <= took + 0.01 < 2 * FIRM_MS / 1000, "by the new one, not by the one before"


def test_a_proxy_that_has_not_heard_of_a_session_catches_up_first(pair: Pair) -> None:
    """A session opened, or closed, while it slept; the client says nothing of what it has seen."""
    first, second = pair
    for closed in (False, True, False, True):
        second.pause()
        with Client(first.port) as client:
            if closed:
                client.close()
            client.zxid = 0
            threading.Timer(0.05, second.resume).start()
            if closed:
                assert_refused(client, second.port)
                assert_refused(client, first.port)
            else:
                client.reconnect(second.port)
                client.create("/mine", mode=EPHEMERAL)
                client.close()


def test_a_proxy_that_slept_does_not_end_a_session_that_moved(pair: Pair) -> None:
    first, second = pair
    with Client(first.port, FIRM_MS) as client:
        client.create("/mine", mode=EPHEMERAL)
        first.pause()
        client.send(*(zk.create(f"/late-{step}") for step in range(20)), zk.delete("/mine"))
        client.reconnect(second.port)
        # By the sleeper's clock the session is long due when it wakes.
        ping_for(client, 1.3 * FIRM_MS / 1000)
        first.resume()
        assert {reply.err for reply in rest_of(client, 0)} <= {SESSION_MOVED, SESSION_EXPIRED}
        ping_for(client, 1.0)  # two ticks, in each of which the sleeper looks after its sessions four times
        with Client(first.port) as witness:
            witness.sync()
            assert witness.children("/")[0] == {"zookeeper", "mine"}
        client.reconnect(first.port)
        assert client.owner("/mine") == client.id


def test_a_session_with_very_many_ephemerals_ends_with_its_proxy(pair: Pair) -> None:
    """Their paths alone take 2.5 MB, more than etcd takes at once; the end is one small request."""
    first, second = pair
    with Client(first.port, BRIEF_MS) as client, Client(second.port) as watcher:
        client.create("/group")
        for block in range(5):
            xids = client.send(
                *(zk.create(f"/group/{block:0500}-{number:0500}", mode=EPHEMERAL) for number in range(500))
            )
            for xid in xids:
                client.result(xid)
        watcher.sync()
        assert len(watcher.children("/group")[0]) == 2500
        first.kill()
        wait_until(lambda: not watcher.children("/group")[0], "all of them go", interval=0.1)
        group = watcher.stat("/group")
        assert group is not None
        assert (group.cversion, group.num_children) == (5000, 0)
        assert_refused(client, second.port)


@pytest.mark.parametrize("early", [0, 30])
def test_a_client_that_gives_up_during_an_outage_is_not_let_in_after_it(
    start: Start, own_etcd_server: EtcdServer, early: int
) -> None:
    """It has gone to another proxy. It may have sent a request at once, as Java's client does."""
    proxies = [start(own_etcd_server) for _ in range(2)]
    requests = b"".join(packet(xid, zk.set_data("/a", bytes(1000))) for xid in range(early))
    with Client(proxies[0].port) as client:
        client.create("/a", b"1")
        own_etcd_server.pause()
        silent = time.monotonic()
        wait_until(lambda: time.monotonic() > silent + OUTAGE + 0.5, "the proxies notice the outage")
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", proxies[1].port)) as connection:
                assert client.session is not None
                known = client.session.session, client.session.password
                connection.sendall(connect(30_000, client.zxid, *known) + requests)
                time.sleep(0.1)
        own_etcd_server.resume()
        wait_until(lambda: let_in(proxies[1].port), "the proxy lets clients in again")
        time.sleep(1)  # now those that waited are let in, too
        assert "continued" not in proxies[1].log_text()
        assert client.refusal(zk.set_data("/a", b"2")) == OK
