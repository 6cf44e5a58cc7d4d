"""What a job reads, and what it does with the rows."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import pyarrow as pa

from pipeline.sources.reading import Reader

T = TypeVar("T")

#: What becomes of the rows of one partition, or of one bucket.
Work = Callable[[Iterator[pa.RecordBatch]], T]
#: The rows of one partition, dealt into buckets by number.
Deal = Callable[[Iterator[pa.RecordBatch]], Iterator[tuple[int, pa.RecordBatch]]]


class Table(NamedTuple):
    """A table of znodes, or of a log's transactions."""

    reader: Reader
    rows: int | None = None  # about; None where nobody knows
    bytes: int | None = None  # about, uncompressed

    @property
    def buckets(self) -> int:
        """How many buckets keep each of them small, however large the table is."""
        return 16 if self.rows is None else 1 + self.rows // _IN_A_BUCKET


_IN_A_BUCKET = 100_000  # rows
