"""etcd is compacted every second while clients write: nobody notices."""

import threading
from contextlib import ExitStack

from lab.client.blocking import Client
from lab.servers import EtcdServer
from lab.servers.operator import compact
from tests.faults.agreement import assert_same
from tests.faults.conftest import Start
from tests.faults.link import Link
from tests.faults.writers import Writers

_COMPACTIONS = 6


def test_no_connection_is_closed_for_it(start: Start, own_etcd_server: EtcdServer) -> None:
    """Streams break meanwhile, and have to go on at revisions that are gone; the log is truncated."""
    etcd = own_etcd_server
    over = threading.Event()
    count = 0

    def keep_compacting() -> None:
        nonlocal count
        while not over.wait(1.0):
            compact(etcd)
            count += 1

    compacting = threading.Thread(target=keep_compacting)
    with ExitStack() as stack:
        link = stack.enter_context(Link(etcd.port))
        proxies = [start(etcd, snapshot_log_requests=1000), start(link.endpoint), start(etcd)]
        idle = [stack.enter_context(Client(proxy.port)) for proxy in proxies]
        # A client whose connection is closed fails its writer, and with it `progress`.
        writers = stack.enter_context(Writers(*(proxy.port for proxy in proxies)))
        compacting.start()
        try:
            while count < _COMPACTIONS:
                writers.progress(1)
                for client in idle:
                    client.ping()
                if count % 2:
                    link.block()
                    compact(etcd)
                    link.unblock()
        finally:
            over.set()
            compacting.join()
        writers.verify()
        for proxy in proxies:
            text = proxy.log_text()
            assert "closing" not in text
            assert "loading the tree anew" not in text
            assert "is over" not in text
        assert "the watch broke" in proxies[1].log_text()
        late = stack.enter_context(Client(start(etcd).port))
        assert_same(*idle, late)
