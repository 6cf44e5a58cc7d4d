"""Traffic's views on Spark: after one call, notebooks can use them by name."""

from collections.abc import Iterator

import pyarrow
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from pipeline.batches import batch_of
from pipeline.traffic import arrow, flat, table
from pipeline.traffic.flat import OperationRow, RequestRow
from pipeline.traffic.views import OPERATIONS, REQUESTS, VIEWS


def _schema(fields: tuple[str, ...], texts: frozenset[str]) -> pyarrow.Schema:
    return pyarrow.schema([(name, pyarrow.string() if name in texts else pyarrow.int64()) for name in fields])


def _texts(row: type[RequestRow] | type[OperationRow]) -> frozenset[str]:
    """The columns that are not numbers."""
    return frozenset(name for name, kind in row.__annotations__.items() if kind in (str, str | None))


_REQUESTS = _schema(RequestRow._fields, _texts(RequestRow))
_OPERATIONS = _schema(OperationRow._fields, _texts(OperationRow))


def register_views(frame: DataFrame, depth: int = flat.DEPTH) -> list[str]:
    """Make a table of traffic and its views known to the frame's session; returns their names.

    `depth` is the number of names in a path prefix. Existing views are replaced. Each query reads the frame
    again, so cache or store it first. Raises ValueError for a frame that lacks columns.
    """
    table.check(frame.columns)
    spark = frame.sparkSession

    def requests(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            yield batch_of([flat.request_of(row) for row in arrow.rows_of(batch)], _REQUESTS)

    def operations(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            rows = [each for row in arrow.rows_of(batch) for each in flat.operations_of(row, depth)]
            yield batch_of(rows, _OPERATIONS)

    columns = frame.select(arrow.TRAFFIC.names)
    columns.mapInArrow(requests, from_arrow_schema(_REQUESTS)).createOrReplaceTempView(REQUESTS)
    columns.mapInArrow(operations, from_arrow_schema(_OPERATIONS)).createOrReplaceTempView(OPERATIONS)
    for view in VIEWS:
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {view.name} AS {view.sql}")
    return [REQUESTS, OPERATIONS, *(view.name for view in VIEWS)]
