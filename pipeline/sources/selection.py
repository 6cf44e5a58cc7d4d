"""Which rows and columns of a table a program asks for: the rest never leaves the Python worker.

A program names them itself: the rows by the option `subtree`, the columns by a schema, in which times may be
timestamps. Spark could hand over filters (`pushFilters`), but Spark 4.3.0 then answers wrongly: it keeps the
plan of a DataFrame's first query with a filter, and its later queries get the rows of the first.
"""

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from schema.paths import ROOT

_MILLISECONDS = pa.timestamp("ms", "UTC")


class Selection(NamedTuple):
    """The rows and columns that are wanted."""

    schema: pa.Schema | None = None  # of the wanted columns; None: all
    subtree: str = ROOT  # only this path and those below

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The wanted part of a batch. A path of null is in no subtree but that of the root."""
        if self.subtree != ROOT:
            paths = batch.column("path")
            below = pc.starts_with(paths, self.subtree + "/")
            batch = batch.filter(pc.or_(below, pc.equal(paths, self.subtree)))
        if self.schema is None:
            return batch
        columns = [_cast(batch.column(field.name), field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def may_match(self, first: str, last: str) -> bool:
        """Whether a page may have wanted rows: its paths are sorted by their UTF-8 bytes."""
        if self.subtree == ROOT:
            return True
        top, below = self.subtree.encode(), self.subtree.encode() + b"/"
        low, high = first.encode(), last.encode()
        return low <= top <= high or low <= below <= high or low.startswith(below)


def _cast(column: pa.Array, to: pa.DataType) -> pa.Array:
    return (column.cast(_MILLISECONDS) if pa.types.is_timestamp(to) else column).cast(to)


EVERYTHING = Selection()


def subtree_of(text: str) -> str:
    """The option `subtree`. Raises ValueError if it is no path of a znode."""
    if not text.startswith("/") or (text != ROOT and text.endswith("/")) or "//" in text:
        raise ValueError(f"the option subtree must be the path of a znode, such as /clickhouse, not {text!r}")
    return text
