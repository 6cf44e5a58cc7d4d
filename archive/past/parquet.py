"""Rows as Parquet. Needs pyarrow, which is not always installed: nothing else of the archive imports this."""

import io
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from archive.past.rows import Column, Row

_GROUP = 10_000  # rows that are in memory at a time
_TYPES: dict[str, Any] = {
    "string": pa.string(),
    "binary": pa.binary(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "time": pa.timestamp("ms", "UTC"),
    "strings": pa.list_(pa.string()),
    "bool": pa.bool_(),
}


def parquet(rows: Iterator[Row], columns: tuple[Column, ...]) -> Iterator[bytes]:
    """A file, in parts."""
    schema = pa.schema([pa.field(column.name, _TYPES[column.type]) for column in columns])
    stream = io.BytesIO()
    sink = pa.PythonFile(_Counted(stream), mode="w")
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        while group := list(islice(rows, _GROUP)):
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
            yield _taken(stream)
    yield _taken(stream)


class _Counted(io.RawIOBase):
    """Passes what is written on; the position is that of the whole file."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__()
        self._stream = stream
        self._written = 0

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, part: Any) -> int:
        """Keep the bytes for `_taken`."""
        count = self._stream.write(part)
        self._written += count
        return count

    def tell(self) -> int:
        """How much was written."""
        return self._written


def _taken(stream: io.BytesIO) -> bytes:
    found = stream.getvalue()
    stream.seek(0)
    stream.truncate()
    return found
