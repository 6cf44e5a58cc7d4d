"""A ClickHouse of today (26.9, embedded in chdb): what it keeps in ZooKeeper, with and without extensions."""

from pathlib import Path

import pytest

from codec.constants import KeeperOpCode, OpCode, ProtocolVersion
from lab.client.blocking import Client
from lab.servers import EtcdServer, ZketcdServer
from lab.servers.operator import ctl
from tests.clients.chdb_main import RUNS
from tests.clients.chdb_server import ClickHouse
from tests.clients.conftest import ON_ZOOKEEPER
from tests.clients.relay import Relay

pytestmark = pytest.mark.skipif(ON_ZOOKEEPER, reason="ZooKeeper has nothing of Keeper's")

# What ClickHouse 26.9 asks of a ZooKeeper, and what more of a Keeper.
_PLAIN = {
    *(OpCode.CREATE, OpCode.DELETE, OpCode.EXISTS, OpCode.GET_DATA, OpCode.SET_DATA, OpCode.SYNC),
    *(OpCode.PING, OpCode.GET_CHILDREN2, OpCode.CHECK, OpCode.MULTI, OpCode.CLOSE_SESSION),
}

_ROWS = 300
# query -> its answer
_SCRIPT = (
    ("SELECT generateSerialID('a')", "0"),
    ("SELECT generateSerialID('a')", "1"),
    ("CREATE TABLE t (k UInt64, v String) ENGINE = KeeperMap('/t') PRIMARY KEY k", ""),
    (f"INSERT INTO t SELECT number, toString(number) FROM numbers({_ROWS})", ""),
    ("SELECT count(), sum(k), max(v) FROM t", f'{_ROWS},{_ROWS * (_ROWS - 1) // 2},"99"'),
    ("SELECT v FROM t WHERE k IN (7, 12345)", '"7"'),
    ("ALTER TABLE t UPDATE v = 'new' WHERE k < 5", ""),
    ("ALTER TABLE t DELETE WHERE k >= 200", ""),
    ("SELECT count(), countIf(v = 'new') FROM t", "200,5"),
    ("CREATE TABLE same (k UInt64, v String) ENGINE = KeeperMap('/t') PRIMARY KEY k", ""),
    ("BACKUP TABLE t TO Memory('t') FORMAT Null", ""),
    ("DROP TABLE t SYNC", ""),
    ("SELECT count() FROM same", "200"),
    ("TRUNCATE TABLE same", ""),
    ("SELECT count() FROM same", "0"),
    ("DROP TABLE same SYNC", ""),
    ("RESTORE TABLE t FROM Memory('t') FORMAT Null", ""),
    ("SELECT count(), countIf(v = 'new') FROM t", "200,5"),
    ("DROP TABLE t SYNC", ""),
    ("CREATE FUNCTION twice AS (x) -> x * 2", ""),
    ("CREATE OR REPLACE FUNCTION twice AS (x) -> x + x + 1", ""),
    ("SELECT twice(4)", "9"),
    ("DROP FUNCTION twice", ""),
    ("CREATE NAMED COLLECTION c AS a = 1, b = 'x'", ""),
    ("ALTER NAMED COLLECTION c SET b = 'y'", ""),
    ("SELECT name FROM system.named_collections", '"c"'),
    ("DROP NAMED COLLECTION c", ""),
    ("CREATE WORKLOAD everything", ""),
    ("DROP WORKLOAD everything", ""),
)
_REPLICATED_SCRIPT = (
    (
        "CREATE TABLE r (p UInt8, k UInt64) ENGINE = ReplicatedMergeTree('/r', '{replica}')"
        " PARTITION BY p ORDER BY k",
        "",
    ),
    ("INSERT INTO r SELECT number % 10, number FROM numbers(100) ORDER BY ALL", ""),
    ("INSERT INTO r SELECT number % 10, number FROM numbers(100) ORDER BY ALL", ""),
    ("INSERT INTO r SETTINGS insert_quorum = 1, async_insert = 1 VALUES (0, 100)", ""),
    ("SELECT count(), sum(k) FROM r", "101,5050"),
    ("OPTIMIZE TABLE r PARTITION 0 FINAL", ""),
    ("SELECT count() FROM system.parts WHERE table = 'r' AND active AND partition = '0'", "1"),
    ("ALTER TABLE r ADD COLUMN v String DEFAULT 'x'", ""),
    ("ALTER TABLE r UPDATE v = 'y' WHERE k < 10 SETTINGS mutations_sync = 2", ""),
    ("ALTER TABLE r DELETE WHERE k = 100 SETTINGS mutations_sync = 2", ""),
    ("ALTER TABLE r DROP PARTITION 3", ""),
    ("DELETE FROM r WHERE k = 4", ""),
    ("SELECT count(), countIf(v = 'y') FROM r", "89,8"),
    ("SYSTEM SYNC REPLICA r", ""),
    ("INSERT INTO r VALUES (3, 3, 'z')", ""),
    ("SELECT is_readonly, total_replicas, active_replicas FROM system.replicas", "0,1,1"),
    ("BACKUP TABLE r TO Memory('b') FORMAT Null", ""),
    ("DROP TABLE r SYNC", ""),
    ("RESTORE TABLE r FROM Memory('b') FORMAT Null", ""),
    ("SELECT count(), countIf(v = 'y'), countIf(v = 'z') FROM r", "90,8,1"),
    ("TRUNCATE TABLE r", ""),
    ("SELECT count() FROM r", "0"),
    ("DROP TABLE r SYNC", ""),
)


