"""Two ClickHouse servers coordinate through two proxies on one etcd: no row is lost or doubled on either.

What 18.16 does of its own, also on real ZooKeeper: a new session after each lost connection; after an expired
session its ALTER thread stays dead until SYSTEM RESTART REPLICA; it never merges or mutates the last quorum
part; it refuses inserts for some seconds after its ZooKeeper came back.
"""

import http.client
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from typing import ClassVar

import pytest
from typing_extensions import override

from codec.constants import OpCode
from lab.client.blocking import Client
from lab.servers import EtcdServer, UpgradableServer, wait_until
from lab.servers.clickhouse import CLUSTER, ClickHouseServer, QueryRefused, replicas_at
from lab.servers.process import ServerProcess
from lab.servers.relay import Quality, Relays
from tests.clients.clickhouse_tables import (
    ON_ALL,
    Replicas,
    Writer,
    check,
    create_table,
    insert,
    try_insert,
    wait_for_progress,
    wait_for_rows,
    writing,
)
from tests.clients.conftest import ON_ZOOKEEPER, two_servers
from tests.clients.relay import Relay

Pair = tuple[ServerProcess, ServerProcess]

_UPGRADES = int(os.environ.get("ZKETCD_TEST_UPGRADES", "2"))

# All that this version asks for.
_ASKED = {
    *(OpCode.CREATE, OpCode.DELETE, OpCode.EXISTS, OpCode.GET_DATA, OpCode.SET_DATA, OpCode.GET_CHILDREN2),
    *(OpCode.CHECK, OpCode.MULTI, OpCode.PING, OpCode.AUTH, OpCode.CLOSE_SESSION),
}


@pytest.fixture(scope="module")
def pair(etcd_server: EtcdServer) -> Iterator[Pair]:
    """Two servers that all of this file shares."""
    with two_servers(etcd_server, f"/test-clickhouse-{os.getpid()}") as servers:
        yield servers


@pytest.fixture(scope="module")
def shared(pair: Pair) -> Iterator[Replicas]:
    """Two ClickHouses that all of this file shares."""
    with ExitStack() as stack:
        relays = [stack.enter_context(Relay(server.port)) for server in pair]
        yield stack.enter_context(replicas_at(*(relay.port for relay in relays)))
        for relay in relays:  # it knows nothing of Keeper
            assert not any(path.startswith("/keeper") for path in relay.read.copy())
            assert relay.opcodes.copy().keys() <= _ASKED


@pytest.fixture
def replicas(shared: Replicas) -> Replicas:
    """Both run, and have no table."""
    for replica in shared:
        if not replica.alive:
            replica.start()
        replica.query("DROP TABLE IF EXISTS t")
    return shared


ALL_ROWS = "SELECT * FROM t ORDER BY day, writer, block, row"


def test_a_table_can_be_created_as_soon_as_a_server_far_from_its_zookeeper_has_started(pair: Pair) -> None:
    with Relays() as relays, ExitStack() as stack:
        relays.change(dict.fromkeys((("near", "far"), ("far", "near")), Quality(latency=0.05)))
        server = ClickHouseServer(relays.listen("near", "far", pair[0].port), replica="replica-1")
        server.join((server,))
        stack.enter_context(server)
        server.query(
            f"CREATE TABLE t ON CLUSTER {CLUSTER} (day Date)"
            " ENGINE = ReplicatedMergeTree('/clickhouse/tables/t', '{replica}') PARTITION BY day ORDER BY day"
        )
        assert server.query("EXISTS TABLE t") == "1"


def test_a_block_sent_twice_is_stored_once(replicas: Replicas) -> None:
    first, second = replicas
    create_table(second, "t")
    block = "('2020-01-01', 1, 1, 1), ('2020-01-01', 1, 1, 2)"
    insert(first, block)
    insert(first, block)
    insert(second, block)
    # A part of its own that comes after all the others: once it is on both, so is everything before it.
    insert(second, "('2020-01-01', 2, 1, 1)")
    wait_for_rows(replicas, ALL_ROWS, "2020-01-01\t1\t1\t1\n2020-01-01\t1\t1\t2\n2020-01-01\t2\t1\t1")


