"""Two ClickHouse 26.9 with replicated tables and databases, at two proxies: or at real ZooKeeper.

Each is embedded in chdb, and has no server from which the other could fetch parts: a replica reads what was
inserted at it. All else that replication asks of ZooKeeper happens.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from lab.servers import wait_until
from lab.servers.process import ServerProcess
from tests.clients.chdb_main import RUNS
from tests.clients.chdb_server import ClickHouse
from tests.clients.object_store import Store
from tests.clients.relay import Relay

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not RUNS, reason="the library's offsets are known for x86-64 only"),
]

Pair = tuple[ServerProcess, ServerProcess]
_DATABASE = "CREATE DATABASE d ENGINE = Replicated('/d', '{shard}', '{replica}')"
_TABLE = "CREATE TABLE d.t (k UInt64) ENGINE = ReplicatedMergeTree ORDER BY k"
_ACTIVE = "SELECT groupArray((is_readonly, total_replicas, active_replicas)) FROM system.replicas"
_COLUMNS = "SELECT groupArray(name) FROM system.columns WHERE database = 'd' AND table = 't'"


class Replicas:
    """Two of them, each with a database of one log."""

    def __init__(self, pair: Pair, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self.relays = [stack.enter_context(Relay(server.port)) for server in pair]
        self.first, self.second = self.start(1), self.start(2)
        self.client = KazooClient(f"127.0.0.1:{pair[0].port}")
        self.client.start()
        stack.callback(self.client.close)
        stack.callback(self.client.stop)
        for replica in (self.first, self.second):
            replica.query(_DATABASE)

    def start(self, number: int) -> ClickHouse:
        """A replica; its database is not made yet."""
        relay = self.relays[number % 2 - 1]
        return self._stack.enter_context(ClickHouse(self._folder, relay.port, replica=f"r{number}"))

    def table(self) -> str:
        """The node of the table d.t."""
        uuid = self.second.query("SELECT uuid FROM system.tables WHERE database = 'd' AND name = 't'")
        return f"/clickhouse/tables/{json.loads(uuid)}/s"

    def names(self, path: str) -> set[str]:
        """The children of a node."""
        self.client.sync(path)
        return set(self.client.get_children(path))

    def log(self) -> list[bytes]:
        """The entries of d.t's log."""
        node = f"{self.table()}/log"
        return [self.client.get(f"{node}/{name}")[0] for name in sorted(self.names(node))]


@pytest.fixture
def replicas(pair: Pair, tmp_path: Path) -> Iterator[Replicas]:
    with ExitStack() as stack:
        yield Replicas(pair, tmp_path, stack)


def test_a_database_replicates_the_ddl_of_its_replicated_tables(replicas: Replicas) -> None:
    first, second, client = replicas.first, replicas.second, replicas.client
    first.query(_TABLE)
    table = replicas.table()
    assert replicas.names("/d/replicas") == {"s|r1", "s|r2"}
    assert replicas.names(f"{table}/replicas") == {"r1", "r2"}
    # A table and a database are made in one transaction: `zketcd clickhouse` knows them by that.
    for node, names in (
        (table, "blocks columns log metadata replicas"),
        ("/d", "counter log metadata replicas"),
    ):
        parts = (node, *(f"{node}/{name}" for name in names.split()))
        assert len({client.get(part)[1].czxid for part in parts}) == 1
    # The initiator's one multi: the entry is committed, the database has the table.
    number, committed = client.get("/d/max_log_ptr")
    entry = f"/d/log/query-{int(number):010d}"
    made = (f"{entry}/committed", "/d/metadata/t", f"{entry}/finished/s|r1")
    assert {client.get(node)[1].czxid for node in made} == {committed.mzxid}

    second.query("ALTER TABLE d.t ADD COLUMN v String DEFAULT 'x'")
    assert first.query(_COLUMNS) == second.query(_COLUMNS)
    # One replica has run the entry of the database's log; the others got it from the table's log.
    assert [b"\nalter\n" in entry for entry in replicas.log()] == [True]
    for name in ("r1", "r2"):
        assert client.get(f"{table}/replicas/{name}/metadata_version")[0] == b"1"

    first.query("RENAME TABLE d.t TO d.u")
    assert second.query("SHOW TABLES FROM d") == '"u"'
    assert replicas.names("/d/metadata") == {"u"}
    second.query("DROP TABLE d.u SYNC")
    assert first.query("SHOW TABLES FROM d") == ""
    wait_until(lambda: client.exists(table) is None, "the table's nodes are gone", 30)
    assert replicas.names("/d/metadata") == set()
    with pytest.raises(RuntimeError, match="DDL background thread is not initialized"):
        first.query("CREATE TABLE x ON CLUSTER alone (k UInt64) ENGINE = Memory")


