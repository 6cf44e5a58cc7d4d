"""The input of a job, and the functions that it applies to the rows."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import pyarrow as pa

from pipeline.sources.reading import Reader

T = TypeVar("T")

#: Processes the rows of one partition, or of one bucket.
Work = Callable[[Iterator[pa.RecordBatch]], T]
#: Puts the rows of one partition into buckets by number.
Assign = Callable[[Iterator[pa.RecordBatch]], Iterator[tuple[int, pa.RecordBatch]]]


class Table(NamedTuple):
    """A table of znodes, or of a log's transactions."""

    reader: Reader
    rows: int | None = None  # about; None if unknown
    bytes: int | None = None  # about, uncompressed

    @property
    def buckets(self) -> int:
        """How many buckets are needed so that each is small, however large the table is."""
        return 16 if self.rows is None else 1 + self.rows // _IN_A_BUCKET


_IN_A_BUCKET = 100_000  # rows
