"""Replicated tables move from real ZooKeeper to zketcd amid inserts, and back, as docs/migration.md tells.

ClickHouse's own numbers (blocks, log entries, mutations) come from sequential nodes: where a move loses
counters, later inserts vanish as duplicates or obsolete parts.
"""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer, wait_until
from lab.servers.clickhouse import replicas_at
from tests.clients.clickhouse_tables import (
    ON_ALL,
    Replicas,
    Writer,
    check,
    create_table,
    wait_for_progress,
    wait_for_rows,
    writing,
)
from tests.pipeline.ensembles import zookeeper
from tests.pipeline.follow.running import PipelineCommand
from zketcd.__main__ import main

pytestmark = pytest.mark.real


@pytest.fixture
def ensemble() -> Iterator[ZooKeeperServer]:
    """A ZooKeeper to move away from."""
    with zookeeper() as server:
        yield server


@pytest.fixture
def replicas(ensemble: ZooKeeperServer) -> Iterator[Replicas]:
    with replicas_at(ensemble.port, ensemble.port) as both:
        yield both


def test_there_and_back(
    ensemble: ZooKeeperServer, replicas: Replicas, etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path
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
