"""Traffic goes into Arrow and comes back, and is taken apart into operations."""

import pytest

from pipeline.traffic.arrow import TRAFFIC, batches, rows_of
from pipeline.traffic.flat import day_of, operations_of, request_of
from pipeline.traffic.table import TrafficRow
from tests.pipeline.traffic.rows import NOON, insert, lively, part, traffic


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


def test_a_request_by_itself() -> None:
    row = traffic("create", "/a/b/c/n-0000000003", mode="EPHEMERAL_SEQUENTIAL", bytes=4, session_id=-1)
    (found,) = operations_of(row, 2)
    assert (found.path, found.directory, found.prefix, found.stem) == (
        "/a/b/c/n-0000000003",
        "/a/b/c",
        "/a/b",
        "/a/b/c/n-",
    )
    assert (found.created, found.deleted, found.ephemeral, found.sequential, found.in_multi) == (
        1,
        0,
        1,
        1,
        0,
    )
    assert (found.session, found.bytes, found.day) == ("0xffffffffffffffff", 4, "2026-09-21")
    request = request_of(row)
    assert (request.second, request.parts, request.failed) == (NOON // 1000, 0, 0)
    assert (request.identity, request.address) == ("ip:127.0.0.1", "127.0.0.1")


def test_parts_of_a_multi() -> None:
    found = list(operations_of(insert("/ch/t", 5)))
    assert [(row.clickhouse_table, row.clickhouse_kind, row.clickhouse_change) for row in found] == [
        ("/ch/t", "block", None),
        ("/ch/t", "log", None),
        ("/ch/t", "part", "insert"),
    ]
    assert {(row.request, row.in_multi, row.created) for row in found} == {("p:5:0", 1, 1)}
    parts = (part("create", "/a"), part("check", "/b", result="NONODE"))
    failed = list(operations_of(traffic("multi", parts=parts, result="NONODE")))
    assert [(row.created, row.failed, row.result) for row in failed] == [(0, 1, "OK"), (0, 1, "NONODE")]


def test_what_a_request_implies() -> None:
    first, *gone = operations_of(traffic("closeSession", paths=("/e", "/f"), nodes=-2))
    assert (first.path, first.implied, first.deleted) == (None, 0, 0)
    assert [(row.path, row.implied, row.deleted, row.ephemeral) for row in gone] == [
        ("/e", 1, 1, 1),
        ("/f", 1, 1, 1),
    ]
    below = list(operations_of(traffic("removeRecursive", "/a", paths=("/a/b", "/a"), nodes=-2)))
    assert [(row.path, row.implied, row.deleted) for row in below] == [
        ("/a", 0, 0),
        ("/a/b", 1, 1),
        ("/a", 1, 1),
    ]


def test_without_a_result_it_counts_as_done() -> None:
    (found,) = operations_of(traffic("create", "/a", result=None, nodes=None))
    assert (found.created, found.failed) == (1, 0)
    (idle,) = operations_of(traffic("createIfNotExists", "/a", nodes=0))
    assert idle.created == 0


def test_words() -> None:
    assert day_of(0) == "1970-01-01"
    assert day_of(1 << 62) == ""
    (rootless,) = operations_of(traffic("sync", "no path"))
    assert rootless.directory is None
