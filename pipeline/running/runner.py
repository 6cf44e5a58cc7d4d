"""Jobs in this process, and the choice between that and Spark.

In this process partitions are read one after another. So memory has the data of one partition, and rows in
buckets up to a limit (pipeline.buckets).
"""

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa

from pipeline.buckets import Buckets
from pipeline.errors import MissingPackage
from pipeline.job import Assign, Meter, Runner, Table, Work, expected_rows
from pipeline.options import MOST_BYTES, MOST_ROWS
from pipeline.progress import Reporter
from pipeline.sources.parquet import RemoteParquet
from pipeline.sources.zketcd_tree import ZketcdReader
from pipeline.sources.zookeeper_files import ZnodeReader
from proxy.support.libraries import how_to_add

T = TypeVar("T")

_SPARK = ("pyspark", "py4j", "pandas")
# spark-submit has started the JVM, or the user has named a master: both mean Spark.
_CHOSEN_BY_ENVIRONMENT = ("PYSPARK_GATEWAY_PORT", "MASTER")


class Here:
    """Runs jobs in this process."""

    def __init__(self, reporter: Reporter, folder: str | None = None) -> None:
        """`folder` is for temporary files."""
        self.reporter = reporter
        self._folder = folder

    def once(self, what: str, unit: str, expected: int | None, work: Callable[[Meter], T]) -> T:
        with self.reporter.step(what, expected, unit) as count:
            return work(count)

    def each(self, what: str, table: Table, work: Work[T]) -> list[T]:
        with self.reporter.step(what, table.rows) as count:
            return [work(_metered(part, count)) for part in _parts(table)]

    def shuffled(
        self, what: str, inputs: Sequence[tuple[Table, Assign]], gather: Work[T], unit: str = "znodes"
    ) -> list[T]:
        rows = expected_rows(inputs)
        with self.reporter.step(what, rows, unit) as count, Buckets(folder=self._folder) as buckets:
            for table, assign in inputs:
                for part in _parts(table):
                    buckets.add(assign(_metered(part, count)))
            return [gather(batches) for batches in buckets]


def _parts(table: Table) -> Iterator[Iterator[pa.RecordBatch]]:
    return map(table.reader.read, table.reader.partitions())


def _metered(batches: Iterator[pa.RecordBatch], meter: Meter) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        meter.add(batch.num_rows, batch.nbytes)
        yield batch


def runner_for(arguments: argparse.Namespace, name: str, tables: Sequence[Table]) -> Runner:
    """The runner that the options or the sizes of `tables` ask for, which has prepared their readers.

    Raises MissingPackage, and what the readers raise.
    """
    runner = _chosen(arguments, name, tables)
    for table in tables:
        if isinstance(table.reader, ZnodeReader | ZketcdReader):
            table.reader.prepare(runner)
    return runner


def _chosen(arguments: argparse.Namespace, name: str, tables: Sequence[Table]) -> Runner:
    reporter = Reporter.of(arguments)
    reason = reason_for_spark(arguments.spark, tables)
    if reason is None:
        return Here(reporter, getattr(arguments, "work_dir", None))
    try:
        from pipeline.running.spark import BySpark
    except ModuleNotFoundError as error:
        if error.name not in _SPARK:
            raise
        raise MissingPackage(f"{reason}, and Spark is not installed: {how_to_add('pipeline')}") from error

    return BySpark(reporter, name)


def reason_for_spark(asked: bool | None, tables: Sequence[Table]) -> str | None:
    """Why Spark has to run a job on these tables, in words; None if this process does it."""
    if any(isinstance(table.reader, RemoteParquet) for table in tables):
        return "only Spark reads and writes Parquet at a URL"
    if asked is not None:
        return "--spark was given" if asked else None
    for variable in _CHOSEN_BY_ENVIRONMENT:
        if variable in os.environ:
            return f"{variable} is set in the environment"
    rows = max((table.rows or 0 for table in tables), default=0)
    size = max((table.bytes or 0 for table in tables), default=0)
    if rows > MOST_ROWS:
        return f"about {rows} znodes are more than the {MOST_ROWS} that one process takes (or --no-spark)"
    if size > MOST_BYTES:
        return f"{size} bytes are more than the {MOST_BYTES} that one process takes (or --no-spark)"
    return None
