"""What a table's reader and writer are, whoever runs them: this process, or Spark's workers.

Both travel to other processes by pickle, as do partitions and what a writer returns.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa


class Reader(Protocol):
    """A table that is read in parts."""

    def partitions(self) -> Sequence[Any]:
        """What there is to read, cut into parts that may be read in any order, each more than once."""
        ...

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        ...


class Writer(Protocol):
    """A table that is written in parts."""

    def write(self, batches: Iterator[pa.RecordBatch]) -> Any:
        """Write the rows of one part. Returns what `commit` has to know. May be repeated."""
        ...

    def commit(self, parts: Sequence[Any]) -> None:
        """Make one table of the parts whose results are given, and of no others."""
        ...

    def abort(self) -> None:
        """Remove what was written."""
        ...
