"""The interfaces of a table's reader and writer, which this process or Spark's workers run.

Both are sent to other processes by pickle, as are partitions and the results of a writer.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

T = TypeVar("T")


class Meter(Protocol):
    """The object to which work reports its progress."""

    def add(self, rows: int, size: int) -> None:
        """So many rows more, of so many bytes."""
        ...


class Once(Protocol):
    """Runs a piece of work once: in this process, or on one of Spark's workers."""

    def once(self, what: str, unit: str, expected: int | None, work: Callable[[Meter], T]) -> T:
        """The result of `work`. `what` names the step for the user; `expected`: how many of `unit`."""
        ...


class Reader(Protocol):
    """A table that is read in parts."""

    def partitions(self) -> Sequence[Any]:
        """The parts of the table, which may be read in any order, each more than once."""
        ...

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        ...


@runtime_checkable
class Preparing(Protocol):
    """A reader that has to replay a log before it knows its parts."""

    def prepare(self, runner: Once) -> None:
        """Replay it, once."""
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
