"""Clients that take their replies slowly, or not at all, and ping meanwhile: on real ZooKeeper and zketcd."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab.client.blocking import EPHEMERAL, Client, create, get
from lab.client.slow import SlowClient
from lab.servers import EtcdServer, wait_until
from lab.servers.process import ServerProcess
from tests.compat.conftest import real_zookeeper, zketcd_proxy

pytestmark = pytest.mark.real

_TIMEOUT_MS = 3000
_TIMEOUT = _TIMEOUT_MS / 1000
_LONG = 3 * _TIMEOUT
_LARGE, _SMALL = 900_000, 20_000  # bytes


@pytest.fixture(scope="module", params=["zookeeper", "zketcd"])
def server(request: pytest.FixtureRequest, etcd_server: EtcdServer) -> Iterator[ServerProcess]:
    """Each server with the same nodes."""
    with real_zookeeper() if request.param == "zookeeper" else zketcd_proxy(etcd_server, "/slow") as server:
        with Client(server.port) as client:
            client.create("/large", bytes(_LARGE))
            client.create("/small", bytes(_SMALL))
        yield server


# Node, count of reads, bytes a second that the client takes.
_KINDS = (("/large", 25, 300_000), ("/small", 600, 200_000), ("/large", 25, 0))


def test_slow_readers_keep_their_sessions(server: ServerProcess) -> None:
    def read(path: str, count: int, rate: int) -> None:
        with SlowClient(server.port, _TIMEOUT_MS) as slow, Client(server.port) as other:
            owned = f"/of{path[1:]}-{rate}"
            slow.ask(create(owned, mode=EPHEMERAL), *[get(path)] * count)
            slow.live(_LONG, rate=rate)
            assert other.stat(owned) is not None
            assert slow.errors(1 + count) == [0] * (1 + count)
            slow.live(_TIMEOUT, rate=300_000)
            assert other.stat(owned) is not None

    with ThreadPoolExecutor(len(_KINDS)) as pool:
        for done in [pool.submit(read, *kind) for kind in _KINDS]:
            done.result()


@pytest.mark.parametrize("answers", [0, 25])
def test_a_client_that_does_not_ping_loses_its_session(server: ServerProcess, answers: int) -> None:
    """With `answers` it does not read them, as a process that is stopped."""
    with SlowClient(server.port, _TIMEOUT_MS) as slow, Client(server.port) as other:
        slow.ask(create("/silent", mode=EPHEMERAL), *[get("/large")] * answers)
        began = time.monotonic()
        slow.live(_TIMEOUT * 0.9, pings=False)
        assert other.stat("/silent") is not None
        wait_until(lambda: other.stat("/silent") is None, "its session has ended")
        assert time.monotonic() - began < 2 * _TIMEOUT


def test_one_that_reads_slowly_and_writes_much(server: ServerProcess) -> None:
    """The server may leave unread what it cannot handle: it is not the client that is silent then."""
    with SlowClient(server.port, _TIMEOUT_MS) as slow, Client(server.port) as other:
        slow.ask(create("/busy", mode=EPHEMERAL), *[get("/large")] * 12)
        count = 20
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(slow.ask, *[create(f"/busy-{one}", bytes(_LARGE)) for one in range(count)])
            slow.live(_LONG, rate=300_000)
            assert other.stat("/busy") is not None
            assert slow.errors(13 + count) == [0] * (13 + count)
            sent.result()
        assert other.stat("/busy") is not None


@pytest.mark.parametrize("writes", [0, 20])
def test_a_session_ends_in_time_if_the_host_of_its_client_is_gone(server: ServerProcess, writes: int) -> None:
    """Its kernel acknowledges nothing any more. With `writes` the server has also left some bytes unread."""
    with SlowClient(server.port, _TIMEOUT_MS) as slow, Client(server.port) as other:
        path = f"/gone-{writes}"
        slow.ask(create(path, mode=EPHEMERAL), *[get("/large")] * 12)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(slow.ask, *[create(f"{path}-{one}", bytes(_LARGE)) for one in range(writes)])
            slow.live(1.5 * _TIMEOUT, rate=300_000)
            assert other.stat(path) is not None
            slow.vanish()
            began = time.monotonic()
            slow.live(_TIMEOUT * 0.5, pings=False)
            assert other.stat(path) is not None
            wait_until(lambda: other.stat(path) is None, "its session has ended")
            assert time.monotonic() - began < 2 * _TIMEOUT
            slow.drop()
