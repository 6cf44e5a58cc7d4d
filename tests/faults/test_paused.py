"""A proxy that was stopped for longer than --max-staleness, and wakes with requests in its sockets."""

import time

from codec.client import get
from lab.client.blocking import Client
from lab.servers import EtcdServer
from tests.faults.conftest import Start


def test_no_read_that_waited_for_it_is_answered_with_what_was_before(
    start: Start, etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    paused, other = (start(etcd_server, prefix=etcd_prefix, max_staleness=1) for _ in range(2))
    with Client(paused.port) as reader, Client(other.port) as writer:
        writer.create("/a")
        reader.sync()
        paused.pause()
        try:
            # More than its socket takes of etcd's watch at once.
            versions = [writer.write("/a", bytes(100_000)).version for _ in range(30)]
            time.sleep(1.1)
            (xid,) = reader.send(get("/a"))
        finally:
            paused.resume()
        assert reader.result(xid).stat.version == versions[-1]
