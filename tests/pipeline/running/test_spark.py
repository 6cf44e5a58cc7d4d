"""By Spark and in this process: the same results, and progress that knows of znodes."""

import asyncio
import io
import json
import pickle
import signal
import sys
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lab.fakes.clock import FakeClock
from lab.servers import EtcdServer
from pipeline.etcd.options import Connection
from pipeline.etcd.record import record_of
from pipeline.job import Table
from pipeline.jobs import export, import_
from pipeline.jobs.failure import reason_of
from pipeline.jobs.trees import directory_of
from pipeline.progress import Count, Reporter
from pipeline.running.runner import Here
from pipeline.running.spark import BySpark, take
from pipeline.sources.options import options_of
from pipeline.sources.parquet import RemoteParquet
from pipeline.sources.zookeeper_files import ZnodeReader
from schema.record import SnapshotRef
from tests.pipeline.conftest import drop_request
from tests.pipeline.trees import SAMPLES, node, table_of, write_parquet
from zketcd.__main__ import main

pytestmark = pytest.mark.real

SAMPLE = str(SAMPLES / "zk39-plain")


def paths_of(batches: Iterator[pa.RecordBatch]) -> list[str]:
    return [path for batch in batches for path in batch.column("path").to_pylist()]


def znodes() -> Table:
    return directory_of(options_of({"path": SAMPLE, "splitBytes": "20000"})).znodes


def test_other_users_of_the_machine_cannot_speak_to_its_ports(spark: SparkSession) -> None:
    assert spark.sparkContext.getConf().get("spark.authenticate") == "true"


def test_workers_import_nothing_from_the_current_directory(spark: SparkSession) -> None:
    is_safe = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.flags.safe_path)
    assert is_safe.collect() == [True]


def test_a_test_that_is_interrupted_does_not_spoil_the_next(spark: SparkSession) -> None:
    def interrupt(*_: object) -> None:
        pytest.fail("as pytest-timeout does")

    former = signal.signal(signal.SIGALRM, interrupt)
    remaining, _ = signal.setitimer(signal.ITIMER_REAL, 2)
    try:
        with pytest.raises(pytest.fail.Exception):
            spark.sparkContext.parallelize([0], 1).map(lambda _: time.sleep(6)).collect()
    finally:
        signal.signal(signal.SIGALRM, former)
        signal.setitimer(signal.ITIMER_REAL, remaining)
        drop_request()
    assert [spark.range(number).count() for number in (3, 4, 5)] == [3, 4, 5]


def test_each_row_once_and_counted(spark: SparkSession) -> None:
    out = io.StringIO()
    reporter = Reporter(as_json=True, out=out)
    runners = (Here(reporter), BySpark(reporter, "", spark))
    here, by_spark = (sorted(runner.each("look", znodes(), paths_of)) for runner in runners)
    assert here == by_spark
    assert len(here) > 3
    last = [json.loads(line) for line in out.getvalue().splitlines() if '"done": true' in line]
    assert [line["count"] for line in last] == [532, 532]
    assert last[0]["bytes"] == last[1]["bytes"] > 0


def test_a_replay_is_a_step_of_its_own(spark: SparkSession) -> None:
    """It moves with the transactions, and the znodes that they create are expected."""
    found = []
    for kind in ("here", "spark"):
        out = io.StringIO()
        reporter = Reporter(as_json=True, out=out)
        runner = Here(reporter) if kind == "here" else BySpark(reporter, "", spark)
        there = directory_of(options_of({"path": str(SAMPLES / "zk39-fuzzy")}))
        reader = there.znodes.reader
        assert isinstance(reader, ZnodeReader)
        before = len(pickle.dumps(reader))
        reader.prepare(runner)
        reader.prepare(runner)  # only once
        assert len(pickle.dumps(reader)) == before  # workers do not get all changed nodes
        (done,) = (json.loads(line) for line in out.getvalue().splitlines() if '"done": true' in line)
        assert (done["step"], done["unit"]) == ("replay", "transactions")
        assert done["count"] == done["expected"] == there.survey.transactions
        paths = sorted(chain.from_iterable(runner.each("look", there.znodes, paths_of)))
        assert there.znodes.rows is not None
        assert abs(there.znodes.rows - len(paths)) < len(paths) // 10
        found.append(paths)
    assert found[0] == found[1]


