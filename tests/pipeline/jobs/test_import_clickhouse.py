"""Replicated tables move from real ZooKeeper to zketcd amid inserts, and back, as docs/migration.md tells.

ClickHouse's own numbers (blocks, log entries, mutations) come from sequential nodes: where a move loses
counters, later inserts vanish as duplicates or obsolete parts.
"""

import http.client
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer, wait_until
from lab.servers.clickhouse import ClickHouseServer, QueryRefused
from pipeline.__main__ import main
from tests.clients.test_clickhouse import ON_ALL, create_table, insert, wait_for_rows
from tests.pipeline.ensembles import zookeeper
from tests.pipeline.follow.running import PipelineCommand

pytestmark = pytest.mark.real

Replicas = tuple[ClickHouseServer, ClickHouseServer]


@pytest.fixture
def ensemble() -> Iterator[ZooKeeperServer]:
    """A ZooKeeper to move away from."""
    with zookeeper() as server:
        yield server


@pytest.fixture
def replicas(ensemble: ZooKeeperServer) -> Iterator[Replicas]:
    first, second = (ClickHouseServer(ensemble.port, replica=f"replica-{n}") for n in (1, 2))
    for replica in (first, second):
        replica.join((first, second))
    with ExitStack() as stack:
        for replica in (first, second):
            stack.callback(replica.close)
            replica.start()
        yield first, second


class Writer:
    """Inserts numbered blocks on one replica, each until it is acknowledged."""

    def __init__(self, number: int, replica: ClickHouseServer) -> None:
        self.number = number
        #: How many were acknowledged.
        self.blocks = 0
        #: Seconds from the first try to the acknowledgement.
        self.longest_wait = 0.0
        self.ended = threading.Event()
        self._replica = replica

    def run(self) -> None:
        """Insert until `ended` is set; the block that is on its way then is finished."""
        while not self.ended.wait(0.02):
            self.write(1)

    def write(self, blocks: int) -> None:
        """Insert so many."""
        for _ in range(blocks):
            begun = time.monotonic()
            self.send(self.blocks)
            self.longest_wait = max(self.longest_wait, time.monotonic() - begun)
            self.blocks += 1

    def send(self, block: int) -> None:
        """Insert a block. ClickHouse knows one that it has by a node in ZooKeeper, and stores it once."""
        wait_until(lambda: self._try(block), "a block is taken", timeout=90)

    def _try(self, block: int) -> bool:
        """Insert, and tell whether it was acknowledged. A refused block may be stored nevertheless."""
        try:
            insert(self._replica, f"('2020-01-01', {self.number}, {block}, 1)")
        except (QueryRefused, OSError, http.client.HTTPException):
            return False
        return True


@contextmanager
def writing(writers: list[Writer]) -> Iterator[None]:
    """Let all of them insert meanwhile."""
    with ThreadPoolExecutor(len(writers)) as threads:
        futures = [threads.submit(writer.run) for writer in writers]
        try:
            yield
        finally:
            for writer in writers:
                writer.ended.set()
        for future in futures:
            future.result()


def wait_for_progress(writers: list[Writer]) -> None:
    """Wait until each has had a few more blocks acknowledged."""
    goals = [(writer, writer.blocks + 5) for writer in writers]
    wait_until(lambda: all(w.blocks >= goal for w, goal in goals), "all writers go on", timeout=90)


def check(writers: list[Writer], replicas: Replicas) -> None:
    """Wait until both replicas have every block that was acknowledged, once, and nothing else."""
    wait_for_rows(
        replicas,
        "SELECT writer, block, count() FROM t GROUP BY writer, block ORDER BY writer, block",
        "\n".join(f"{w.number}\t{block}\t1" for w in writers for block in range(w.blocks)),
    )


def test_there_and_back(
    ensemble: ZooKeeperServer,
    replicas: Replicas,
    etcd_server: EtcdServer,
    etcd_prefix: str,
    tmp_path: Path,
) -> None:
    source = str(ensemble.data_dir)
    options = ["--etcd", etcd_server.endpoint, "--prefix", etcd_prefix]
    create_table(replicas[0], "t")
    writers = [Writer(number, replica) for number, replica in enumerate(replicas)]
    for writer in writers:
        writer.write(3)
    check(writers, replicas)
    rehearse(shutil.copytree(source, tmp_path / "copy"), etcd_server, f"{etcd_prefix}-rehearsal")

    server = ZketcdServer(
        etcd_server.endpoint,
        port=ensemble.port,
        prefix=etcd_prefix,
        max_session_timeout=60_000,
        max_client_connections=0,
    )
    with closing(server):
        with PipelineCommand("follow", source, *options) as following, writing(writers):
            following.wait_until_level()
            wait_for_progress(writers)
            ensemble.stop()
            assert main(["follow", source, *options, "--finish"]) == 0
            assert following.wait(60) == 0
            assert main(["verify", source, tree_at(etcd_server, etcd_prefix), "--without-ephemerals"]) == 0
            server.start()
            reconnect(replicas)
            wait_for_progress(writers)
        print(f"inserts waited for {max(writer.longest_wait for writer in writers):.1f} s at the cut-over")

        check(writers, replicas)
        for writer in writers:
            writer.send(0)
        wait_until(lambda: merge(replicas), "one part is left", timeout=60)
        for writer in writers:
            writer.write(2)
        check(writers, replicas)
        server.stop()

        shutil.rmtree(source)
        assert main(["export", source, *options]) == 0
        ensemble.start()
        reconnect(replicas)
        for writer in writers:
            writer.write(2)
            writer.send(1)
            writer.send(writer.blocks - 3)
            writer.write(1)
        check(writers, replicas)


def reconnect(replicas: Replicas) -> None:
    """Have both use the server that is there now."""
    for replica in replicas:
        replica.query("SYSTEM RESTART REPLICA t")
    wait_for_rows(replicas, "SELECT is_readonly, is_session_expired FROM system.replicas", "0\t0")


def merge(replicas: Replicas) -> bool:
    """Merge all that is not in another merge already, and tell whether that is all."""
    replicas[0].query("OPTIMIZE TABLE t PARTITION 202001 FINAL", replication_alter_partitions_sync=ON_ALL)
    return all(
        replica.query("SELECT count() FROM system.parts WHERE table = 't' AND active") == "1"
        for replica in replicas
    )


def rehearse(copy: Path, etcd_server: EtcdServer, prefix: str) -> None:
    """As the page begins: a copy of a member's files is imported under another prefix."""
    assert main(["import", str(copy), "--etcd", etcd_server.endpoint, "--prefix", prefix]) == 0
    assert main(["verify", str(copy), tree_at(etcd_server, prefix), "--without-ephemerals"]) == 0


def tree_at(etcd_server: EtcdServer, prefix: str) -> str:
    """What `verify` calls the tree."""
    return f"etcd://{etcd_server.address}{prefix}"
