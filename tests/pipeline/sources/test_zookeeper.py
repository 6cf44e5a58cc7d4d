"""The data source "zookeeper" in a real Spark."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pipeline.table import AclRow, ZnodeRow
from tests.pipeline.trees import SAMPLES, read

pytestmark = pytest.mark.real


def rows(spark: SparkSession, path: Path, **options: str) -> list[ZnodeRow]:
    """The znodes of a directory by way of Spark."""
    frame = spark.read.format("zookeeper").options(**options).load(str(path))
    found = []
    for row in frame.collect():
        data = None if row.data is None else bytes(row.data)
        acl = None if row.acl is None else tuple(AclRow(*entry) for entry in row.acl)
        found.append(ZnodeRow(row.path, data, acl, *row[3:]))
    return sorted(found)


@pytest.mark.parametrize("name", ["zk39-plain", "zk39-fuzzy", "zk39-snappy"])
def test_a_sample_reads_as_without_spark(spark: SparkSession, name: str) -> None:
    _, nodes = read(SAMPLES / name)
    assert rows(spark, SAMPLES / name, splitBytes="30000") == sorted(nodes)


def test_sessions(spark: SparkSession) -> None:
    path = str(SAMPLES / "zk39-plain")
    found = spark.read.format("zookeeper").option("table", "sessions").load(path).collect()
    survey, _ = read(SAMPLES / "zk39-plain")
    assert sorted(map(tuple, found)) == sorted(survey.sessions)
    assert len(found) == 2


def test_transactions(spark: SparkSession) -> None:
    path = str(SAMPLES / "zk39-fuzzy")
    frame = spark.read.format("zookeeper").options(table="transactions", splitBytes="20000").load(path)
    zxids = [row.zxid for row in frame.select("zxid").distinct().collect()]
    assert sorted(zxids) == list(range(1, 2609))
    assert frame.filter("type = 1 and path is null").count() == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"table": "nodes"}, "there is no table nodes"),
        ({"repair": "all"}, "repair is gap, tail, not all"),
        ({"splitBytes": "0"}, "splitBytes must be above 0"),
    ],
)
def test_options_that_cannot_be(spark: SparkSession, options: dict[str, str], reason: str) -> None:
    with pytest.raises(PySparkException, match=reason):
        rows(spark, SAMPLES / "zk39-plain", **options)