def test_a_quorum_insert_is_on_both_replicas_when_acknowledged(replicas: Replicas) -> None:
    first, second = replicas
    create_table(first, "t")
    for block in range(5):
        for writer, replica in enumerate(replicas):
            insert(replica, f"('2020-01-01', {writer}, {block}, 1)", insert_quorum=2)
            for reader in replicas:
                assert (
                    reader.query(
                        f"SELECT count() FROM t WHERE writer = {writer} AND block = {block}",
                        select_sequential_consistency=1,
                    )
                    == "1"
                )
    second.stop()
    with pytest.raises(QueryRefused, match=r"(?i)quorum|replicas"):
        insert(first, "('2020-01-01', 9, 9, 9)", insert_quorum=2, insert_quorum_timeout=1000)


def test_optimize_alter_mutations_and_drop_partition(replicas: Replicas) -> None:
    first, second = replicas
    create_table(first, "t")
    for block in range(4):
        insert(replicas[block % 2], f"('2020-01-01', 1, {block}, 1), ('2020-02-01', 2, {block}, 1)")
    wait_for_rows(replicas, "SELECT count() FROM t", "8")

    second.query("OPTIMIZE TABLE t PARTITION 202001 FINAL", replication_alter_partitions_sync=ON_ALL)
    wait_for_rows(
        replicas,
        "SELECT count() FROM system.parts WHERE table = 't' AND active AND partition = '202001'",
        "1",
    )

    first.query(
        "ALTER TABLE t ADD COLUMN note String DEFAULT 'none'", replication_alter_partitions_sync=ON_ALL
    )
    wait_for_rows(replicas, "SELECT note, count() FROM t GROUP BY note", "none\t8")
    insert(second, "('2020-03-01', 3, 0, 1, 'some')")

    first.query("ALTER TABLE t DELETE WHERE block = 0 AND writer = 1")
    second.query("ALTER TABLE t UPDATE note = 'changed' WHERE block = 3")
    wait_for_rows(replicas, "SELECT count() FROM system.mutations WHERE table = 't' AND is_done", "2")
    wait_for_rows(
        replicas,
        "SELECT toYYYYMM(day), block, note FROM t ORDER BY day, block",
        "202001\t1\tnone\n202001\t2\tnone\n202001\t3\tchanged\n"
        "202002\t0\tnone\n202002\t1\tnone\n202002\t2\tnone\n202002\t3\tchanged\n"
        "202003\t0\tsome",
    )

    second.query("ALTER TABLE t DROP PARTITION 202002", replication_alter_partitions_sync=ON_ALL)
    wait_for_rows(
        replicas,
        "SELECT toYYYYMM(day), count() FROM t GROUP BY toYYYYMM(day) ORDER BY toYYYYMM(day)",
        "202001\t3\n202003\t1",
    )


def test_a_replica_catches_up_after_it_was_killed(replicas: Replicas) -> None:
    first, second = replicas
    create_table(first, "t")
    insert(second, "('2020-01-01', 2, 1, 1)")
    wait_for_rows(replicas, "SELECT count() FROM t", "1")
    second.kill()
    for block in range(3):
        insert(first, f"('2020-01-01', 1, {block}, 1)")
    second.start()
    wait_for_rows(replicas, "SELECT writer, block FROM t ORDER BY writer, block", "1\t0\n1\t1\n1\t2\n2\t1")
    # A killed replica may write again once the session of its former life has expired.
    wait_until(lambda: try_insert(second, "('2020-01-01', 2, 2, 1)"), "the replica takes inserts", timeout=60)
    wait_for_rows(
        replicas, "SELECT writer, block FROM t ORDER BY writer, block", "1\t0\n1\t1\n1\t2\n2\t1\n2\t2"
    )


