"""Traffic and its views in an SQLite database in memory: queries of small logs without Spark."""

import sqlite3
from collections.abc import Iterable
from itertools import islice
from typing import Any

from pipeline.traffic.flat import DEPTH, OperationRow, RequestRow, operations_of, request_of
from pipeline.traffic.table import TrafficRow
from pipeline.traffic.views import OPERATIONS, REQUESTS, VIEWS

_ROWS = 4096  # inserted at once


class Database:
    """Tables and views."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:")
        self._connection.row_factory = sqlite3.Row
        for name, columns in ((REQUESTS, RequestRow._fields), (OPERATIONS, OperationRow._fields)):
            self._connection.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
        for view in VIEWS:
            self._connection.execute(f"CREATE VIEW {view.name} AS {view.sql}")

    def add(self, rows: Iterable[TrafficRow], depth: int = DEPTH) -> None:
        """Add rows. `depth` is the number of names in a path prefix."""
        waiting = iter(rows)
        while some := list(islice(waiting, _ROWS)):
            self._insert(REQUESTS, [request_of(row) for row in some])
            self._insert(OPERATIONS, [each for row in some for each in operations_of(row, depth)])

    def _insert(self, table: str, rows: list[Any]) -> None:
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            self._connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)

    def query(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a SELECT."""
        return [dict(row) for row in self._connection.execute(sql)]

    def close(self) -> None:
        """Free the memory."""
        self._connection.close()
