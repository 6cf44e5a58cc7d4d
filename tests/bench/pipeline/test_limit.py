"""The plain client's puts are those of the tree, and arrive."""

import asyncio
import io

import pytest

from bench.pipeline import limit, tree
from pipeline.etcd import load
from pipeline.etcd.options import Connection
from tests.harness import EtcdServer


def test_all_puts_of_a_table_arrive(
    etcd_server: EtcdServer,
    etcd_prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    assert limit.main([etcd_server.endpoint, etcd_prefix, "0", "1"]) == 0
    ready, told = capsys.readouterr().out.splitlines()
    assert ready == "ready"
    connection = Connection(etcd_server.endpoint, etcd_prefix)

    async def count() -> tuple[int, int]:
        keys = connection.keys
        async with connection.client() as etcd:
            nodes = await load.count(etcd, keys.nodes + b"/", keys.nodes + b"0")
            return nodes, await load.count(etcd, keys.start, keys.end)

    nodes, all_keys = asyncio.run(count())
    assert nodes == tree.TABLE_NODES
    assert all_keys == int(told.split()[0]) > nodes
