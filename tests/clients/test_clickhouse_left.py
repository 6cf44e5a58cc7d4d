"""`zketcd clickhouse` on the tree of two ClickHouse servers, of which one does not come back."""

import json
from contextlib import suppress

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from lab.servers import EtcdServer, wait_until
from lab.servers.clickhouse import ClickHouseServer, replicas_at
from tests.clients.clickhouse_tables import (
    Writer,
    create_table,
    path_of_table,
    wait_for_progress,
    wait_for_rows,
    writing,
)
from tests.clients.conftest import ON_ZOOKEEPER, two_servers
from tests.kazoo import kazoo
from zketcd.__main__ import main

pytestmark = pytest.mark.skipif(ON_ZOOKEEPER, reason="the command reads the tree in etcd")

_OWN = "/clickhouse/tables/1/own"
_GONE = "replica-2"


def test_what_a_server_that_is_gone_has_left_is_listed_and_removed_while_the_other_inserts(
    etcd_server: EtcdServer, etcd_prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str) -> dict[str, tuple[bool, str]]:
        """What the command finds, each with whether it was removed, and the note."""
        tree = ("--etcd", etcd_server.endpoint, "--prefix", etcd_prefix, "--json")
        capsys.readouterr()
        assert main(["clickhouse", *tree, "--server", pair[0].address, "--hours", "0", *words]) == 0
        listed = json.loads(capsys.readouterr().out)
        return {f"{each['kind']} {each['path']}": (each["removed"], each["note"]) for each in listed}

    with (
        two_servers(etcd_server, etcd_prefix) as pair,
        replicas_at(*(server.port for server in pair)) as servers,
        kazoo(pair[0]) as zookeeper,
    ):
        living, gone = servers
        create_table(living, "t")
        table = path_of_table(living)
        writers = [Writer(number, server) for number, server in enumerate(servers)]
        for writer in writers:
            writer.write(3)
        gone.query(
            f"CREATE TABLE own (day Date) ENGINE = ReplicatedMergeTree('{_OWN}', '{{replica}}')"
            " PARTITION BY toYYYYMM(day) ORDER BY day"
        )
        gone.query("INSERT INTO own VALUES ('2020-01-01')")
        wait_for_rows(servers, "SELECT count() FROM t", "6")
        both = ("--replica", "replica-1", "--replica", _GONE)
        assert run("--yes", *both) == {}  # both live

        gone.kill()
        wait_until(
            lambda: not zookeeper.exists(f"{table}/replicas/{_GONE}/is_active"), "its session to end", 90
        )
        of_table, of_own = f"replica {table}/replicas/{_GONE}", f"replica {_OWN}/replicas/{_GONE}"
        with writing(writers[:1]):
            left = {path for path in _paths(zookeeper) if _GONE in path}
            found = run()
            assert found.keys() == {of_table, of_own}
            assert found[of_own] == (False, "1 part, 1 on no other replica")
            assert found[of_table][1].endswith(("part", "parts")), "the other replica has all of them"
            assert left <= _paths(zookeeper)  # a dry run

            wait_for_progress(writers[:1])
            removed = run("--yes", *both)
            assert {what: done for what, (done, _) in removed.items()} == {of_table: True, of_own: True}
            assert run("--yes") == {f"table {_OWN}": (True, "has no replica")}
            wait_for_progress(writers[:1])
        after = _paths(zookeeper)
        assert not [path for path in after if f"/replicas/{_GONE}" in path or path.startswith(_OWN)]
        assert f"{table}/replicas/replica-1/is_active" in after
        status = "SELECT is_readonly, total_replicas, active_replicas FROM system.replicas WHERE table = 't'"
        assert living.query(status) == "0\t1\t1"

        with _successor(pair[1].port) as successor:  # the name and the path are free
            successor.query(
                "CREATE TABLE t (day Date, writer UInt32, block UInt32, row UInt32)"
                f" ENGINE = ReplicatedMergeTree('{table}', '{{replica}}')"
                " PARTITION BY toYYYYMM(day) ORDER BY (writer, block)"
            )
            rows = "\n".join(f"{w.number}\t{block}\t1" for w in writers for block in range(w.blocks))
            blocks = "SELECT writer, block, count() FROM t GROUP BY writer, block ORDER BY writer, block"
            wait_for_rows((living, successor), blocks, rows)


def _paths(client: KazooClient, path: str = "/clickhouse") -> set[str]:
    """All of a subtree, which may change meanwhile."""
    found: set[str] = set()
    with suppress(NoNodeError):
        names = client.get_children(path)
        found.add(path)
        for name in names:
            found |= _paths(client, f"{path}/{name}")
    return found


def _successor(port: int) -> ClickHouseServer:
    """A new server with the name of the one that is gone."""
    server = ClickHouseServer(port, replica=_GONE)
    server.join((server,))
    return server
