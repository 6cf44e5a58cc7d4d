"""A table of znodes in Parquet files, read and written without Spark.

pyarrow.parquet is imported where it is used, so that other sources and targets need not wait for it. A
partition is a run of row groups. Spark reads a table at a URL (hdfs://, s3a://; spark_parquet.py).
"""

import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from pipeline.addresses import PARQUET
from pipeline.batches import without_members
from pipeline.errors import Failure
from pipeline.folders import check_writable, clear, named
from pipeline.table import ZNODES

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_ROWS = 4096  # of a batch
_PARTITION = 50_000  # rows
_NAMES = {"int32": "int", "int64": "bigint", "large_string": "string", "large_binary": "binary"}


class RemoteParquet(NamedTuple):
    """A table at a URL."""

    url: str

    def partitions(self) -> Sequence[None]:
        """This process cannot read any: raises Failure."""
        raise Failure(f"{self.url}: only Spark reads and writes Parquet at a URL")

    def read(self, partition: None) -> Iterator[pa.RecordBatch]:
        """As `partitions`. Raises Failure."""
        raise Failure(f"{self.url}: only Spark reads and writes Parquet at a URL")


class RowGroups(NamedTuple):
    """A part of one file."""

    file: str
    groups: list[int]


class ParquetReader:
    """A directory of Parquet files, or one file."""

    def __init__(self, path: str) -> None:
        """Raises Failure if there is no table of znodes at `path`."""
        self._path = path
        self._files = files_of(path, "znodes")
        self.rows = sum(self._look(file).num_rows for file in self._files)
        self.bytes = sum(file.stat().st_size for file in self._files)

    def partitions(self) -> list[RowGroups]:
        """Neighbouring row groups of one file, together large enough for a task."""
        import pyarrow.parquet as pq

        found: list[RowGroups] = []
        for file in self._files:
            metadata = pq.read_metadata(file)
            rows = _PARTITION
            for group in range(metadata.num_row_groups):
                if rows >= _PARTITION:
                    found.append(RowGroups(str(file), []))
                    rows = 0
                found[-1].groups.append(group)
                rows += metadata.row_group(group).num_rows
        return found

    def read(self, partition: RowGroups) -> Iterator[pa.RecordBatch]:
        """The rows of a partition. Raises Failure for a damaged file."""
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(partition.file) as file:
                for batch in file.iter_batches(_ROWS, partition.groups, columns=ZNODES.names):
                    yield batch.select(ZNODES.names).cast(ZNODES)
        except (pa.ArrowException, OSError) as error:
            raise Failure(f"{partition.file}: {error}") from error

    def _look(self, file: Path) -> "pq.FileMetaData":
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(file) as opened:
                check_columns(self._path, {field.name: kind_of(field.type) for field in opened.schema_arrow})
                return opened.metadata
        except (pa.ArrowException, OSError) as error:
            raise Failure(f"{file} is no Parquet file: {error}") from error


class ParquetWriter:
    """A directory of Parquet files, a file for each partition. It gets its name after all is written."""

    def __init__(self, path: str) -> None:
        """Raises Failure if something exists at `path`."""
        self._folder = Path(path)
        self._staging = self._folder.with_name(f".{self._folder.name}-{uuid.uuid4().hex}")
        check_target(path)

    def write(self, batches: Iterator[pa.RecordBatch]) -> str:
        """Write one partition's rows into a file."""
        import pyarrow.parquet as pq

        self._staging.mkdir(parents=True, exist_ok=True)
        file = self._staging / f"part-{uuid.uuid4().hex}.parquet"
        with named(file), pq.ParquetWriter(file, ZNODES) as writer:
            for batch in batches:
                writer.write_batch(without_members(batch.select(ZNODES.names).cast(ZNODES)))
        return file.name

    def commit(self, parts: Sequence[str]) -> None:
        """Give the directory its name. Raises Failure, OSError."""
        for file in self._staging.iterdir():
            if file.name not in parts:  # of a task that ran again
                file.unlink()
        check_target(str(self._folder))
        self._staging.rename(self._folder)
        clear(self._folder.parent, f".{self._folder.name}")

    def abort(self) -> None:
        """Remove what was written."""
        shutil.rmtree(self._staging, ignore_errors=True)


def local_path(name: str) -> str | None:
    """The path that `parquet:DIRECTORY` names; None for a URL. Raises Failure for an empty one."""
    path = name.removeprefix(PARQUET)
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    if not path:
        raise Failure(f"{PARQUET} names no directory")
    return None if "://" in path else path


def check_target(path: str) -> None:
    """Raises Failure if no table can be written at `path`."""
    folder = Path(path).absolute()
    if folder.exists():
        raise Failure(f"{folder} is there already: name a new directory for the table")
    try:
        check_writable(folder)
    except ValueError as error:
        raise Failure(str(error)) from error


def check_columns(path: str, kinds: dict[str, str]) -> None:
    """Raises Failure if columns of these names and types are not a table of znodes."""
    missing = [field.name for field in ZNODES if field.name not in kinds]
    if missing:
        raise Failure(f"{path} is no table of znodes: the columns {', '.join(missing)} are missing")
    wanted = {field.name: kind_of(field.type) for field in ZNODES}
    wrong = [f"{name} is not of {kind}" for name, kind in wanted.items() if kinds[name] != kind]
    if wrong:
        raise Failure(f"{path} is no table of znodes: {', '.join(wrong)}")


def kind_of(kind: pa.DataType) -> str:
    """A type as Spark writes it, without its nullability."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{kind_of(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{kind_of(field.type)}' for field in kind)}>"
    return _NAMES.get(str(kind), str(kind))


def files_of(path: str, what: str) -> list[Path]:
    """The files of a table of `what`: a directory of them, or one file. Raises Failure."""
    folder = Path(path)
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise Failure(f"{path} is not there" if not folder.exists() else f"{path} is not a directory")
    # As for Spark and others, names that begin with _ or . are not part of a table. glob() is not used, since
    # to it a directory that may not be read is empty.
    named = (file for file in folder.iterdir() if file.suffix == ".parquet" and file.name[0] not in "_.")
    found = sorted(file for file in named if file.is_file())
    if not found:
        raise Failure(f"{path} is no table of {what}: it has no Parquet files")
    return found
