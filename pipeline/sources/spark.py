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
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from pipeline.job import Reader, Writer
from pipeline.sources.selection import Selection, subtree_of
from pipeline.table import TIMES
from schema.paths import ROOT


def struct_of(schema: pa.Schema) -> StructType:
    """One of the schemas of table.py as Spark knows it."""
    found: StructType = from_arrow_schema(schema)
    return found


class SparkReader(DataSourceReader):
    """A reader, for Spark."""

    def __init__(self, reader: Reader, table: pa.Schema, wanted: StructType, subtree: str = ROOT) -> None:
        """`table` is the schema of the reader's rows, `wanted` the one that a program names, or a part of it.

        A time may be wanted as a timestamp. Raises ValueError if the table lacks a wanted column, or for a
        `subtree` that is none.
        """
        self.plain = reader
        own = {field.name: field.dataType.simpleString() for field in struct_of(table)}
        for field in wanted:
            kind = field.dataType.simpleString()
            if own.get(field.name) != kind and not (field.name in own.keys() & TIMES and kind == "timestamp"):
                columns = ", ".join(map(" ".join, own.items()))
                raise ValueError(f"the table has no column {field.name} {kind}, but {columns}")
        if subtree != ROOT and "path" not in own:
            raise ValueError("the option subtree is for tables with paths")
        schema = None if wanted == struct_of(table) else to_arrow_schema(wanted, timezone="UTC")
        self.selection = Selection(schema, subtree_of(subtree))

    def partitions(self) -> list[InputPartition]:
        """The reader's partitions, wrapped."""
        return [InputPartition(partition) for partition in self.plain.partitions()]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a partition."""
        # If there is no partition, Spark reads a None.
        return map(self.selection.of, () if partition.value is None else self.batches(partition.value))

    def batches(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The batches with a partition's wanted rows, and maybe others."""
        return self.plain.read(partition)


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
