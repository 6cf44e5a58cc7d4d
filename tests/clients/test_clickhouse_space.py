"""Another client fills etcd to the reserve: ClickHouse servers restart, and make room without an operator.

What ClickHouse keeps for each part of a table is large where the table has many columns with long names, so
DROP PARTITION gives much space back. 18.16 has no TTL of tables; its cleanup deletes old log entries.
"""

import random
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from functools import partial

import pytest

from codec import client as zk
from codec.constants import ErrorCode
from lab.client.blocking import OK, SEQUENTIAL, Client
from lab.servers import EtcdServer, wait_until
from lab.servers.clickhouse import CLUSTER, ClickHouseServer, QueryRefused, replicas_at
from lab.servers.operator import etcdctl
from tests.clients.clickhouse_tables import leader_of, wait_for_rows
from tests.clients.conftest import ON_ZOOKEEPER, two_servers

pytestmark = pytest.mark.skipif(ON_ZOOKEEPER, reason="ZooKeeper has no reserve")

_QUOTA = 16 << 20
# Each is a partition with one part: nothing is merged.
_DAYS = [date(2020, 1, 1) + timedelta(number) for number in range(40)]
_COLUMNS = 100  # a part of a replica takes more than a session may add to a tree that is nearly full
_LITTLE_MEMORY = {"max_compress_block_size": 4096, "min_compress_block_size": 4096}
_random = random.Random(1)
_ROWS = "SELECT count() FROM t"


@pytest.fixture
def nearly_full() -> Iterator[EtcdServer]:
    """An etcd that compacts itself; it is not defragmented, and no alarm is disarmed."""
    compaction = ("--auto-compaction-mode=periodic", "--auto-compaction-retention=1s")
    with EtcdServer(f"--quota-backend-bytes={_QUOTA}", *compaction) as etcd:
        yield etcd


def test_tables_are_writable_after_a_restart_and_drop_partition_makes_room(nearly_full: EtcdServer) -> None:
    with two_servers(nearly_full, "/zketcd") as pair, replicas_at(pair[0].port, pair[1].port) as replicas:
        first, second = replicas
        _create_table(first)
        for at in range(0, len(_DAYS), 8):
            _insert(first, 1, _DAYS[at : at + 8])
        wait_for_rows((first, second), _ROWS, str(len(_DAYS)))
        with Client(pair[0].port) as other:
            _fill(other)
            for replica in replicas:
                replica.kill()
            for replica in replicas:
                replica.start()
            for replica in replicas:
                wait_until(partial(_is_writable, replica), "it is writable", 60)
            with pytest.raises(QueryRefused, match="System error"):
                _insert_often(first)
            leader = leader_of(replicas)
            for day in _DAYS[:24]:  # a sixth of the tree
                leader.query(f"ALTER TABLE t DROP PARTITION '{day}'")
            wait_for_rows((first, second), _ROWS, "16")
            # Where an insert is refused halfway, the next try adds the parts that are missing. They take a
            # tenth of what was dropped, so the other replica is not refused again when it fetches them.
            wait_until(lambda: _try_insert(second, 50, _DAYS[:2]), "inserts are taken", 180)
            wait_for_rows((first, second), _ROWS, "18", timeout=180)
        assert etcdctl(nearly_full, "alarm", "list") == ""


def _create_table(replica: ClickHouseServer) -> None:
    # Other values in each part, so that its checksums are no repetition.
    columns = ", ".join(
        f"c{_random.randbytes(30).hex()} UInt64 DEFAULT cityHash64(day, {number})"
        for number in range(_COLUMNS)
    )
    replica.query(
        "",
        f"CREATE TABLE t ON CLUSTER {CLUSTER} (day Date, row UInt32, {columns})"
        " ENGINE = ReplicatedMergeTree('/clickhouse/tables/t', '{replica}') PARTITION BY day ORDER BY row"
        " SETTINGS min_replicated_logs_to_keep = 2, cleanup_delay_period = 1,"
        " use_minimalistic_checksums_in_zookeeper = 0",
    )


def _insert(replica: ClickHouseServer, row: int, days: Sequence[date]) -> None:
    """One part for each day."""
    rows = ", ".join(f"('{day}', {row})" for day in days)
    replica.query("INSERT INTO t (day, row) VALUES", rows, **_LITTLE_MEMORY)


def _insert_often(replica: ClickHouseServer) -> None:
    """Some are taken where etcd has compacted meanwhile."""
    for row in range(2, 50):
        _insert(replica, row, _DAYS)


def _try_insert(replica: ClickHouseServer, row: int, days: Sequence[date]) -> bool:
    try:
        _insert(replica, row, days)
    except QueryRefused:
        return False
    return True


def _large(path: str, mode: int) -> zk.Request[str]:
    """A create of a node that cannot be compressed."""
    return zk.create(path, _random.randbytes(60_000), mode)


def _fill(client: Client) -> None:
    """Create nodes until none was taken for some seconds, though the proxies have written snapshots."""
    client.create("/n")
    refused = 0

    def is_full() -> bool:
        nonlocal refused
        answer = client.refusal(_large("/n/n-", SEQUENTIAL))
        assert answer in (OK, ErrorCode.SYSTEM_ERROR)
        refused = refused + 1 if answer else 0
        return refused == 200

    wait_until(is_full, "the reserve is touched", timeout=120, interval=0.05)


def _is_writable(replica: ClickHouseServer) -> bool:
    return replica.query("SELECT is_readonly, is_session_expired FROM system.replicas") == "0\t0"
