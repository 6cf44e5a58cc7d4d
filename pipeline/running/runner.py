"""The common interface of both ways of running a job, and the choice between them."""

import argparse
import os
from collections.abc import Sequence
from typing import Protocol, TypeVar

from pipeline.errors import MissingPackage
from pipeline.options import MOST_BYTES, MOST_ROWS
from pipeline.running.here import Here
from pipeline.running.progress import Reporter
from pipeline.running.table import Assign, Table, Work
from pipeline.sources.parquet import RemoteParquet
from pipeline.sources.reading import Once, Preparing
from proxy.support.libraries import how_to_add

T = TypeVar("T")

_SPARK = ("pyspark", "py4j", "pandas")
# spark-submit has started the JVM, or the user has named a master: both mean Spark.
_CHOSEN_BY_ENVIRONMENT = ("PYSPARK_GATEWAY_PORT", "MASTER")


class Runner(Once, Protocol):
    """A way of running jobs."""

    reporter: Reporter

    def each(self, what: str, table: Table, work: Work[T]) -> list[T]:
        """The result of `work` for each partition, in any order. `what` names the step for the user."""
        ...

    def shuffled(
        self, what: str, inputs: Sequence[tuple[Table, Assign]], gather: Work[T], unit: str = "znodes"
    ) -> list[T]:
        """Put the rows of all inputs into buckets; the result of `gather` for each bucket, in any order.

        All batches in buckets have one schema.
        """
        ...


def runner_for(arguments: argparse.Namespace, name: str, tables: Sequence[Table]) -> Runner:
    """The runner that the options or the sizes of `tables` ask for, which has prepared their readers.

    Raises MissingPackage, and what the readers raise.
    """
    runner = _chosen(arguments, name, tables)
    for table in tables:
        if isinstance(table.reader, Preparing):
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