def test_a_table_that_only_spark_can_reach(spark: SparkSession, tmp_path: Path) -> None:
    """Any URL will do; file: is the one that every machine has."""
    write_parquet(tmp_path / "t", node("/", 0), node("/a"), node("/b"))
    table = Table(RemoteParquet(f"file://{tmp_path}/t"))
    runner = BySpark(Reporter(out=io.StringIO()), "", spark)
    assert sorted(chain.from_iterable(runner.each("look", table, paths_of))) == ["/", "/a", "/b"]


def test_the_reason_of_a_failure_is_that_of_the_task(spark: SparkSession) -> None:
    def fail(batches: Iterator[pa.RecordBatch]) -> None:
        raise ValueError("this row cannot be")

    with pytest.raises(Exception, match="this row cannot be") as raised:
        BySpark(Reporter(out=io.StringIO()), "", spark).each("look", table_of(node("/", 0)), fail)
    assert isinstance(raised.value, PySparkException)
    assert reason_of(raised.value) == "this row cannot be"


def test_datagrams_of_others_count_nothing() -> None:
    count = Count()
    for raw in (b"", b"\xff", b"1", b'["other", "0", 5, 5]', b'["token", "0", "x", 5]', b'["token", 5]'):
        take(raw, "token", count)
    assert count.total() == (0, 0)
    take(b'["token", "0", 5, 50]', "token", count)
    take(b'["token", "0", 7, 70]', "token", count)  # the same part, further
    take(b'["token", "1", 1, 10]', "token", count)
    assert count.total() == (8, 80)


def snapshot_of(connection: Connection) -> SnapshotRef:
    async def ask() -> SnapshotRef:
        async with connection.client() as etcd:
            _, record = await record_of(etcd, connection.keys)
            assert record.current is not None
            return record.current

    return asyncio.run(ask())


def test_what_is_moved_and_told_is_the_same(
    spark: SparkSession,
    etcd_server: EtcdServer,
    etcd_prefix: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for job in (import_, export):
        monkeypatch.setattr(job, "time", FakeClock(1.8e9))  # zxids continue by the clock
    ways = {"here": "--no-spark", "spark": "--spark"}
    told: dict[str, list[str]] = {}
    digests, files = set(), set()
    for way, option in ways.items():
        etcd = ["--etcd", etcd_server.endpoint, "--prefix", f"{etcd_prefix}/{way}", option]
        tree = f"{etcd_server.endpoint.replace('http', 'etcd')}{etcd_prefix}/{way}"
        assert main(["import", SAMPLE, "--keep-sessions", *etcd]) == 0
        seen = snapshot_of(Connection(etcd_server.endpoint, f"{etcd_prefix}/{way}"))
        digests.add((seen.digest, seen.nodes, seen.sessions, seen.zxid))
        assert main(["export", str(tmp_path / way), "--keep-sessions", "--trailer", "full", *etcd]) == 0
        assert main(["verify", SAMPLE, tree, option]) == 0
        assert main(["verify", SAMPLE, str(tmp_path / way), "--ignore", "/clickhouse", option]) == 0
        assert main(["verify", SAMPLE, str(SAMPLES / "zk39-gz"), "--json", option]) == 1
        assert main(["inspect", SAMPLE, "--json", option]) == 0
        out = capsys.readouterr().out
        lines = (line.replace(f"/{way}", "") for line in out.splitlines())
        # What is etcd's own is left out.
        told[way] = [line for line in lines if " at position " not in line and "are free" not in line]
        (file,) = (tmp_path / way / "version-2").iterdir()
        files.add((file.name, file.stat().st_size))
    assert told["here"] == told["spark"]
    assert len(digests) == len(files) == 1
    # Records of one depth may come in any order, so two files are compared as trees.
    assert main(["verify", str(tmp_path / "here"), str(tmp_path / "spark")]) == 0


def test_sql_leaves_no_folder_in_the_working_directory(spark: SparkSession) -> None:
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW one AS SELECT 1 AS value")
    assert spark.sql("SELECT value FROM one").count() == 1
    warehouse = Path(urlsplit(spark.conf.get("spark.sql.warehouse.dir") or "").path)
    assert not warehouse.is_relative_to(Path.cwd())
