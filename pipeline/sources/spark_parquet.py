"""A table of znodes in Parquet files at a URL, which Spark reads and writes with Hadoop's clients."""

import pickle
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pipeline.errors import Failure
from pipeline.job import Reader
from pipeline.sources.parquet import RemoteParquet, check_columns
from pipeline.sources.spark import struct_of
from pipeline.table import ZNODES


def frame_of(spark: SparkSession, table: RemoteParquet) -> DataFrame:
    """The table. Raises Failure."""
    try:
        frame = spark.read.parquet(table.url)
    except PySparkException as error:
        raise Failure(f"{table.url} is no table of znodes: {str(error).splitlines()[0]}") from error
    check_columns(table.url, {field.name: field.dataType.simpleString() for field in frame.schema})
    return frame.select(ZNODES.names)


def write(
    spark: SparkSession,
    reader: Reader,
    change: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    target: RemoteParquet,
) -> None:
    """Write the result of `change` for each partition of a table of znodes. Raises Spark's errors."""
    rows = [(pickle.dumps(partition),) for partition in reader.partitions()]
    frame = spark.createDataFrame(spark.sparkContext.parallelize(rows, len(rows)), "partition binary")
    read = reader.read

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for raw in batch.column(0).to_pylist():
                yield from change(read(pickle.loads(raw)))

    frame.mapInArrow(run, struct_of(ZNODES)).write.parquet(target.url)
