"""A Txn whose answer is lost may have been applied, or may be later: clients get the truth all the same."""

import random

from tests.faults.client import Client, create, set_data
from tests.faults.conftest import Start
from tests.faults.link import Link
from tests.faults.writers import Writers
from tests.harness import EtcdServer, wait_until

_UNKNOWN = "outcome of a Txn"
_FENCE = "fence: "
# Less than any Txn with a client's write, more than the other things that a proxy says to etcd unasked.
_TXN_BYTES = 200


def test_etcd_that_stops_for_longer_than_a_txn_may_take(start: Start, own_etcd_server: EtcdServer) -> None:
    etcd = own_etcd_server
    proxy = start(etcd, log_level="DEBUG")
    with Writers(proxy.port) as writers:
        for settled_by in (_UNKNOWN, _FENCE):
            writers.progress()
            seen = proxy.log_text().count(settled_by)
            etcd.pause()
            wait_until(
                lambda seen=seen, what=settled_by: proxy.log_text().count(what) > seen,  # type: ignore[misc]
                f"the proxy says {settled_by!r}",
            )
            etcd.resume()
        writers.progress()
        writers.verify()


def test_answers_lost_under_load(start: Start, own_etcd_server: EtcdServer) -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    with Link(own_etcd_server.port) as link:
        proxy = start(link.endpoint)
        with Writers(proxy.port) as writers:
            for cut in range(24):
                link.set_trap(_TXN_BYTES, etcd_goes_on=chance.random() < 0.5)
                link.wait_for_trap()
                if cut % 3:
                    writers.progress(1)
            writers.progress()
            writers.verify()
        assert _UNKNOWN in proxy.log_text(), f"no answer was lost (seed {seed})"


def test_a_txn_that_arrives_after_its_fence(start: Start, own_etcd_server: EtcdServer) -> None:
    etcd = own_etcd_server
    with Link(etcd.port) as slow, Link(etcd.port) as other:
        proxy = start(f"{slow.endpoint},{other.endpoint}")
        with Client(proxy.port) as client:
            client.create("/a")
            client.create("/queue")
            slow.hold(_TXN_BYTES)
            xids = client.send(set_data("/a", b"once", 0), create("/queue/n-", b"", 2))
            # The proxy gives the Txn up, and turns to its other endpoint.
            wait_until(lambda: _UNKNOWN in proxy.log_text(), "the proxy misses its answer")
            assert client.result(xids[0]).stat().version == 1
            assert client.result(xids[1]).string() == "/queue/n-0000000000"
            before = _txns(etcd)
            slow.release()
            wait_until(lambda: _txns(etcd) > before, "the held Txn reaches etcd")
            client.sync()
            data, stat = client.read("/a")
            assert (data, stat.version) == (b"once", 1)
            names, parent = client.children("/queue")
            assert (names, parent.cversion) == ({"n-0000000000"}, 1)


def _txns(etcd: EtcdServer) -> float:
    """Txns that etcd has answered."""
    return etcd.metric("grpc_server_handled_total", grpc_method="Txn")
