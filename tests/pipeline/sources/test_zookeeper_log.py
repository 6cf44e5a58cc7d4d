"""The log as a stream."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from codec.constants import OpCode
from pipeline.formats.errors import BadFile
from pipeline.sources.options import options_of
from pipeline.sources.zookeeper_log import LogRun, log_rows
from pipeline.sources.zookeeper_stream import LogStream
from pipeline.table import TransactionRow
from tests.pipeline.sources.streams import run_to_end
from tests.pipeline.trees import transaction, write_log


def txns(first: int, last: int) -> list[list[TransactionRow]]:
    return [[transaction(zxid, OpCode.DELETE, f"/n{zxid}")] for zxid in range(first, last + 1)]


def stream(path: Path) -> LogStream:
    return LogStream(options_of({"path": str(path), "table": "transactions", "splitBytes": "100"}))


def zxids(source: LogStream, start: dict[str, object], end: dict[str, object]) -> list[int]:
    found = []
    for run in source.partitions(start, end):
        assert isinstance(run.value, LogRun)
        found += [row.zxid for row in log_rows(run.value)]
    return found


def test_a_stream_follows_logs_as_they_grow_and_begin(tmp_path: Path) -> None:
    source = stream(tmp_path)
    start = source.initialOffset()
    assert source.latestOffset(start, None) == start
    write_log(tmp_path, *txns(1, 3))
    first = source.latestOffset(start, None)
    assert zxids(source, start, first) == [1, 2, 3]
    assert zxids(source, first, source.latestOffset(first, None)) == []
    write_log(tmp_path, *txns(1, 5))
    write_log(tmp_path, *txns(6, 9))
    second = source.latestOffset(first, None)
    assert zxids(source, first, second) == [4, 5, 6, 7, 8, 9]
    assert zxids(source, start, second) == list(range(1, 10))
    (tmp_path / "log.a").write_bytes(b"ZK")
    assert source.latestOffset(second, None) == second


def test_a_batch_has_bounded_bytes(tmp_path: Path) -> None:
    """However far the logs reach, and with availableNow no further than they did at its start."""
    write_log(tmp_path, *txns(1, 6))
    write_log(tmp_path, *txns(7, 9))
    source = LogStream(
        options_of({"path": str(tmp_path), "table": "transactions", "maxBytesPerTrigger": "100"})
    )
    limit = source.getDefaultReadLimit()
    source.prepareForTriggerAvailableNow()
    write_log(tmp_path, *txns(10, 12))
    at, batches = source.initialOffset(), []
    while (following := source.latestOffset(at, limit)) != at:
        batches.append(zxids(source, at, following))
        at = following
    assert [zxid for batch in batches for zxid in batch] == list(range(1, 10))
    assert max(map(len, batches)) <= 3 < len(batches)


def test_an_entry_that_is_being_written_waits(tmp_path: Path) -> None:
    source = stream(tmp_path)
    whole = write_log(tmp_path, *txns(1, 3)).read_bytes()
    for cut in (101, 130):
        (tmp_path / "log.1").write_bytes(whole[:-cut] + bytes(cut))
        offset = source.latestOffset(source.initialOffset(), None)
        assert zxids(source, source.initialOffset(), offset) == [1, 2]


def test_a_purged_log_ends_the_stream(tmp_path: Path) -> None:
    source = stream(tmp_path)
    write_log(tmp_path, *txns(1, 3)).unlink()
    write_log(tmp_path, *txns(4, 5))
    with pytest.raises(BadFile, match=r"log\.1, where the stream stood, is gone"):
        source.latestOffset({"log": "log.1", "byte": 50}, None)


def test_damage_in_an_older_log_ends_the_stream(tmp_path: Path) -> None:
    source = stream(tmp_path)
    old = write_log(tmp_path, *txns(1, 3))
    old.write_bytes(old.read_bytes()[:-110])
    write_log(tmp_path, *txns(4, 5))
    end = source.latestOffset(source.initialOffset(), None)
    with pytest.raises(BadFile, match=r"log\.1, byte \d+"):
        source.partitions(source.initialOffset(), end)


@pytest.mark.real
def test_spark_reads_the_stream(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "zk", *txns(1, 5))
    write_log(tmp_path / "zk", *txns(6, 7))
    frame = spark.readStream.format("zookeeper").option("table", "transactions").load(str(tmp_path / "zk"))

    def run() -> list[int]:
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "at"))
        run_to_end(lambda: writer.trigger(availableNow=True).start(str(tmp_path / "out")))
        return sorted(row.zxid for row in spark.read.parquet(str(tmp_path / "out")).select("zxid").collect())

    assert run() == [1, 2, 3, 4, 5, 6, 7]
    write_log(tmp_path / "zk", *txns(6, 9))
    assert run() == [1, 2, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.real
def test_znodes_are_no_stream(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.readStream.format("zookeeper").load(str(tmp_path))
    with pytest.raises(PySparkException, match="only table=transactions and table=traffic"):
        run_to_end(frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "at")).start)
