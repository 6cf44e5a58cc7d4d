"""Keeps rows in buckets, and returns them bucket by bucket.

The rows are kept in memory up to a limit, then in files of a temporary directory, so that memory does not
grow with the table.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

import pyarrow as pa

from pipeline.folders import named

_IN_MEMORY = 128 << 20  # bytes


class Buckets:
    """Batches by the number of their bucket, as a context manager."""

    def __init__(self, most: int = _IN_MEMORY, folder: str | None = None) -> None:
        """`most` is how many bytes stay in memory; `folder` is for the rest, by default the system's."""
        self._most = most
        self._parent = folder
        self._folder: TemporaryDirectory[str] | None = None
        self._waiting: dict[int, list[pa.RecordBatch]] = {}
        self._size = 0
        self._files: dict[int, list[Path]] = {}

    def __enter__(self) -> "Buckets":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, assigned: Iterable[tuple[int, pa.RecordBatch]]) -> None:
        """Add batches. Raises OSError."""
        for number, batch in assigned:
            self._waiting.setdefault(number, []).append(batch)
            self._size += batch.nbytes
            if self._size > self._most:
                self._spill()

    def __iter__(self) -> Iterator[Iterator[pa.RecordBatch]]:
        """The batches of each bucket that has any."""
        for number in sorted(self._files.keys() | self._waiting.keys()):
            yield self._batches(number)

    def _batches(self, number: int) -> Iterator[pa.RecordBatch]:
        for file in self._files.get(number, ()):
            with file.open("rb") as raw, pa.ipc.open_stream(raw) as stream:
                yield from stream
        yield from self._waiting.pop(number, ())

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="zketcd-buckets-", dir=self._parent)
        for number, batches in self._waiting.items():
            files = self._files.setdefault(number, [])
            files.append(Path(self._folder.name) / f"{number}-{len(files)}")
            with (
                named(files[-1]),
                files[-1].open("wb") as file,
                pa.ipc.new_stream(file, batches[0].schema) as stream,
            ):
                for batch in batches:
                    stream.write_batch(batch)
        self._waiting, self._size = {}, 0
