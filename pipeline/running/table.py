"""What a job reads: a reader, and about how large the table is."""

from typing import NamedTuple

from pipeline.sources.reading import Reader


class Table(NamedTuple):
    """A table of znodes, or of a log's transactions."""

    reader: Reader
    rows: int | None = None  # about; None where nobody knows
    bytes: int | None = None  # about, uncompressed

    @property
    def buckets(self) -> int:
        """How many buckets keep each of them small."""
        return 16 if self.rows is None else 1 + self.rows // _IN_A_BUCKET


_IN_A_BUCKET = 100_000  # rows
