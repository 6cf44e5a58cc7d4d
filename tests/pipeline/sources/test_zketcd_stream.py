"""zketcd's log on Spark: a table with results, and a stream that gives each row once."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from lab.servers import EtcdServer
from pipeline.etcd import log as etcd_log
from pipeline.etcd.options import Connection
from pipeline.sources.zketcd_stream import TrafficStream
from proxy.etcd.model import EtcdUnknown
from proxy.state.feed import Id, Made, Selection
from proxy.state.recording import NONE, Recorded, What
from tests.pipeline.sources.streams import World, run_to_end
from tests.table import one_by_one

Row = tuple[int, str, int, int]


@pytest.fixture
def world(etcd_server: EtcdServer, etcd_prefix: str) -> World:
    """A tree whose proxies are nothing but names."""
    return World(Connection(etcd_server.endpoint, etcd_prefix))


def test_a_table_with_and_without_results(spark: SparkSession, world: World) -> None:
    world.create("/a", "/a/1", "/a")
    frame = spark.read.format("zketcd").options(**world.options)
    rows = frame.load().orderBy("position", "number", "request").collect()
    assert [(row.operation, row.path, row.result) for row in rows] == [
        ("createSession", None, "OK"),
        ("create", "/a", "OK"),
        ("create", "/a/1", "OK"),
        ("create", "/a", "NODEEXISTS"),
    ]
    assert [row.zxid for row in rows] == [1, 2, 3, 4]
    sent = frame.option("results", "false").option("entriesPerPartition", "1").load()
    assert [row.path for row in sent.orderBy("position", "request").collect()] == [row.path for row in rows]
    assert {(row.result, row.zxid) for row in sent.collect()} == {(None, None)}


@pytest.mark.real
def test_the_stream_of_changes_has_the_lines_of_the_feed(world: World) -> None:
    world.options["table"] = "changes"
    world.create("/a", "/a/1", "/a")
    source = stream(world)
    start = source.initialOffset()
    first = source.latestOffset(start, ReadAllAvailable())
    world.create("/b")
    end = source.latestOffset(first, ReadAllAvailable())
    rows = [
        row
        for batch in (source.partitions(start, first), source.partitions(first, end))
        for partition in batch
        for found in source.read(partition)
        for row in found.to_pylist()
    ]
    assert [(row["id"], row["zxid"], row["path"]) for row in rows] == [
        ("0x2", 2, "/a"),
        ("0x3", 3, "/a/1"),
        ("0x5", 5, "/b"),
    ]
    made = Made(5, rows[2]["time"], "CREATE", (Recorded(What.CREATED, "/b", NONE, 0, None, b""),))
    wanted = Selection("/", data=True, identities=(), events=False)
    (feed,) = [json.loads(each) for _, each in wanted.lines(made, Id(0))]
    assert {name: feed[name] for name in rows[2]} == {**rows[2], "data": rows[2]["data"].decode()}
    with pytest.raises(ValueError, match="table=changes replays the log"):
        stream(world, results="false").initialOffset()


def test_changes_as_a_table(spark: SparkSession, world: World) -> None:
    world.options["table"] = "changes"
    world.create("/a", "/b/none", "/a/1")
    frame = spark.read.format("zketcd").options(**world.options, subtree="/a").load()
    rows = frame.orderBy("zxid").collect()
    assert [(row.change, row.path, row.version_after, bytes(row.data)) for row in rows] == [
        ("created", "/a", 0, b""),
        ("created", "/a/1", 0, b""),
    ]


def test_a_stream_that_is_started_again_gives_each_row_once(
    spark: SparkSession, world: World, tmp_path: Path
) -> None:
    """It fails within a batch, after the batch was written but before it was committed."""
    written: list[list[Row]] = []
    fail = True

    def write(batch: DataFrame, number: int) -> None:
        rows = [(row.position, row.proxy, row.number, row.request) for row in batch.collect()]
        # As `foreachBatch` has to: a batch whose number is there already replaces it.
        written[number:] = [rows]
        if fail and number == 1:
            raise RuntimeError("the sink fails")

    def run() -> None:
        frame = spark.readStream.format("zketcd").options(**world.options).load()
        query = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "at"))
        run_to_end(query.trigger(availableNow=True).start)

    world.create("/a", "/b")
    run()
    world.create("/c")
    with pytest.raises(PySparkException, match="the sink fails"):
        run()
    world.create("/d", "/e")  # not part of the batch that is repeated
    fail = False
    run()
    counted = Counter(row for batch in written for row in batch)
    assert set(counted.values()) == {1}
    assert len(counted) == 6
    assert [len(batch) for batch in written] == [3, 1, 2]


def stream(world: World, **options: str) -> TrafficStream:
    return TrafficStream({**world.options, **options})


def paths(source: TrafficStream, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
    return [
        row["path"]
        for partition in source.partitions(start, end)
        for batch in source.read(partition)
        for row in batch.to_pylist()
        if row["path"]
    ]


@pytest.mark.real
def test_limits_and_where_a_stream_begins(world: World) -> None:
    for number in range(5):
        world.create(f"/{number}")
    source = stream(world, maxEntriesPerTrigger="2", results="true")
    limit = source.getDefaultReadLimit()
    assert limit == ReadMaxRows(2)
    start = source.initialOffset()
    first = source.latestOffset(start, limit)
    second = source.latestOffset(first, limit)
    rest = source.latestOffset(second, ReadAllAvailable())
    assert paths(source, start, first) == ["/0"]
    assert paths(source, first, second) == ["/1", "/2"]
    assert paths(source, second, rest) == ["/3", "/4"]
    assert source.latestOffset(rest, limit) == rest
    assert stream(world, startingOffsets="latest").initialOffset()["entries"] == rest["entries"]
    assert stream(world).getDefaultReadLimit() == ReadAllAvailable()


@pytest.mark.real
def test_a_stream_of_what_is_available_now_ends(world: World) -> None:
    world.create("/a")
    world.create("/b")
    source = stream(world, maxEntriesPerTrigger="2")
    source.prepareForTriggerAvailableNow()
    world.create("/c")
    start = source.initialOffset()
    first = source.latestOffset(start, ReadMaxRows(2))
    last = source.latestOffset(first, ReadMaxRows(2))
    assert paths(source, start, first) + paths(source, first, last) == ["/a", "/b"]
    assert source.latestOffset(last, ReadMaxRows(2)) == last


@pytest.mark.real
def test_what_is_truncated_before_it_is_read(world: World) -> None:
    world.create("/a")
    source = stream(world)
    start = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    for path in ("/b", "/c"):
        world.create(path)
        world.snapshot()
    with pytest.raises(Exception, match="1 entries behind position"):
        source.latestOffset(start, ReadAllAvailable())
    lossy = stream(world, failOnDataLoss="false")
    assert paths(lossy, start, lossy.latestOffset(start, ReadAllAvailable())) == ["/c"]


@pytest.mark.real
@pytest.mark.parametrize("method", ["earliest", "latest", "whole"])
def test_etcd_is_away_for_a_moment(world: World, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query is not ended by it."""
    world.create("/a")
    asked = getattr(etcd_log, method)
    away = [True]

    async def sometimes(*arguments: Any) -> Any:
        if away:
            away.pop()
            raise EtcdUnknown("no member answers")
        return await asked(*arguments)

    monkeypatch.setattr(etcd_log, method, sometimes)
    source = stream(world)
    source.prepareForTriggerAvailableNow()
    start = source.initialOffset()
    assert paths(source, start, source.latestOffset(start, ReadAllAvailable())) == ["/a"]
    assert not away


@one_by_one(
    ("option", "value", "reason"),
    [
        ("startingOffsets", "newest", "earliest or latest, not 'newest'"),
        ("failOnDataLoss", "no", "true or false, not 'no'"),
        ("maxEntriesPerTrigger", "-1", "a whole number, not '-1'"),
        ("entriesPerPartition", "0", "above 0"),
        ("table", "znodes", "only table=traffic and table=changes can be read as a stream"),
    ],
)
def test_options_that_cannot_be(option: str, value: str, reason: str) -> None:
    options = {"etcd": "http://127.0.0.1:1", "table": "traffic", option: value}
    with pytest.raises(ValueError, match=reason):
        TrafficStream(options).initialOffset()


def test_spark_tells_of_a_wrong_option(spark: SparkSession, world: World, tmp_path: Path) -> None:
    frame = spark.readStream.format("zketcd").options(**world.options).option("results", "maybe").load()
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "at"))
    with pytest.raises(PySparkException, match="results is true or false, not 'maybe'"):
        run_to_end(query.trigger(availableNow=True).start)
