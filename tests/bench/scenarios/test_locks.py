"""Locks that change hands, on real ZooKeeper: the recipe is right, and each lock has one holder."""

import pytest

from bench.errors import BadReply
from bench.load import open_sessions
from bench.scenarios import locks
from lab.servers import ZooKeeperServer

pytestmark = pytest.mark.real


def test_all_get_their_turn(zookeeper_server: ZooKeeperServer) -> None:
    timing = locks.hand_round([zookeeper_server.port], 6, 0.3, b"/locks")
    assert len(timing.counts) == 6
    assert min(timing.counts) > 0
    assert sum(timing.counts) == len(timing.samples)
    assert min(latency for latency, _ in timing.samples) > 0


def test_a_lock_that_is_not_there_is_an_error(zookeeper_server: ZooKeeperServer) -> None:
    with open_sessions(zookeeper_server.port, 1) as (sock,):
        client = locks.Client(sock, b"/no-such-lock")
        client.ask()
        with pytest.raises(BadReply, match="created: error -101"):
            client.receive()
