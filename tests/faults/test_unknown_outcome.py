"""An append whose answer is lost may have been applied, or may be later: clients get the truth."""

import random
import time

from lab.client.blocking import SEQUENTIAL, Client, create, set_data
from lab.servers import EtcdServer, wait_until
from lab.servers.operator import count_keys
from tests.faults.conftest import Start
from tests.faults.link import Link
from tests.faults.writers import Writers

_UNKNOWN = "outcome unknown"
# Less than any append of a writer's burst, more than the other things that a proxy says to etcd unasked.
_APPEND_BYTES = 600


def test_etcd_that_stops_for_longer_than_an_append_takes(start: Start, own_etcd_server: EtcdServer) -> None:
    etcd = own_etcd_server
    proxy = start(etcd, log_level="DEBUG")
    with Writers(proxy.port) as writers:
        # Until the same Txn is sent again for the first time; then for longer than the lease.
        for seconds in (0, 6):
            writers.progress()
            seen = proxy.log_text().count(_UNKNOWN)
            etcd.pause()
            until = time.monotonic() + seconds
            wait_until(
                lambda seen=seen, until=until: (  # type: ignore[misc]
                    time.monotonic() >= until and proxy.log_text().count(_UNKNOWN) > seen
                ),
                "the proxy misses an answer",
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
                link.set_trap(_APPEND_BYTES, etcd_goes_on=chance.random() < 0.5)
                link.wait_for_trap()
                if cut % 3:
                    writers.progress(1)
            writers.progress()
            writers.verify()
        assert _UNKNOWN in proxy.log_text(), f"no answer was lost (seed {seed})"


def test_an_append_that_arrives_after_it_was_sent_again(start: Start, own_etcd_server: EtcdServer) -> None:
    etcd = own_etcd_server
    with Link(etcd.port) as slow, Link(etcd.port) as other:
        proxy = start(f"{slow.endpoint},{other.endpoint}")
        with Client(proxy.port) as client:
            client.create("/a")
            client.create("/queue")
            slow.hold(_APPEND_BYTES)
            data = random.Random(1).randbytes(2 * _APPEND_BYTES)
            xids = client.send(set_data("/a", data, 0), create("/queue/n-", b"", SEQUENTIAL))
            # The proxy waits for less than a second, and sends the same to its other endpoint.
            assert client.result(xids[0]).version == 1
            assert client.result(xids[1]) == "/queue/n-0000000000"
            entries = count_keys(etcd, "/zketcd/live/log/")
            assert slow.release() > len(data), "the append was held"
            client.sync()
            read, stat = client.read("/a")
            assert (read, stat.version) == (data, 1)
            names, parent = client.children("/queue")
            assert (names, parent.cversion) == ({"n-0000000000"}, 1)
            assert count_keys(etcd, "/zketcd/live/log/") == entries + 1, "the sync"
