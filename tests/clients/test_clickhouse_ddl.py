"""ClickHouse's queue of ON CLUSTER queries over two proxies on one etcd: its nodes, during and after a query.

What 18.16 does, also on real ZooKeeper: the hosts of an ALTER compete for a lock. The one that gets it
executes the query for all; what only the table's leader may execute, it sends to the leader. OPTIMIZE and
TRUNCATE have no lock: every host executes them, and all but the leader send them to the leader.
"""

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from lab.servers import wait_until
from lab.servers.clickhouse import CLUSTER, QUEUE_LIMIT, ClickHouseServer, QueryRefused
from tests.clients.clickhouse_tables import (
    create_table,
    insert,
    leader_of,
    log_of_table,
    path_of_table,
    wait_for_rows,
)
from tests.clients.conftest import ClickHouses

_QUEUE = "/clickhouse/task_queue/ddl"
_COUNT = "SELECT count() FROM t"


def test_hosts_execute_the_entries_of_their_clusters_and_skip_all_others(clickhouses: ClickHouses) -> None:
    first, second, zookeeper = clickhouses
    for table, cluster in (("one", first.replica), ("two", second.replica), ("both", CLUSTER)):
        first.query(f"CREATE TABLE {table} ON CLUSTER '{cluster}' (a UInt8) ENGINE = Memory")
    one, two, both = _entries(zookeeper)[-3:]
    assert _nodes(zookeeper, one) == _finished(first)
    assert _nodes(zookeeper, two) == _finished(second)
    assert _nodes(zookeeper, both) == _finished(first, second)
    assert first.query("SHOW TABLES") == "both\none"
    assert second.query("SHOW TABLES") == "both\ntwo"
    for server, skipped in ((second, one), (first, two)):
        assert f"Will not execute task {skipped}: There is no a local address" in server.log_text()


def test_an_error_on_one_host_is_in_the_result(clickhouses: ClickHouses) -> None:
    first, second, zookeeper = clickhouses
    second.query("CREATE TABLE t (a UInt8) ENGINE = Memory")
    error = rf"error on .*:{second.tcp_port}\]: .*Table default\.t already exists"
    with pytest.raises(QueryRefused, match=error):
        first.query(f"CREATE TABLE t ON CLUSTER {CLUSTER} (a UInt8) ENGINE = Memory")
    nodes = _nodes(zookeeper, _entries(zookeeper)[-1])
    assert nodes.pop(f"finished/{_host(second)}").startswith(b"57\n")
    assert nodes == _finished(first)
    assert first.query("EXISTS TABLE t") == "1"


def test_a_host_that_was_away_catches_up(clickhouses: ClickHouses) -> None:
    first, second, zookeeper = clickhouses
    second.stop()
    late = r"\(=1\) seconds\. There are 1 unfinished hosts \(0 of them are currently active\)"
    with pytest.raises(QueryRefused, match=late):
        first.query(
            f"CREATE TABLE t ON CLUSTER {CLUSTER} (a UInt8) ENGINE = Memory", distributed_ddl_task_timeout=1
        )
    _append(first, f"RENAME TABLE t TO renamed ON CLUSTER {CLUSTER}")
    entries = _entries(zookeeper)[-2:]
    for entry in entries:
        _wait_for_nodes(zookeeper, entry, _finished(first))
    second.start()
    for entry in entries:
        _wait_for_nodes(zookeeper, entry, _finished(first, second))
    assert second.query("SHOW TABLES") == "renamed"


def test_a_long_optimize_holds_later_entries_up_and_cleaning_spares_it(clickhouses: ClickHouses) -> None:
    first, second, zookeeper = clickhouses
    leader = _create_table(first, second)
    leader.query("SYSTEM STOP REPLICATION QUEUES")
    _append(first, f"OPTIMIZE TABLE t ON CLUSTER {CLUSTER} PARTITION 202001 FINAL")
    _append(first, f"CREATE TABLE later ON CLUSTER {CLUSTER} (a UInt8) ENGINE = Memory")
    optimize, later = _entries(zookeeper)[-2:]

    # The leader merges for the host that asks first; for the other one there is nothing left to merge.
    def holds(held: ClickHouseServer, free: ClickHouseServer) -> bool:
        return _nodes(zookeeper, optimize) == {**_finished(free), **_active(held)} and _nodes(
            zookeeper, later
        ) == _finished(free)

    wait_until(lambda: holds(first, second) or holds(second, first), "one host waits for the merge")
    held, free = (first, second) if holds(first, second) else (second, first)
    assert held.query("EXISTS TABLE later") == "0"
    assert free.query("EXISTS TABLE later") == "1"

    # The entries behind it fill the queue. Those before it are deleted, while it stays.
    for _ in range(QUEUE_LIMIT - 1):
        _query_nothing(free)
    entries = _entries(zookeeper)
    assert entries[:2] == [optimize, later]
    assert len(entries) == QUEUE_LIMIT + 1

    leader.query("SYSTEM START REPLICATION QUEUES")
    _wait_for_nodes(zookeeper, later, _finished(first, second))
    wait_until(lambda: _entries(zookeeper) == entries[1:], "it is deleted by the host that has executed it")
    merges = [entry for entry in log_of_table(zookeeper, path_of_table(first)) if entry.kind == "merge"]
    assert [merge.source for merge in merges] == [leader.replica]