def test_a_block_that_both_replicas_insert_is_stored_once(replicas: Replicas) -> None:
    first, second = replicas.first, replicas.second
    first.query(_TABLE)
    first.query("INSERT INTO d.t VALUES (1), (2)")
    second.query("INSERT INTO d.t VALUES (1), (2)")
    second.query("INSERT INTO d.t VALUES (3)")
    first.query("INSERT INTO d.t SETTINGS insert_deduplication_token = 'once' VALUES (4)")
    second.query("INSERT INTO d.t SETTINGS insert_deduplication_token = 'once' VALUES (5)")
    first.query("INSERT INTO d.t SETTINGS async_insert = 1, wait_for_async_insert = 1 VALUES (6)")
    rows = "SELECT arraySort(groupArray(k)) FROM d.t"
    assert [first.query(rows), second.query(rows)] == ['"[1,2,4,6]"', '"[3]"']
    assert [entry.split(b"\nget\n")[1].split()[0] for entry in replicas.log()] == [
        *(b"all_0_0_0", b"all_1_1_0", b"all_2_2_0", b"all_3_3_0")
    ]


def test_a_replica_that_was_away_and_one_that_joins_later_have_all_tables(replicas: Replicas) -> None:
    first, second = replicas.first, replicas.second
    first.query(_TABLE)
    replicas.relays[1].block()
    first.query("SET distributed_ddl_task_timeout = 0")  # or it waits for the other until its session ends
    first.query(_TABLE.replace("d.t", "d.b"))
    replicas.relays[1].unblock()
    third = replicas.start(3)
    third.query(_DATABASE)
    for replica in (second, third):
        replica.query("SYSTEM SYNC DATABASE REPLICA d")
    third.query("ALTER TABLE d.t ADD COLUMN v String")
    for replica in (first, second, third):
        replica.query("SYSTEM SYNC DATABASE REPLICA d")
        assert replica.query("SHOW TABLES FROM d") == '"b"\n"t"'
        assert replica.query(_COLUMNS) == "\"['k','v']\""
    all_replicas = (first, second, third)
    expected = ['"[(0,3,3),(0,3,3)]"'] * 3
    wait_until(lambda: [replica.query(_ACTIVE) for replica in all_replicas] == expected, "all are active")


def test_an_s3_queue_gives_each_file_to_one_of_two_servers(replicas: Replicas) -> None:
    files = {f"in/{number}.csv": f"{number},{2 * number}\n".encode() for number in range(20)}
    with Store(files) as store:
        for replica in (replicas.first, replicas.second):
            replica.query(
                f"CREATE TABLE files (k UInt64, v UInt64) ENGINE = S3Queue('{store.url}/in/*.csv', 'k', 's',"
                " 'CSV') SETTINGS mode = 'unordered', keeper_path = '/files', polling_min_timeout_ms = 100"
            )
            replica.query("CREATE TABLE rows (k UInt64, v UInt64) ENGINE = MergeTree ORDER BY k")
            replica.query("CREATE MATERIALIZED VIEW copied TO rows AS SELECT * FROM files")
        wait_until(lambda: len(replicas.names("/files/processed")) == len(files), "all files were read", 60)
        read = "SELECT groupArray(k) FROM rows"
        both = [json.loads(json.loads(replica.query(read))) for replica in (replicas.first, replicas.second)]
    assert sorted(both[0] + both[1]) == list(range(20))
    assert replicas.names("/files/processing") == set()
