"""The table of traffic as Arrow batches. The rows alone (table.py) need no pyarrow, which not all have."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from pipeline.batches import of_rows
from pipeline.table import schema_of
from pipeline.traffic.table import Operation, TrafficRow, check

#: Spark keeps these columns' order.
TRAFFIC = schema_of(TrafficRow)


def batches(rows: Iterable[TrafficRow]) -> Iterator[pa.RecordBatch]:
    """Rows as batches of TRAFFIC."""
    return of_rows(rows, TRAFFIC)


def rows_of(batch: pa.RecordBatch) -> Iterator[TrafficRow]:
    """The rows of a batch with the columns of TRAFFIC, in any order. Raises ValueError if one is missing."""
    check(batch.schema.names)
    columns: dict[str, list[Any]] = {name: batch.column(name).to_pylist() for name in TrafficRow._fields}
    columns["parts"] = [
        None if parts is None else tuple(Operation(**part) for part in parts) for parts in columns["parts"]
    ]
    for name in ("paths", "identities"):
        columns[name] = [None if texts is None else tuple(texts) for texts in columns[name]]
    return map(TrafficRow._make, zip(*columns.values(), strict=True))