def test_a_replica_that_was_away_for_too_long_is_cloned(pair: Pair, replicas: Replicas) -> None:
    first, second = replicas
    create_table(first, "t", "min_replicated_logs_to_keep = 2, max_replicated_logs_to_keep = 5")
    insert(second, "('2020-01-01', 2, 1, 1)")
    wait_for_rows(replicas, "SELECT count() FROM t", "1")
    path = second.query("SELECT replica_path FROM system.replicas WHERE table = 't'")
    second.stop()
    for block in range(8):
        insert(first, f"('2020-01-01', 1, {block}, 1)")
    with Client(pair[0].port) as client:
        wait_until(
            lambda: client.read(f"{path}/is_lost").data == b"1", "the replica is marked as lost", timeout=60
        )
        second.start()
        wait_for_rows(replicas, "SELECT writer, count() FROM t GROUP BY writer ORDER BY writer", "1\t8\n2\t1")
        assert client.read(f"{path}/is_lost").data == b"0"


def test_the_lost_files_of_a_part_are_fetched_again(replicas: Replicas) -> None:
    first, second = replicas
    create_table(first, "t")
    insert(first, "('2020-01-01', 1, 1, 1)")
    wait_for_rows(replicas, "SELECT count() FROM t", "1")
    second.stop()
    shutil.rmtree(second.data_dir / "data" / "default" / "t" / "202001_0_0_0")
    second.start()
    wait_for_rows(replicas, "SELECT count() FROM t", "1")


def test_servers_restart_amid_inserts(pair: Pair, replicas: Replicas) -> None:
    """One is stopped, the other one killed."""
    create_table(replicas[0], "t")
    writers = [Writer(number, replica) for number, replica in enumerate([*replicas, *replicas])]
    with writing(writers):
        wait_for_progress(writers)
        pair[0].restart()
        wait_for_progress(writers)
        pair[1].kill()
        pair[1].start()
        wait_for_progress(writers)
    # A part whose commit was cut off stays for five minutes, in ZooKeeper or not; a restart compares at once.
    for replica in replicas:
        replica.query("SYSTEM RESTART REPLICA t")
    check(writers, replicas)
    # The queue of ON CLUSTER queries has come through as well.
    create_table(replicas[1], "afterwards")


@pytest.mark.skipif(ON_ZOOKEEPER, reason="ZooKeeper has no upgrade that clients do not notice")
def test_sessions_and_inserts_outlive_upgrades(pair: Pair, replicas: Replicas) -> None:
    """No insert fails or is sent twice. ZKETCD_TEST_UPGRADES: how many; `make upgrades` has 20."""
    create_table(replicas[0], "t")
    before = _sessions_of(pair[0], replicas)
    writers = [_Once(number, replica) for number, replica in enumerate([*replicas, *replicas])]
    with writing(writers):
        for number in range(_UPGRADES):
            wait_for_progress(writers)
            server = pair[number % 2]
            assert isinstance(server, UpgradableServer)
            assert server.upgrade() == f"process {server.serving} has taken over\n"
        wait_for_progress(writers)
    assert _Once.refusals == []
    check(writers, replicas)
    assert _sessions_of(pair[0], replicas) == before


class _Once(Writer):
    """Notes each refusal, of which there should be none."""

    refusals: ClassVar[list[str]] = []

    @override
    def send(self, block: int) -> None:
        try:
            insert(self._replica, f"('2020-01-01', {self.number}, {block}, 1)")
        except (QueryRefused, OSError, http.client.HTTPException) as error:
            if "Too many parts" not in str(error):  # its merges are behind: a busy machine
                self.refusals.append(f"{error!r}")
            super().send(block)


def _sessions_of(server: ServerProcess, replicas: Replicas) -> list[int]:
    """The session of each replica: the owner of its node `is_active`."""
    (path,) = {
        replica.query("SELECT zookeeper_path FROM system.replicas WHERE table = 't'") for replica in replicas
    }
    with Client(server.port) as client:
        return [client.owner(f"{path}/replicas/{replica.replica}/is_active") for replica in replicas]
