"""Clients that take their replies slowly, or not at all, and ping meanwhile: on real ZooKeeper and zketcd."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from codec.client import create, get
from lab.client.blocking import EPHEMERAL, Client
from lab.client.slow import SlowClient
from lab.servers import EtcdServer, wait_until
from tests.compat.conftest import real_zookeeper, zketcd_proxy

pytestmark = pytest.mark.real

_TIMEOUT_MS = 3000
_TIMEOUT = _TIMEOUT_MS / 1000
_LONG = 3 * _TIMEOUT
_LARGE, _SMALL = 900_000, 20_000  # bytes


# Node, count of reads, bytes a second that the client takes.
_KINDS = (("/large", 25, 300_000), ("/small", 600, 200_000), ("/large", 25, 0))


def _slow_readers_keep_their_sessions(port: int, path: str, count: int, rate: int) -> None:
    with SlowClient(port, _TIMEOUT_MS) as slow, Client(port) as other:
        owned = f"/of{path[1:]}-{rate}"
        slow.ask(create(owned, mode=EPHEMERAL), *[get(path)] * count)
        slow.live(_LONG, rate=rate)
        assert other.stat(owned) is not None
        assert slow.errors(1 + count) == [0] * (1 + count)
        slow.live(_TIMEOUT, rate=300_000)
        assert other.stat(owned) is not None


def _a_client_that_does_not_ping_loses_its_session(port: int, answers: int) -> None:
    """With `answers` it does not read them, as a process that is stopped."""
    with SlowClient(port, _TIMEOUT_MS) as slow, Client(port) as other:
        path = f"/silent-{answers}"
        slow.ask(create(path, mode=EPHEMERAL), *[get("/large")] * answers)
        slow.live(_TIMEOUT * 0.5, pings=False)
        assert other.stat(path) is not None
        wait_until(lambda: other.stat(path) is None, "its session has ended")


def _one_that_reads_slowly_and_writes_much_keeps_its_session(port: int) -> None:
    """The server may leave unread what it cannot handle: it is not the client that is silent then."""
    with SlowClient(port, _TIMEOUT_MS) as slow, Client(port) as other:
        slow.ask(create("/busy", mode=EPHEMERAL), *[get("/large")] * 12)
        count = 20
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(slow.ask, *[create(f"/busy-{one}", bytes(_LARGE)) for one in range(count)])
            slow.live(_LONG, rate=300_000)
            assert other.stat("/busy") is not None
            assert slow.errors(13 + count) == [0] * (13 + count)
            sent.result()
        assert other.stat("/busy") is not None


def _a_session_ends_in_time_if_the_host_of_its_client_is_gone(port: int, writes: int) -> None:
    """Its kernel acknowledges nothing any more. With `writes` the server has also left some bytes unread."""
    with SlowClient(port, _TIMEOUT_MS) as slow, Client(port) as other:
        path = f"/gone-{writes}"
        slow.ask(create(path, mode=EPHEMERAL), *[get("/large")] * 12)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(slow.ask, *[create(f"{path}-{one}", bytes(_LARGE)) for one in range(writes)])
            slow.live(1.5 * _TIMEOUT, rate=300_000)
            assert other.stat(path) is not None
            slow.vanish()
            slow.live(_TIMEOUT * 0.5, pings=False)
            assert other.stat(path) is not None
            wait_until(lambda: other.stat(path) is None, "its session has ended")
            slow.drop()


_SCENARIOS: list[Callable[[int], None]] = [
    *(
        partial(_slow_readers_keep_their_sessions, path=path, count=count, rate=rate)
        for path, count, rate in _KINDS
    ),
    *(partial(_a_client_that_does_not_ping_loses_its_session, answers=answers) for answers in (0, 25)),
    _one_that_reads_slowly_and_writes_much_keeps_its_session,
    *(
        partial(_a_session_ends_in_time_if_the_host_of_its_client_is_gone, writes=writes)
        for writes in (0, 20)
    ),
]


@pytest.mark.parametrize("kind", ["zookeeper", "zketcd"])
def test_sessions_of_slow_clients(kind: str, etcd_server: EtcdServer) -> None:
    """All scenarios at once: each waits for several timeouts."""
    started = real_zookeeper() if kind == "zookeeper" else zketcd_proxy(etcd_server, "/slow")
    with started as server, ThreadPoolExecutor(len(_SCENARIOS)) as pool:
        with Client(server.port) as client:
            client.create("/large", bytes(_LARGE))
            client.create("/small", bytes(_SMALL))
        for done in [pool.submit(scenario, server.port) for scenario in _SCENARIOS]:
            done.result()
