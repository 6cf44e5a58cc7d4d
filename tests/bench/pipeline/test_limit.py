"""The plain client's pages are those of the tree, and arrive."""

import asyncio
import io

import pytest

from bench.pipeline import limit, tree
from lab.servers import EtcdServer
from pipeline.etcd.options import Connection
from proxy.etcd.model import Get
from schema.pages import page_header


def test_all_pages_of_a_table_arrive(
    etcd_server: EtcdServer,
    etcd_prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    assert limit.main([etcd_server.endpoint, etcd_prefix, "0", "1"]) == 0
    ready, told = capsys.readouterr().out.splitlines()
    assert ready == "ready"
    assert int(told.split()[0]) == tree.TABLE_NODES
    connection = Connection(etcd_server.endpoint, etcd_prefix)

    async def count() -> int:
        keys = connection.keys
        async with connection.client() as etcd:
            pages = await etcd.range(Get(*keys.snapshot("0")), 60)
            return sum(page_header(pair.value).count for pair in pages.kvs)

    assert asyncio.run(count()) == tree.TABLE_NODES
