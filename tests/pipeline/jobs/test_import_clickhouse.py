"""Replicated tables move from real ZooKeeper to zketcd and back, as docs/migration.md tells: no row is lost.

ClickHouse's own numbers (blocks, log entries, mutations) come from sequential nodes: where a move loses
counters, later inserts vanish as duplicates or obsolete parts.
"""

import http.client
import shutil
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pipeline.__main__ import main
from tests.clients.clickhouse import ClickHouseServer, QueryRefused
from tests.clients.test_clickhouse import ALL_ROWS, ON_ALL, create_table, insert, wait_for_rows
from tests.harness import EtcdServer, ZketcdServer, ZooKeeperServer, wait_until
from tests.pipeline.ensembles import zookeeper

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
    """Inserts numbered blocks on both replicas in turn, and knows what the table must hold."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._blocks: list[str] = []

    def write(self, blocks: int) -> None:
        """Insert so many blocks, and wait until both replicas have every row there ever was, once."""
        for _ in range(blocks):
            number = len(self._blocks)
            self._blocks.append(f"('2020-01-01', 1, {number}, 1)")
            replica = self._replicas[number % 2]
            wait_until(lambda replica=replica: self._insert(replica, -1), "a block is taken", timeout=90)  # type: ignore[misc]
        rows = sorted(f"2020-01-01\t1\t{number}\t1" for number in range(len(self._blocks)))
        rows.sort(key=lambda row: int(row.split("\t")[2]))
        wait_for_rows(self._replicas, ALL_ROWS, "\n".join(rows))

    def write_again(self, number: int) -> None:
        """Send an old block again: ClickHouse knows it by a node in ZooKeeper, and stores it once."""
        for replica in self._replicas:
            assert self._insert(replica, number)

    def _insert(self, replica: ClickHouseServer, number: int) -> bool:
        try:
            insert(replica, self._blocks[number])
        except (QueryRefused, OSError, http.client.HTTPException):
            return False
        return True


def test_there_and_back(
    ensemble: ZooKeeperServer,
    replicas: Replicas,
    etcd_server: EtcdServer,
    etcd_prefix: str,
) -> None:
    options = ["--etcd", etcd_server.endpoint, "--prefix", etcd_prefix]
    create_table(replicas[0], "t")
    writer = Writer(replicas)
    writer.write(6)
    ensemble.stop()

    assert main(["import", str(ensemble.data_dir), *options]) == 0
    with ZketcdServer(
        etcd_server.endpoint,
        port=ensemble.port,
        prefix=etcd_prefix,
        max_session_timeout=60_000,
        max_client_connections=0,
    ) as server:
        writer.write(6)
        writer.write_again(0)
        replicas[0].query("OPTIMIZE TABLE t FINAL", replication_alter_partitions_sync=ON_ALL)
        writer.write(4)
        server.stop()

    shutil.rmtree(ensemble.data_dir)
    assert main(["export", str(ensemble.data_dir), *options]) == 0
    ensemble.start()
    writer.write(4)
    writer.write_again(1)
    writer.write_again(11)
    writer.write(2)
