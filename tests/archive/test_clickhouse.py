"""An operator deletes /clickhouse under two ClickHouse servers: a revert brings their tables back."""

import pytest

from codec import client as zk
from lab.client.blocking import Client
from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.clickhouse import replicas_at
from tests.archive.archives import Archive
from tests.clients.clickhouse_tables import create_table, insert, try_insert, wait_for_rows

_ROWS = "SELECT block, row FROM t ORDER BY block, row"


def _delete(client: Client, path: str) -> None:
    for name in client.children(path)[0]:
        _delete(client, f"{path}/{name}")
    client.refusal(zk.delete(path))


@pytest.mark.real
def test_dropped_replicas_come_back(
    zketcd_server: ZketcdServer, etcd_server: EtcdServer, etcd_prefix: str, archive: Archive
) -> None:
    archive.start()
    with replicas_at(zketcd_server.port, zketcd_server.port) as (first, second):
        create_table(first, "t")
        insert(first, "('2018-01-01',1,1,1)")
        insert(second, "('2018-01-01',1,2,1)")
        wait_for_rows((first, second), _ROWS, "1\t1\n2\t1")
        with Client(zketcd_server.port) as client:
            client.sync()
            good = f"0x{client.zxid:x}"
            _delete(client, "/clickhouse/tables")
            archive.until(client.zxid)
        assert not try_insert(first, "('2018-01-01',1,3,1)")
        etcd = ["--etcd", etcd_server.endpoint, "--prefix", etcd_prefix]
        words = ["/clickhouse/tables", "--to", good, "--archive", archive.url, *etcd]
        status, out = archive.run("revert", *words, "--server", zketcd_server.address, "--yes")
        assert status == 0, out
        assert "left out: " in out, "who is active is for the replicas to say"
        for replica in (first, second):
            replica.query("SYSTEM RESTART REPLICA t")

        def inserted() -> bool:
            return try_insert(first, "('2018-01-01',1,3,1)")

        wait_until(inserted, "inserts go on", timeout=60, interval=0.5)
        insert(second, "('2018-01-01',1,4,1)")
        wait_for_rows((first, second), _ROWS, "1\t1\n2\t1\n3\t1\n4\t1")
