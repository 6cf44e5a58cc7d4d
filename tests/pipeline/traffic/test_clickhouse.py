"""Paths of ClickHouse's tables by their shapes."""

import pytest

from pipeline.traffic.clickhouse import Shape, shape_of
from tests.table import one_by_one

TABLE = "/clickhouse/tables/0b6-uuid/01"


@one_by_one(
    ("below", "kind"),
    [
        ("log/log-0000000001", "log"),
        ("log/log-", "log"),
        ("blocks/all_1234_5678", "block"),
        ("async_blocks/all_1234_5678", "block"),
        ("deduplication_hashes/all_1234", "block"),
        ("block_numbers/202611/block-0000000003", "block number"),
        ("block_numbers", "block number"),
        ("mutations/0000000000", "other"),
        ("temp/abandonable_lock-0000000000", "other"),
        ("quorum/status", "other"),
    ],
)
def test_what_belongs_to_the_table(below: str, kind: str) -> None:
    assert shape_of(f"{TABLE}/{below}") == Shape(TABLE, kind)


@pytest.mark.parametrize(
    ("below", "kind"),
    [("r1", "replica"), ("r1/is_active", "replica"), ("r1/queue", "replica"), ("r1/queue/queue-01", "queue")],
)
def test_what_belongs_to_a_replica(below: str, kind: str) -> None:
    assert shape_of(f"{TABLE}/replicas/{below}") == Shape(TABLE, kind, "r1")


@one_by_one(
    ("name", "change"),
    [
        ("all_0_0_0", "insert"),
        ("202611_10_17_2", "merge"),
        ("5be1_10_17_0_22", "mutation"),
        ("all_1_5_2_9", "mutation"),
        ("broken", None),
    ],
)
def test_what_made_a_part(name: str, change: str | None) -> None:
    shape = Shape(TABLE, "part", "r1", name, change)
    assert shape_of(f"{TABLE}/replicas/r1/parts/{name}") == shape
    assert shape_of(f"{TABLE}/replicas/r1/parts/{name}/checksums") == shape


@one_by_one("path", ["/", "/log/log-1", "/app/log", "/app/blocks", "/app/replicas", "/a/logs/x"])
def test_what_is_no_table(path: str) -> None:
    assert shape_of(path) is None
