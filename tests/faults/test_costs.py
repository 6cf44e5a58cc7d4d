"""What etcd itself counts: what watches and idle sessions of ZooKeeper clients cost it."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import pytest

from codec import client as zk
from lab.client.blocking import LONG_MS, Client
from lab.servers import EtcdServer, ZketcdServer, wait_until

pytestmark = pytest.mark.real

_KV = "etcdserverpb.KV"


class Cost(NamedTuple):
    """What etcd's members had to agree on, what else its KV service was asked, and what its store did."""

    proposals: int  # Txns that write, leases granted and revoked
    ranges: int  # KV requests other than Txns
    puts: int
    deletes: int


class Meter:
    """Counts what etcd was asked to do."""

    def __init__(self, etcd: EtcdServer) -> None:
        self._etcd = etcd

    def now(self) -> Cost:
        """All since etcd began."""
        samples = self._etcd.metrics()
        ranges = sum(
            value
            for sample, value in samples.items()
            if sample.startswith("grpc_server_started_total{")
            and f'grpc_service="{_KV}"' in sample
            and 'grpc_method="Txn"' not in sample
        )
        return Cost(
            int(samples["etcd_server_proposals_committed_total"]),
            int(ranges),
            int(samples["etcd_mvcc_put_total"]),
            int(samples.get("etcd_mvcc_delete_total", 0)),
        )

    def _has_answered(self) -> bool:
        samples = self._etcd.metrics()
        begun, ended = (
            sum(
                value
                for sample, value in samples.items()
                if sample.startswith(f"grpc_server_{what}_total{{") and f'grpc_service="{_KV}"' in sample
            )
            for what in ("started", "handled")
        )
        return begun == ended

    def of(self, work: Callable[[], object]) -> Cost:
        """What some work costs. Nothing else may use etcd meanwhile."""
        # A proxy may answer by the watch stream while etcd has still to count.
        wait_until(self._has_answered, "etcd has answered all that was before")
        before = self.now()
        work()
        wait_until(self._has_answered, "etcd has answered all")
        return Cost(*(late - early for late, early in zip(self.now(), before, strict=True)))


@pytest.fixture(scope="module")
def etcd() -> Iterator[EtcdServer]:
    """An etcd that no other test uses."""
    with EtcdServer() as etcd:
        yield etcd


@pytest.fixture(scope="module")
def proxy(etcd: EtcdServer) -> Iterator[ZketcdServer]:
    """Its only proxy."""
    with ZketcdServer(etcd.endpoint, max_client_connections=0) as proxy:
        yield proxy


@pytest.fixture
def meter(etcd: EtcdServer) -> Meter:
    """What this etcd counts."""
    return Meter(etcd)


@contextmanager
def session(proxy: ZketcdServer, timeout_ms: int = LONG_MS) -> Iterator[Client]:
    """A client that ends its session, so that it costs nothing when others are measured."""
    with Client(proxy.port, timeout_ms) as client:
        yield client
        client.close()


_NOTHING = Cost(0, 0, 0, 0)


def test_a_thousand_watches_are_one_watcher_of_etcd(proxy: ZketcdServer, etcd: EtcdServer) -> None:
    with ExitStack() as stack:
        for number in range(100):
            client = stack.enter_context(session(proxy))
            client.send(*(zk.exists(f"/{number}-{path}", watch=True) for path in range(10)))
            for _ in range(10):
                client.receive()
        assert etcd.metric("etcd_debugging_mvcc_watcher_total") == 1


def test_idle_sessions_cost_one_keep_alive_and_one_question_however_many_they_are(
    proxy: ZketcdServer, etcd: EtcdServer, meter: Meter
) -> None:
    def keep_alives() -> float:
        return etcd.metric("grpc_server_msg_received_total", grpc_method="LeaseKeepAlive")

    def txns() -> float:
        return etcd.metric("grpc_server_started_total", grpc_method="Txn")

    with ExitStack() as stack:
        clients: list[Client] = []

        def ping() -> None:
            for client in clients:
                client.ping()

        for _ in range(10):  # on a slow disk the first would expire before the last is there
            clients += [stack.enter_context(session(proxy, 10_000)) for _ in range(20)]
            ping()
        begun, asked = keep_alives(), txns()
        started = time.monotonic()

        def has_been_renewed_twice() -> bool:
            ping()
            return keep_alives() - begun >= 2

        cost = meter.of(lambda: wait_until(has_been_renewed_twice, "two keep-alives", interval=0.5))
        seconds = time.monotonic() - started
        # A third of the lease of 5 s lies between two keep-alives, a second between two questions.
        assert keep_alives() - begun <= 2 + seconds / 1.6
        assert txns() - asked <= 2 + seconds
    assert cost == _NOTHING
    assert etcd.metric("grpc_server_started_total", grpc_method="LeaseKeepAlive") == 1
    assert etcd.metric("etcd_debugging_server_lease_granted_total") <= 1, "only the proxy's own"
