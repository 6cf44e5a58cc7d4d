"""Jobs in this process: for tables that are processed before Spark has started.

Partitions are read one after another. So memory has the data of one partition, and rows in buckets up to a
limit (buckets.py).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa

from pipeline.buckets import Buckets
from pipeline.running.progress import Reporter
from pipeline.running.table import Assign, Table, Work
from pipeline.sources.reading import Meter

T = TypeVar("T")


class Here:
    """Runs jobs in this process."""

    def __init__(self, reporter: Reporter, folder: str | None = None) -> None:
        """`folder` is for temporary files."""
        self.reporter = reporter
        self._folder = folder

    def once(self, what: str, unit: str, expected: int | None, work: Callable[[Meter], T]) -> T:
        """As Once.once."""
        with self.reporter.step(what, expected, unit) as count:
            return work(count)

    def each(self, what: str, table: Table, work: Work[T]) -> list[T]:
        """As Runner.each."""
        with self.reporter.step(what, table.rows) as count:
            return [work(_metered(part, count)) for part in _parts(table)]

    def shuffled(
        self, what: str, inputs: Sequence[tuple[Table, Assign]], gather: Work[T], unit: str = "znodes"
    ) -> list[T]:
        """As Runner.shuffled."""
        expected = [table.rows for table, _ in inputs if table.rows is not None]
        rows = sum(expected) if len(expected) == len(inputs) else None
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
