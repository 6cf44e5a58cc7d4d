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
from proxy.etcd.model import Put, Txn
from proxy.state import capture
from proxy.state.level import NEWEST
from proxy.state.tree import Node
from schema.keys import Keyspace, snapshot_name
from schema.record import SnapshotRef, TreeRecord, encode_record
from schema.znode import OPEN_ACL
from tests.faults.conftest import Start
from tests.faults.roaming import Roamers

_ZNODES = int(os.environ.get("ZKETCD_TEST_ZNODES", "100000"))
_COMPACTION_S = float(os.environ.get("ZKETCD_TEST_COMPACTION", "1"))
_EACH = 1000  # children of one directory
_ZXID = 0x100000000
_KEYS = Keyspace("/zketcd")


async def make_tree(endpoint: str, znodes: int) -> None:
    """Put a snapshot with so many znodes into an empty etcd, as an import does."""
    etcd = EtcdClient([endpoint])
    try:
        cluster_id = (await etcd.status()).cluster_id
        machine = capture.new_machine(cluster_id)

        def attach(path: str, data: bytes) -> None:
            machine.tree.attach(path, Node(data, OPEN_ACL, 0, 1, 1, 1, 1, 1, 0, 0, 0))

        attach("/big", b"")
        for number in range(znodes):
            directory = f"/big/{number // _EACH:06d}"
            if number % _EACH == 0:
                attach(directory, b"")
            else:
                attach(f"{directory}/{number % _EACH:06d}", b"data of znode %09d" % number)
        machine.zxid = _ZXID
        machine.reset_digest()
        captured = capture.pages(machine)
        revision = (await etcd.status()).revision
        name = snapshot_name(revision, "test")
        size = count = sessions = 0
        await etcd.txn(Txn((), (Put(_KEYS.state_page(name), captured.state),)), 10)
        for page in captured.session_pages:
            await etcd.txn(Txn((), (Put(_KEYS.session_page(name, sessions), page),)), 10)
            sessions += 1
        for page in captured.node_pages:
            await etcd.txn(Txn((), (Put(_KEYS.node_page(name, count), page),)), 10)
            size += len(page)
            count += 1
        ref = SnapshotRef(
            name,
            revision,
            "test",
            count,
            sessions,
            size,
            len(machine.tree.nodes),
            0,
            _ZXID,
            captured.digest,
        )
        record = TreeRecord(complete=True, cluster_id=cluster_id, level=NEWEST, current=ref, previous=None)
        await etcd.txn(Txn((), (Put(_KEYS.tree, encode_record(record)),)), 10)
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
    first = start(etcd, start_timeout=patience)
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
    assert took < 10 + _ZNODES / 10_000, f"the start took {took:.1f} s"
