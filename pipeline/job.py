"""What a job reads and writes, and what runs it: this process, or Spark's workers.

Readers and writers are sent to other processes by pickle, as are partitions and the results of a writer.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from pipeline.progress import Reporter

T = TypeVar("T")

#: Processes the rows of one partition, or of one bucket.
Work = Callable[[Iterator[pa.RecordBatch]], T]
#: Puts the rows of one partition into buckets by number.
Assign = Callable[[Iterator[pa.RecordBatch]], Iterator[tuple[int, pa.RecordBatch]]]

_IN_A_BUCKET = 100_000  # rows
_BYTES_IN_A_BUCKET = 24 << 20
_UNKNOWN = 128  # buckets of a table whose size is not known


class Meter(Protocol):
    """The object to which work reports its progress."""

    def add(self, rows: int, size: int) -> None:
        """So many rows more, of so many bytes."""
        ...


class Reader(Protocol):
    """A table that is read in parts."""

    def partitions(self) -> Sequence[Any]:
        """The parts of the table, which may be read in any order, each more than once."""
        ...

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        ...


class Writer(Protocol):
    """A table that is written in parts."""

    def write(self, batches: Iterator[pa.RecordBatch]) -> Any:
        """Write the rows of one part. Returns the data that `commit` needs. May be repeated."""
        ...

    def commit(self, parts: Sequence[Any]) -> None:
        """Make one table of the parts with these results, and of no others."""
        ...

    def abort(self) -> None:
        """Remove what was written."""
        ...


class Table(NamedTuple):
    """A table of znodes, or of a log's transactions."""

    reader: Reader
    rows: int | None = None  # about; None if unknown
    bytes: int | None = None  # about, uncompressed

    @property
    def buckets(self) -> int:
        """How many buckets are needed so that each is small, however large the table is."""
        if self.rows is not None:
            return 1 + self.rows // _IN_A_BUCKET
        return _UNKNOWN if self.bytes is None else 1 + self.bytes // _BYTES_IN_A_BUCKET


class Runner(Protocol):
    """A way of running jobs."""

    reporter: Reporter

    def once(self, what: str, unit: str, expected: int | None, work: Callable[[Meter], T]) -> T:
        """The result of `work`. `what` names the step for the user; `expected`: how many of `unit`."""
        ...

    def each(self, what: str, table: Table, work: Work[T]) -> list[T]:
        """The result of `work` for each partition, in any order."""
        ...

    def shuffled(
        self, what: str, inputs: Sequence[tuple[Table, Assign]], gather: Work[T], unit: str = "znodes"
    ) -> list[T]:
        """Put the rows of all inputs into buckets; the result of `gather` for each bucket, in any order.

        All batches in buckets have one schema.
        """
        ...


def expected_rows(inputs: Sequence[tuple[Table, Assign]]) -> int | None:
    """About how many rows they have together; None if unknown."""
    counts = [table.rows for table, _ in inputs]
    return None if None in counts else sum(filter(None, counts))
