"""What etcd itself counts: what reads and writes of ZooKeeper clients cost it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import pytest

from tests.faults import client as zk
from tests.faults.client import LONG_MS, SEQUENTIAL, Client
from tests.harness import EtcdServer, ZketcdServer, wait_until

pytestmark = pytest.mark.real

_KV = "etcdserverpb.KV"


class Cost(NamedTuple):
    """Requests of etcd's KV service, and what its store did."""

    txns: int
    other_requests: int
    puts: int
    deletes: int


class Meter:
    """Counts what etcd was asked to do."""

    def __init__(self, etcd: EtcdServer) -> None:
        self._etcd = etcd

    def now(self) -> Cost:
        """All since etcd began."""
        samples = self._etcd.metrics()
        requests = [
            (sample, value)
            for sample, value in samples.items()
            if sample.startswith("grpc_server_started_total{") and f'grpc_service="{_KV}"' in sample
        ]
        txns = sum(value for sample, value in requests if 'grpc_method="Txn"' in sample)
        return Cost(
            int(txns),
            int(sum(value for _, value in requests) - txns),
            int(samples["etcd_mvcc_put_total"]),
            int(samples.get("etcd_mvcc_delete_total", 0)),
        )

    def _has_answered(self) -> bool:
        begun, ended = (
            sum(
                value
                for sample, value in self._etcd.metrics().items()
                if sample.startswith(f"grpc_server_{what}_total{{") and f'grpc_service="{_KV}"' in sample
            )
            for what in ("started", "handled")
        )
        return begun == ended

    def of(self, work: Callable[[], object]) -> Cost:
        """What some work costs. Nothing else may use etcd meanwhile."""
        before = self.now()
        work()
        # A proxy may answer by the watch stream while etcd has still to count.
        wait_until(self._has_answered, "etcd has answered all")
        return Cost(*(late - early for late, early in zip(self.now(), before, strict=True)))


@pytest.fixture(scope="module")
def etcd() -> Iterator[EtcdServer]:
    """An etcd that nobody else uses."""
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


@pytest.fixture
def client(proxy: ZketcdServer) -> Iterator[Client]:
    """A client, with the only znode, for whom the proxy has opened a marker already."""
    with session(proxy) as client:
        client.create("/a", b"data")
        yield client
        if client.stat("/a"):
            client.call(zk.delete("/a"))


def test_reads_and_watches_cost_nothing(proxy: ZketcdServer, meter: Meter, client: Client) -> None:
    def work() -> None:
        for _ in range(100):
            client.send(
                zk.get_data("/a", watch=True),
                zk.exists("/missing", watch=True),
                zk.get_children("/", watch=True),
            )
            for _ in range(3):
                client.receive()
            client.ping()

    assert meter.of(work) == Cost(0, 0, 0, 0)


def test_a_thousand_watches_are_one_watcher_of_etcd(proxy: ZketcdServer, etcd: EtcdServer) -> None:
    with ExitStack() as stack:
        for number in range(100):
            client = stack.enter_context(session(proxy))
            client.send(*(zk.exists(f"/{number}-{path}", watch=True) for path in range(10)))
            for _ in range(10):
                client.receive()
        assert etcd.metric("etcd_debugging_mvcc_watcher_total") == 1


def test_idle_sessions_keep_alive_on_one_stream(proxy: ZketcdServer, etcd: EtcdServer, meter: Meter) -> None:
    def renewals() -> float:
        return etcd.metric("grpc_server_msg_received_total", grpc_method="LeaseKeepAlive")

    with ExitStack() as stack:
        clients = [stack.enter_context(session(proxy, 4_000)) for _ in range(200)]
        begun = renewals()

        def have_been_renewed() -> bool:
            for client in clients:
                client.ping()
            return renewals() - begun >= len(clients)

        cost = meter.of(lambda: wait_until(have_been_renewed, "every lease's renewal", interval=0.1))
    assert cost == Cost(0, 0, 0, 0)
    assert etcd.metric("grpc_server_started_total", grpc_method="LeaseKeepAlive") == 1


def test_a_create_is_one_txn_with_two_puts_and_the_marker(meter: Meter, client: Client) -> None:
    assert meter.of(lambda: client.create("/b", b"data")) == Cost(1, 0, 3, 0)


def test_a_set_is_one_txn_with_one_put_and_the_marker(meter: Meter, client: Client) -> None:
    assert meter.of(lambda: client.write("/a", b"more")) == Cost(1, 0, 2, 0)


def test_a_delete_is_one_txn_with_one_delete_a_put_and_the_marker(meter: Meter, client: Client) -> None:
    assert meter.of(lambda: client.call(zk.delete("/a"))) == Cost(1, 0, 2, 1)


def test_a_delete_of_a_former_parent_takes_its_counter_too(meter: Meter, client: Client) -> None:
    client.create("/a/b")
    client.call(zk.delete("/a/b"))
    assert meter.of(lambda: client.call(zk.delete("/a"))) == Cost(1, 0, 2, 2)


def test_a_sync_is_one_txn_with_the_marker_alone(meter: Meter, client: Client) -> None:
    assert meter.of(client.sync) == Cost(1, 0, 1, 0)


def test_a_refusal_is_one_txn_with_the_marker_alone(meter: Meter, client: Client) -> None:
    assert meter.of(lambda: client.refusal(zk.create("/a"))) == Cost(1, 0, 1, 0)


def test_a_thousand_pipelined_creates_of_64_sessions_share_their_txns(
    proxy: ZketcdServer, meter: Meter, client: Client
) -> None:
    each, creates = 16, 1024
    with ExitStack() as stack:
        clients = [stack.enter_context(session(proxy)) for _ in range(64)]
        client.create("/queue")

        def work() -> None:
            requests = [zk.create("/queue/n-", b"data", SEQUENTIAL)] * each
            sent = [(client, client.send(*requests)) for client in clients]
            for client, xids in sent:
                for xid in xids:
                    client.result(xid)

        cost = meter.of(work)
    names, stat = client.children("/queue")
    assert names == {f"n-{number:010d}" for number in range(creates)}
    assert stat.cversion == creates
    assert cost.txns < 200
    assert cost.other_requests == 0
    # Each node, and for each Txn one counter and one marker (with a few more for lanes opened meanwhile).
    assert creates < cost.puts <= creates + 2 * cost.txns
