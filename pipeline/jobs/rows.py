"""A tree's rows, wherever they come from, for passes of the workers over all of them.

Where one of our own readers makes them, the workers read and work in one process: rows that go to the JVM and
back on the way cost more than all the work on them.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition

T = TypeVar("T")

_RESULT = pa.schema([("result", pa.binary())])

Work = Callable[[Iterator[pa.RecordBatch]], T]


class Rows:
    """The rows of a tree."""

    def __init__(self, spark: SparkSession, frame: DataFrame, reader: DataSourceReader | None = None) -> None:
        """`reader` gives the rows of `frame` as well, in Arrow batches."""
        self.frame = frame
        self._spark = spark
        self._reader = reader
        self._partitions: list[InputPartition] | None = None

    def each(self, work: Work[T]) -> list[T]:
        """What `work` makes of each partition's rows. Raises Spark's errors."""
        if self._reader is None:
            return _by_frame(self.frame, work)
        if self._partitions is None:
            self._partitions = list(self._reader.partitions())
        if not self._partitions:
            return []
        read: Callable[[InputPartition], Iterator[Any]] = self._reader.read

        def run(partitions: Iterable[InputPartition]) -> Iterator[T]:
            yield work(chain.from_iterable(map(read, partitions)))

        parallel = self._spark.sparkContext.parallelize(self._partitions, len(self._partitions))
        found: list[T] = parallel.mapPartitions(run).collect()
        return found


def _by_frame(frame: DataFrame, work: Work[T]) -> list[T]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        result = pickle.dumps(work(batches))
        yield pa.RecordBatch.from_arrays([pa.array([result])], schema=_RESULT)

    return [pickle.loads(row["result"]) for row in frame.mapInArrow(run, "result binary").collect()]
