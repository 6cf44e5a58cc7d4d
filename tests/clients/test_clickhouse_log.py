"""The log of a replicated table, and the nodes of its replicas and parts, over two proxies on one etcd.

18.16 has no CLEAR INDEX. It attaches parts by `get`, the entry of an insert.
"""

from typing import NamedTuple

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from lab.servers import wait_until
from lab.servers.clickhouse import ClickHouseServer
from tests.clients.clickhouse_tables import (
    ON_ALL,
    create_table,
    insert,
    leader_of,
    log_of_table,
    path_of_table,
    wait_for_rows,
)
from tests.clients.conftest import ClickHouses

_ROWS = "SELECT toYYYYMM(day), block, row FROM t ORDER BY day, block, row"


class _Part(NamedTuple):
    """The nodes of one part of a replica."""

    columns: bytes
    checksums: bytes


class _Case(NamedTuple):
    """Statements that change the partition 202001, which has one part with the row (1, 1)."""

    statements: list[str]
    kinds: list[str]  # of the entries that they append
    rows: list[str]  # what is then in the partition


_CASES = {
    "CLEAR COLUMN": _Case(["CLEAR COLUMN row IN PARTITION 202001"], ["clear_column"], ["1\t0"]),
    "DROP PARTITION": _Case(["DROP PARTITION 202001"], ["drop"], []),
    "DETACH PARTITION": _Case(["DETACH PARTITION 202001"], ["detach"], []),
    "ATTACH PARTITION": _Case(
        ["DETACH PARTITION 202001", "ATTACH PARTITION 202001"], ["detach", "get"], ["1\t1"]
    ),
    "ATTACH PART": _Case(
        ["DETACH PARTITION 202001", "ATTACH PART '202001_0_0_0'"], ["detach", "get"], ["1\t1"]
    ),
    "REPLACE PARTITION": _Case(["REPLACE PARTITION 202001 FROM source"], ["REPLACE_RANGE"], ["3\t1"]),
    "ATTACH PARTITION FROM": _Case(
        ["ATTACH PARTITION 202001 FROM source"], ["REPLACE_RANGE"], ["1\t1", "3\t1"]
    ),
}


@pytest.mark.parametrize("name", _CASES)
def test_entries_of_the_log_make_both_replicas_equal(clickhouses: ClickHouses, name: str) -> None:
    first, second, zookeeper = clickhouses
    case = _CASES[name]
    create_table(first, "t")
    # Only one replica has it. The other one fetches the parts.
    first.query(
        "CREATE TABLE source AS t ENGINE = MergeTree PARTITION BY toYYYYMM(day) ORDER BY (writer, block)"
    )
    first.query("INSERT INTO source VALUES", "('2020-01-01', 1, 3, 1)")
    insert(first, "('2020-01-01', 1, 1, 1)")
    insert(second, "('2020-02-01', 1, 1, 1)")
    wait_for_rows((first, second), "SELECT count() FROM t", "2")
    leader_of((first, second))
    for statement in case.statements:
        first.query(f"ALTER TABLE t {statement}", replication_alter_partitions_sync=ON_ALL)
    wait_for_rows(
        (first, second), _ROWS, "\n".join([*(f"202001\t{row}" for row in case.rows), "202002\t1\t1"])
    )
    path = path_of_table(first)
    kinds = [entry.kind for entry in log_of_table(zookeeper, path) if entry.kind != "merge"]
    assert kinds == ["get", "get", *case.kinds]
    _wait_for_equal_parts(clickhouses, path)


@pytest.mark.parametrize("partitions", [1, 10])
def test_requests_that_an_insert_waits_for(clickhouses: ClickHouses, partitions: int) -> None:
    """The first insert makes the node of a partition's block numbers, the second one looks for it."""
    first, _, _ = clickhouses
    create_table(first, "t")
    ids = [f"insert-{partitions}-{number}" for number in range(4)]
    for number, query_id in enumerate(ids):
        rows = ", ".join(f"('2020-{month:02}-01', 1, {number}, 1)" for month in range(1, partitions + 1))
        insert(first, rows, query_id=query_id, log_queries=1)
    first.query("SYSTEM FLUSH LOGS")
    requests = "ProfileEvents.Values[indexOf(ProfileEvents.Names, 'ZooKeeperTransactions')]"
    counted = [
        int(
            first.query(f"SELECT {requests} FROM system.query_log WHERE type = 2 AND query_id = '{query_id}'")
        )
        for query_id in ids
    ]
    assert counted == [each * partitions for each in (5, 4, 3, 3)]


def _parts(zookeeper: KazooClient, path: str, replica: ClickHouseServer) -> dict[str, _Part]:
    parts = f"{path}/replicas/{replica.replica}/parts"
    return {
        part: _Part(*(zookeeper.get(f"{parts}/{part}/{node}")[0] for node in _Part._fields))
        for part in zookeeper.get_children(parts)
    }


def _wait_for_equal_parts(clickhouses: ClickHouses, path: str) -> _Part:
    """Wait until both replicas have the same nodes of parts, and return those of one part."""
    first, second, zookeeper = clickhouses

    def equal() -> list[_Part]:
        try:
            parts = _parts(zookeeper, path, first)
            return list(parts.values()) if parts == _parts(zookeeper, path, second) else []
        except NoNodeError:  # a part was deleted meanwhile
            return []

    return wait_until(equal, "the nodes of both replicas are equal")[0]
