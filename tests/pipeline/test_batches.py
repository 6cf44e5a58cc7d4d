"""What a server keeps for itself does not move with a tree: import, follow, export leave it out."""

from pathlib import Path

import pytest

from codec.constants import OpCode
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from pipeline.batches import batch_of, fixed_row, joined, rows_of
from pipeline.follow.inward import Directory, follow
from pipeline.follow.options import Options
from pipeline.follow.output import DONE
from pipeline.follow.outward import Options as BackOptions
from pipeline.follow.outward import mirror
from pipeline.sources.parquet import ParquetReader, ParquetWriter
from pipeline.sources.zookeeper_sink import ZooKeeperWriter, options_of
from pipeline.table import ZNODES, ZnodeRow
from proxy.log.load import start
from schema.keys import Keyspace
from schema.paths import CONFIG
from tests.pipeline.etcd.rows import load_tree, rows
from tests.pipeline.trees import node, read, transaction, write_log, write_snapshot

MEMBERS = b"server.1=zk-1:2888:3888:participant;zk-1:2181\nversion=100000000"
KEYS = Keyspace("/t")
TREE = [
    node("/", 0),
    node("/zookeeper", 0),
    node(CONFIG, 0, data=MEMBERS, version=-1, aversion=-1, mtime=77),
    node("/zookeeper/quota", 0),
]


def config_of(nodes: list[ZnodeRow]) -> ZnodeRow:
    (found,) = [row for row in nodes if row.path == CONFIG]
    return found


async def imported() -> FakeEtcdClient:
    etcd = FakeEtcdClient(FakeEtcd())
    await load_tree(etcd, KEYS, TREE)
    return etcd


async def test_import_leaves_it_out() -> None:
    machine = (await start.load_as_of(await imported(), KEYS)).machine
    assert (machine.tree.nodes[CONFIG].data, machine.tree.nodes[CONFIG].version) == (b"", 0)


async def test_follow_leaves_it_out(tmp_path: Path) -> None:
    """Both the members that exist at first, and what the members change later."""
    etcd = FakeEtcdClient(FakeEtcd())
    write_snapshot(tmp_path / "version-2", 0, TREE)
    source = Directory(str(tmp_path), log_timeout=0.0, interval=0.001)
    assert await follow(source, etcd, KEYS, Options(until_level=True)) == DONE
    changed = transaction(1, OpCode.RECONFIG, CONFIG, data=MEMBERS, version=-1, time=78)
    write_log(tmp_path / "version-2", [changed])
    assert await follow(source, etcd, KEYS, Options(finish=True, timeout=60.0, answer_within=0.0)) == DONE
    assert (await start.load_as_of(etcd, KEYS)).machine.tree.nodes[CONFIG].data == b""


async def test_a_tree_kept_level_for_the_way_back_has_none(tmp_path: Path) -> None:
    etcd = await imported()
    assert await mirror(etcd, KEYS, BackOptions(str(tmp_path / "back"), until_level=True)) == DONE
    assert config_of(read(tmp_path / "back")[1]) == fixed_row(CONFIG)


def test_export_leaves_it_out(tmp_path: Path) -> None:
    writer = ZooKeeperWriter(options_of({}, str(tmp_path / "new"), False), ZNODES.names)
    writer.commit([writer.write(iter([batch_of(TREE)]))])
    assert config_of(read(tmp_path / "new")[1]) == fixed_row(CONFIG)
    table = ParquetWriter(str(tmp_path / "table"))
    table.commit([table.write(iter([batch_of(TREE)]))])
    reader = ParquetReader(str(tmp_path / "table"))
    assert config_of(rows(reader.read(reader.partitions()[0]))) == fixed_row(CONFIG)


@pytest.mark.parametrize(("least", "sizes"), [(1, [2, 1, 3]), (3, [3, 3]), (4, [6]), (7, [6])])
def test_batches_are_joined(least: int, sizes: list[int]) -> None:
    rows = [node(f"/{number}") for number in range(6)]
    batches = [batch_of(rows[:2]), batch_of(rows[2:3]), batch_of(rows[3:])]
    found = list(joined(batches, least))
    assert [batch.num_rows for batch in found] == sizes
    assert [row for batch in found for row in rows_of(batch)] == rows
