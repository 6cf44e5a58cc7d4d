"""Sessions and their connections: silence, reattaching, passwords, moves, and a proxy that stops meanwhile.

Where a session has to end its timeout is short; where it has to live on it is long, since a busy machine
may keep its client from pinging for a while.
"""

import time

import pytest

from codec import client as zk
from lab.client.blocking import CHILDREN, DELETED, EPHEMERAL, Client, Disconnected, events_of
from lab.servers import ZketcdServer, wait_until
from tests.conftest import TICK_TIME_MS

Pair = tuple[ZketcdServer, ZketcdServer]

BRIEF_MS = 3_000
FIRM_MS = 4_000


def assert_refused(client: Client, port: int) -> None:
    """The server tells a client that its session is over: it does not just disconnect."""
    with pytest.raises(Disconnected, match="expired"):
        client.reconnect(port)


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
            (pair[0].port, 2 * FIRM_MS, 2 * FIRM_MS),
            (pair[1].port, 1, 2 * TICK_TIME_MS),
            (pair[1].port, 20 * FIRM_MS, 40_000),  # the longest that these proxies give
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
        assert BRIEF_MS / 1000 <= took + 0.01 < 40, "by the new one, not by the one before"


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
