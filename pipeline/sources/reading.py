"""The interfaces of a table's reader and writer, which this process or Spark's workers run.

Both are sent to other processes by pickle, as are partitions and the results of a writer.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa


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
