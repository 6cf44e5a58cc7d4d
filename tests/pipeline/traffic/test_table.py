"""Rows go into Arrow and come back."""

import pytest

from pipeline.traffic.table import TRAFFIC, TrafficRow, batches, rows_of
from tests.pipeline.traffic.rows import lively


def test_rows_come_back() -> None:
    rows = lively() * 700
    found = list(batches(rows))
    assert [batch.num_rows for batch in found] == [4096, 4096, len(rows) - 8192]
    assert {batch.schema for batch in found} == {TRAFFIC}
    assert [row for batch in found for row in rows_of(batch)] == rows


def test_the_columns_are_the_rows_fields() -> None:
    assert tuple(TRAFFIC.names) == TrafficRow._fields
    (batch,) = batches(lively())
    with pytest.raises(ValueError, match="the columns path, result are missing"):
        rows_of(batch.select([name for name in TRAFFIC.names if name not in ("path", "result")]))
