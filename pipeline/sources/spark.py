"""Our readers and writers as data sources of Spark, and our schemas as Spark's types."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pipeline.sources.reading import Reader, Writer


def struct_of(schema: pa.Schema) -> StructType:
    """One of the schemas of table.py as Spark knows it."""
    found: StructType = from_arrow_schema(schema)
    return found


class SparkReader(DataSourceReader):
    """A reader, for Spark."""

    def __init__(self, reader: Reader) -> None:
        self.plain = reader

    def partitions(self) -> list[InputPartition]:
        """The reader's partitions, wrapped."""
        return [InputPartition(partition) for partition in self.plain.partitions()]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a partition."""
        # If there is no partition, Spark reads a None.
        return iter(()) if partition.value is None else self.plain.read(partition.value)


class _Message(WriterCommitMessage):
    """What one task has written."""

    def __init__(self, part: Any) -> None:
        self.part = part


class SparkWriter(DataSourceArrowWriter):
    """A writer, for Spark."""

    def __init__(self, writer: Writer) -> None:
        self._plain = writer

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one partition."""
        return _Message(self._plain.write(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make one table of all."""
        self._plain.commit([message.part for message in messages if isinstance(message, _Message)])

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what was written."""
        self._plain.abort()