@pytest.mark.parametrize(
    ("extensions", "options", "versions"),
    [
        ("off", "", {ProtocolVersion.ZOOKEEPER}),
        ("on", "", {ProtocolVersion.ZOOKEEPER}),
        ("on", "<use_xid_64>1</use_xid_64><use_compression>1</use_compression>", {ProtocolVersion.WIDE_XIDS}),
        (
            "on",
            "<use_xid_64>1</use_xid_64>"
            "<pass_opentelemetry_tracing_context>1</pass_opentelemetry_tracing_context>",
            {ProtocolVersion.TRACING},
        ),
    ],
    ids=["plain", "extended", "wide", "traced"],
)
def test_clickhouse_keeps_its_things(
    extensions: str,
    options: str,
    versions: set[int],
    etcd_server: EtcdServer,
    etcd_prefix: str,
    tmp_path: Path,
) -> None:
    with (
        ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix, keeper_extensions=extensions) as server,
        Relay(server.port) as relay,
        ClickHouse(tmp_path, relay.port, options, replica="r1" if RUNS else "") as clickhouse,
    ):
        script = _SCRIPT + _REPLICATED_SCRIPT if RUNS else _SCRIPT
        assert [(query, clickhouse.query(query)) for query, _ in script] == list(script)
    assert relay.most_in_flight > 1
    assert set(relay.versions) == versions
    asked = set(relay.opcodes) - _PLAIN
    if extensions == "off":
        assert asked == set()
    else:
        assert asked >= {OpCode.MULTI_READ, KeeperOpCode.CREATE_IF_NOT_EXISTS}
        if RUNS:
            assert asked >= {KeeperOpCode.CHECK_NOT_EXISTS, KeeperOpCode.REMOVE_RECURSIVE}
        assert asked <= {OpCode.MULTI_READ, *KeeperOpCode}


def test_a_spent_budget_is_an_error_at_once_and_ends_no_session(
    etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path
) -> None:
    """At OPERATION_TIMEOUT it opens session after session, for minutes."""
    with (
        ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix) as server,
        ClickHouse(tmp_path, server.port) as clickhouse,
    ):
        clickhouse.query("CREATE TABLE t (k UInt64) ENGINE = KeeperMap('/t') PRIMARY KEY k")
        clickhouse.query("INSERT INTO t VALUES (1)")
        ctl(etcd_server, "budget", "set", "/keeper_map=1B/s", prefix=etcd_prefix)
        with Client(server.port) as client:
            client.create("/keeper_map/blob", b"x" * 10_000)
        opened = server.log_text().count("opened by")
        for _ in range(3):
            with pytest.raises(RuntimeError, match="System error"):
                clickhouse.query("INSERT INTO t VALUES (2)")
        ctl(etcd_server, "budget", "remove", "/keeper_map", prefix=etcd_prefix)
        clickhouse.query("INSERT INTO t VALUES (3)")
        assert clickhouse.query("SELECT groupArray(k) FROM (SELECT k FROM t ORDER BY k)") == '"[1,3]"'
        assert server.log_text().count("opened by") == opened


# What needs more of a server than the library has: query -> what it answers. Those without an answer work.
_REFUSED = (
    ("SELECT name FROM system.zookeeper WHERE path = '/'", "UNKNOWN_TABLE"),
    ("CREATE TABLE r (k UInt64) ENGINE = ReplicatedMergeTree('/r', 'one') ORDER BY k", ""),
    ("INSERT INTO r SETTINGS insert_keeper_max_retries = 0 VALUES (1)", "Table is in readonly mode"),
    ("DROP TABLE r SYNC", ""),
    (
        "CREATE DATABASE d ENGINE = Replicated('/d', 'shard', 'one')",
        "Parameter 'interserver_http.s._port' required for replication is not specified",
    ),
    ("CREATE TABLE m (k UInt64) ENGINE = MergeTree ORDER BY k", ""),
    ("CREATE TABLE n ON CLUSTER alone AS m", "Replicated DDL queries are disabled"),
    ("BACKUP TABLE m ON CLUSTER alone TO Memory('b')", "Replicated DDL queries are disabled"),
    ("SYSTEM RELOAD CONFIG", "not supported in clickhouse-local"),
    ("SYSTEM START LISTEN INTERSERVER HTTP", "start_servers_callback is not set"),
)


def test_what_the_embedded_library_cannot_do(
    etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path
) -> None:
    """docs/clickhouse.md lists it. Of replicated tables it creates the nodes, and deletes them again."""
    with (
        ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix) as server,
        Relay(server.port) as relay,
        ClickHouse(tmp_path, relay.port) as clickhouse,
        Client(server.port) as client,
    ):
        for query, refusal in _REFUSED:
            if refusal:
                with pytest.raises(RuntimeError, match=refusal):
                    clickhouse.query(query)
            else:
                clickhouse.query(query)
            assert (client.stat("/r/replicas/one") is not None) is (
                "ENGINE = ReplicatedMergeTree" in query or "INTO r " in query
            )
        assert relay.opcodes[KeeperOpCode.REMOVE_RECURSIVE] > 0
