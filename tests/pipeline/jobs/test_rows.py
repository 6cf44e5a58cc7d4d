"""A pass over all rows: the same result from a frame and from a reader."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pipeline.jobs.failure import reason_of
from pipeline.jobs.rows import Rows
from pipeline.sources.spark import struct_of
from pipeline.sources.zookeeper import ZooKeeperSource
from pipeline.table import ZNODES
from tests.pipeline.trees import SAMPLES


def both(spark: SparkSession) -> list[Rows]:
    options = {"path": str(SAMPLES / "zk39-plain"), "splitBytes": "20000"}
    frame = spark.read.format("zookeeper").options(**options).load()
    return [Rows(spark, frame), Rows(spark, frame, ZooKeeperSource(options).reader(struct_of(ZNODES)))]


def test_each_row_once(spark: SparkSession) -> None:
    def paths(batches: Iterator[pa.RecordBatch]) -> list[str]:
        return [path for batch in batches for path in batch.column("path").to_pylist()]

    by_frame, by_reader = (rows.each(paths) for rows in both(spark))
    assert len(by_frame) == len(by_reader) > 3
    assert [sorted(part) for part in by_frame] == [sorted(part) for part in by_reader]


def test_the_reason_of_a_failure_is_that_of_the_task(spark: SparkSession) -> None:
    def fail(batches: Iterator[pa.RecordBatch]) -> None:
        next(batches)
        raise ValueError("this row cannot be")

    for rows in both(spark):
        with pytest.raises(PySparkException) as raised:
            rows.each(fail)
        assert reason_of(raised.value) == "this row cannot be"
