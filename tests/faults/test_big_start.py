"""A start with many znodes while etcd compacts and clients write.

ZKETCD_TEST_ZNODES and ZKETCD_TEST_COMPACTION (seconds) make it larger: 5000000 and 60 for a night.
"""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lab.client.blocking import Client
from lab.servers import EtcdServer
from lab.servers.operator import compact, ctl
from proxy.etcd.client import EtcdClient
from schema.keys import Keyspace
from tests.faults.conftest import Start
from tests.faults.roaming import Roamers
from tests.pipeline.etcd.rows import load_tree, row

_ZNODES = int(os.environ.get("ZKETCD_TEST_ZNODES", "100000"))
_COMPACTION_S = float(os.environ.get("ZKETCD_TEST_COMPACTION", "1"))
_EACH = 1000  # children of one directory


async def make_tree(endpoint: str, znodes: int) -> None:
    """Import so many znodes into an empty etcd."""
    directories = [row(f"/big/{number:06d}") for number in range((znodes - 1) // _EACH + 1)]
    leaves = [
        row(f"/big/{number // _EACH:06d}/{number % _EACH:06d}", data=b"data of znode %09d" % number)
        for number in range(znodes)
        if number % _EACH
    ]
    etcd = EtcdClient([endpoint])
    try:
        await load_tree(etcd, Keyspace("/zketcd"), [row("/"), row("/big"), *directories, *leaves])
    finally:
        await etcd.close()


@contextmanager
def compacting(etcd: EtcdServer) -> Iterator[None]:
    """Compact etcd again and again."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(_COMPACTION_S):
            compact(etcd)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_start_while_etcd_compacts_and_others_write(start: Start, own_etcd_server: EtcdServer) -> None:
    etcd = own_etcd_server
    asyncio.run(make_tree(etcd.endpoint, _ZNODES))
    patience = 60 + _ZNODES / 20_000
    began = time.monotonic()
    first = start(etcd, start_timeout=patience)
    calm = time.monotonic() - began
    with compacting(etcd), Roamers(lambda: [first.port], count=4) as roamers:
        roamers.progress()
        began = time.monotonic()
        second = start(etcd, start_timeout=patience)
        took = time.monotonic() - began
        # And with truncation in its way: the snapshot and the log that it began with may be gone at the end.
        ctl(etcd, "snapshot")
        third = start(etcd, start_timeout=patience)
        ctl(etcd, "snapshot")
        roamers.progress()
        roamers.verify()
        assert roamers.moves == 0
    counts = []
    for proxy in (first, second, third):
        with Client(proxy.port) as client:
            client.sync()
            for number in (1, _ZNODES // 2 + 1, _ZNODES - 1):
                path = f"/big/{number // _EACH:06d}/{number % _EACH:06d}"
                assert client.read(path)[0] == b"data of znode %09d" % number
            counts.append(client.children("/big")[1].num_children)
        assert "cannot be used" not in proxy.log_text()
        assert "loading the tree anew" not in proxy.log_text()
    assert counts == [(_ZNODES + _EACH - 1) // _EACH] * 3
    assert took < 10 + _ZNODES / 10_000 + 3 * calm, f"the start took {took:.1f} s"
