"""An archive's log as a table and a stream: the same rows as those of the log in etcd."""

import asyncio
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from archive.files.moment import shown
from codec.client import delete
from lab.client.blocking import EPHEMERAL, SEQUENTIAL, Client
from lab.servers import EtcdServer, ZketcdServer
from pipeline.errors import Failure
from pipeline.etcd import log as etcd_log
from pipeline.etcd.options import Connection
from pipeline.etcd.replayed import replayed
from pipeline.sources.archive_log import ArchiveOptions, ArchiveReader
from pipeline.sources.zketcd_archive import ArchiveStream
from pipeline.traffic.arrow import rows_of
from pipeline.traffic.table import TrafficRow
from tests.archive.archives import ROOT, Archive
from tests.pipeline.sources.streams import run_to_end
from zketcd.__main__ import main

#: Columns that only a replay knows.
_OUTCOMES = ("zxid", "result", "paths", "nodes", "grown")


@pytest.fixture
def archive(
    etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Archive:
    return Archive(etcd_server, etcd_prefix, tmp_path, capsys)


def rows(archive: Archive, **given: str) -> list[TrafficRow]:
    """All rows, in the order of the partitions."""
    options = ArchiveOptions.of({"path": archive.url, **given}, results=True)
    reader = ArchiveReader(options)
    return [row for part in reader.partitions() for batch in reader.read(part) for row in rows_of(batch)]


def logged(etcd: EtcdServer, prefix: str) -> list[TrafficRow]:
    """The rows of the log in etcd, which nothing has truncated yet."""

    async def read() -> list[TrafficRow]:
        connection = Connection(etcd.endpoint, prefix)
        async with connection.client() as client:
            start, end = await etcd_log.whole(client, connection.keys)
            return await replayed(client, connection.keys, start, end)

    return asyncio.run(read())


def write(port: int, name: str) -> int:
    """Requests of several kinds; returns the last zxid."""
    with Client(port) as client:
        client.refusal(delete(f"{ROOT}/none"))
        for _ in range(5):
            client.create(f"{ROOT}/n", b"x", SEQUENTIAL)
        client.create(f"{ROOT}/{name}", b"", EPHEMERAL)
        client.write(ROOT, b"after")
        return client.zxid


def test_rows_are_those_of_the_log_in_tasks_by_snapshot(
    zketcd_server: ZketcdServer,
    etcd_server: EtcdServer,
    etcd_prefix: str,
    archive: Archive,
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Client(zketcd_server.port) as client:
        client.create(ROOT, b"before")
    archive.start()
    try:
        archive.until(write(zketcd_server.port, "one"))
        archive.snapshot()  # the archiver takes it over: replays may begin there
        archive.until(write(zketcd_server.port, "two"))
    finally:
        archive.kill()
    # Only ends of sessions and the like may follow what is archived.
    expected = logged(etcd_server, etcd_prefix)
    found = rows(archive)
    assert found == expected[: len(found)]
    assert [row.operation for row in found].count("setData") == 2
    assert {row.result for row in found} >= {"OK", "NONODE"}

    sent = rows(archive, results="false", segmentsPerTask="1")
    place = ("position", "proxy", "number", "request", "time", "session_id", "operation", "identities")
    assert [[getattr(row, name) for name in place] for row in sent] == [
        [getattr(row, name) for name in place] for row in found
    ]
    assert all(getattr(row, name) is None for row in sent for name in _OUTCOMES)

    middle = found[len(found) // 2].time
    assert rows(archive, since=shown(middle)) == [row for row in found if row.time >= middle]
    assert rows(archive, until=shown(middle)) == [row for row in found if row.time <= middle]
    assert rows(archive, since="1970-01-01", until="1971-01-01") == []

    frame = spark.read.format("zketcd-archive").load(archive.url)
    assert [row.zxid for row in frame.where("zxid > 0").orderBy("zxid").collect()] == sorted(
        row.zxid for row in found if row.zxid is not None
    )
    _stream(spark, archive.url, tmp_path, len(found))

    capsys.readouterr()
    assert main(["inspect", "--traffic", f"archive:{archive.url}", "--since", "1970-01-01"]) == 0
    told = capsys.readouterr().out
    assert f"{'requests':<24} {len(found)}" in told
    assert "UTC" in told


def _stream(spark: SparkSession, url: str, folder: Path, expected: int) -> None:
    def run() -> None:
        frame = spark.readStream.format("zketcd-archive").option("maxEntriesPerTrigger", "7").load(url)
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "at"))
        run_to_end(lambda: writer.trigger(availableNow=True).start(str(folder / "rows")))

    run()
    run()  # nothing new: no row comes twice
    table = spark.read.parquet(str(folder / "rows"))
    assert table.count() == expected
    assert table.select("position", "proxy", "number", "request").distinct().count() == expected


def test_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for given, why in (
        ({}, "needs an archive"),
        ({"path": "x", "since": "0x5"}, "since is a time"),
        ({"path": "x", "segmentsPerTask": "0"}, "must be above 0"),
        ({"path": "x", "startingOffsets": "now"}, "startingOffsets is"),
    ):
        with pytest.raises(ValueError, match=why):
            ArchiveOptions.of(given, results=True)
    with pytest.raises(ValueError, match="for tables"):
        ArchiveStream({"path": "x", "until": "1m"}).initialOffset()
    with pytest.raises(Failure, match="there is no directory"):
        ArchiveReader(ArchiveOptions.of({"path": str(tmp_path / "none")}, results=True)).partitions()
    for words, why in (
        (["inspect", "--traffic", f"archive:{tmp_path}/none"], "there is no directory"),
        (
            ["inspect", "--traffic", f"archive:{tmp_path}", "--at", "5m"],
            "--since and --until instead of --at",
        ),
        (["inspect", "--traffic", str(tmp_path), "--since", "5m"], "--since is for archive:URL"),
        (["inspect", str(tmp_path), "--until", "5m"], "go with --traffic"),
    ):
        assert main(words) == 2
        assert why in capsys.readouterr().err
