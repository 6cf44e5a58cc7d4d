"""The views' answers, the same from SQLite and from Spark."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.sources.spark import struct_of
from pipeline.sources.traffic_views import register_views
from pipeline.traffic.arrow import TRAFFIC
from pipeline.traffic.database import Database
from pipeline.traffic.views import VIEWS
from tests.pipeline.traffic.rows import NOON, lively, traffic

TABLE = "/clickhouse/tables/01/t"


def asked(name: str, query: Any) -> list[dict[str, Any]]:
    (order,) = (view.order for view in VIEWS if view.name == name)
    found: list[dict[str, Any]] = query(f"SELECT * FROM {name} ORDER BY {order}")
    return found


@pytest.fixture
def database() -> Iterator[Database]:
    with closing(Database()) as database:
        database.add(lively())
        yield database


def test_writes(database: Database) -> None:
    found = asked("traffic_writes", database.query)
    assert found[0] == {
        "prefix": "/clickhouse/tables/01",
        "session": "0x1",
        "writes": 6,
        "bytes": 478,
        "failed": 0,
    }
    assert {
        (row["prefix"], row["writes"], row["failed"]) for row in asked("traffic_prefixes", database.query)
    } == {
        ("/clickhouse/tables/01", 10, 0),
        ("/app/alive", 3, 0),
        ("/app/config", 1, 0),
        ("/app/gone", 1, 1),
        ("/locks/x-", 1, 0),
    }


def test_clients(database: Database) -> None:
    database.add([traffic("create", "/far", identities=("digest:me:x", "ip:2001:db8::1"), session_id=9)])
    (far,) = (row for row in asked("traffic_clients", database.query) if row["address"] != "127.0.0.1")
    assert far == {"address": "2001:db8::1", "sessions": 1, "requests": 1, "bytes": 0, "failed": 0}


def test_directories(database: Database) -> None:
    found = {row["directory"]: row for row in asked("traffic_directories", database.query)}
    assert found["/app"] == {
        "directory": "/app",
        "writes": 8,  # the ephemerals' ends too
        "created": 3,
        "deleted": 3,
        "changed": 1,
        "bytes": 18,
        "failed": 1,
        "sessions": 4,
    }


def test_multis_sequences_and_flapping(database: Database) -> None:
    assert [(row["parts"], row["multis"]) for row in asked("traffic_multis", database.query)] == [
        (1, 1),
        (3, 3),
    ]
    sequences = {row["stem"]: row for row in asked("traffic_sequences", database.query)}
    log = sequences[f"{TABLE}/log/log-"]
    assert (log["created"], log["seconds"], log["per_second"], log["ephemeral"]) == (2, 5, 0.4, 0)
    assert sequences["/locks/x-"]["ephemeral"] == 1
    assert asked("traffic_flapping", database.query) == [
        {"path": "/app/alive", "created": 3, "deleted": 3, "sessions": 3, "seconds_between": 0.0}
    ]


def test_growth_and_rates(database: Database) -> None:
    assert [
        (row["day"], row["created"], row["deleted"], row["nodes"])
        for row in asked("traffic_growth", database.query)
    ] == [("2026-09-21", 11, 5, 6), ("2026-09-22", 1, 0, 1)]
    seconds = asked("traffic_seconds", database.query)
    assert (seconds[0]["second"], seconds[0]["requests"], seconds[0]["failed"]) == (NOON // 1000, 12, 1)
    assert sum(row["requests"] for row in seconds) == len(lively())


def test_clickhouse(database: Database) -> None:
    assert asked("traffic_clickhouse", database.query) == [
        {
            "clickhouse_table": TABLE,
            "replicas": 2,
            "inserts": 2,
            "merges": 1,
            "mutations": 0,
            "operations": 10,
            "requests": 4,
            "bytes": 628,
            "requests_per_insert": 2.0,
            "log_entries": 2,
            "queue_entries": 1,
            "blocks": 2,
            "parts_added": 3,
            "parts_removed": 2,
        }
    ]


@pytest.mark.real
def test_spark_has_the_same_answers(spark: SparkSession, database: Database) -> None:
    frame = spark.createDataFrame(lively(), struct_of(TRAFFIC)).coalesce(1).cache()
    names = register_views(frame)
    try:
        # To make a view Spark has to understand it; these have what SQL's dialects differ in.
        for name in ("traffic_flapping", "traffic_clickhouse"):
            found = asked(name, lambda sql: [row.asDict() for row in spark.sql(sql).collect()])
            assert found == asked(name, database.query), name
        with pytest.raises(ValueError, match="the columns path are missing"):
            register_views(frame.drop("path"))
    finally:
        for name in names:
            spark.catalog.dropTempView(name)
        frame.unpersist()