def test_the_lock_of_a_host_that_dies_is_free_when_its_session_ends(clickhouses: ClickHouses) -> None:
    first, second, zookeeper = clickhouses
    leader = _create_table(first, second)
    other = second if leader is first else first
    shard = _shard(first, second)
    lock = f"{shard}/lock"
    leader.pause()  # so that the other one gets the lock, and waits for the leader
    try:
        _append(other, f"ALTER TABLE t ON CLUSTER {CLUSTER} DROP PARTITION 202001")
        entry = _entries(zookeeper)[-1]
        wait_until(lambda: lock in _nodes(zookeeper, entry), "the lock is taken")
        other.kill()
    finally:
        leader.resume()
    wait_until(lambda: f"active/{_host(leader)}" in _nodes(zookeeper, entry), "the leader wants the lock")
    assert _nodes(zookeeper, entry)[lock] == _host(other).encode()
    _wait_for_nodes(zookeeper, entry, {**_finished(leader), **_executed(shard, leader)})
    other.start()
    _wait_for_nodes(zookeeper, entry, {**_finished(first, second), **_executed(shard, leader)})
    wait_for_rows((first, second), _COUNT, "1")


def _create_table(first: ClickHouseServer, second: ClickHouseServer) -> ClickHouseServer:
    """Create the table `t`, with a part of one row in each of two partitions; returns the leader."""
    create_table(first, "t")
    insert(first, "('2020-01-01', 1, 1, 1), ('2020-02-01', 1, 1, 1)")
    wait_for_rows((first, second), _COUNT, "2")
    return leader_of((first, second))


def _append(server: ClickHouseServer, query: str) -> None:
    """Send an ON CLUSTER query, and do not wait until it is executed."""
    server.query(query, distributed_ddl_task_timeout=0)


def _entries(zookeeper: KazooClient) -> list[str]:
    zookeeper.sync(_QUEUE)
    return sorted(zookeeper.get_children(_QUEUE))


def _nodes(zookeeper: KazooClient, entry: str) -> dict[str, bytes]:
    """All nodes below an entry of the queue: their paths from there, and data."""
    found = {}
    left = [""]
    while left:
        path = left.pop()
        try:
            names = zookeeper.get_children(f"{_QUEUE}/{entry}{path}")
            if path:
                found[path[1:]] = zookeeper.get(f"{_QUEUE}/{entry}{path}")[0]
        except NoNodeError:  # deleted meanwhile
            continue
        left += [f"{path}/{name}" for name in names]
    return found


def _wait_for_nodes(zookeeper: KazooClient, entry: str, nodes: dict[str, bytes]) -> None:
    def found() -> bool:
        return _nodes(zookeeper, entry) == nodes

    wait_until(found, f"{entry} has the nodes {nodes}")


def _host(server: ClickHouseServer) -> str:
    """The name of a server's nodes in the queue."""
    return f"127%2E0%2E0%2E1:{server.tcp_port}"


def _shard(*servers: ClickHouseServer) -> str:
    """The node of their cluster's only shard, below an entry."""
    return "shards/" + ",".join(sorted(f"127.0.0.1:{server.tcp_port}" for server in servers))


def _finished(*servers: ClickHouseServer) -> dict[str, bytes]:
    """The nodes of an entry that these servers have executed without an error."""
    return {"active": b"", "finished": b""} | {f"finished/{_host(server)}": b"0\n" for server in servers}


def _active(*servers: ClickHouseServer) -> dict[str, bytes]:
    """The nodes of the servers that execute an entry."""
    return {f"active/{_host(server)}": b"" for server in servers}


def _executed(shard: str, server: ClickHouseServer) -> dict[str, bytes]:
    """The nodes of a shard for which one server has executed the entry."""
    return {"shards": b"", shard: b"", f"{shard}/executed": _host(server).encode()}


def _query_nothing(server: ClickHouseServer) -> None:
    """Append an entry for this server alone, and wait until it is executed."""
    server.query(f"DROP TABLE IF EXISTS none ON CLUSTER '{server.replica}'")
