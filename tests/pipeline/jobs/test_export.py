"""zketcd -> export -> real ZooKeeper: every node is the same to a client, and living sessions are resumed."""

import time

import pytest

from lab.oracle.client import Client
from lab.oracle.requests import SEQUENTIAL
from lab.servers import EtcdServer
from schema.zxids import epoch_at
from tests.pipeline.ensembles import COUNTED, ephemerals, max_zxid, populate, view, zketcd, zookeeper
from zketcd.__main__ import main


def test_a_tree_born_in_etcd(
    options: list[str], etcd_server: EtcdServer, etcd_prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = zookeeper()
    with zketcd(etcd_server.endpoint, etcd_prefix) as server:
        client = Client(server.port)
        populate(client)
        paths = ephemerals(client)
        now = epoch_at(time.time())
        assert main(["export", str(target.data_dir), *options]) == 0
        told = capsys.readouterr().out
        assert int(told.split("zxids continue at ")[1], 16) > now, "above those of any export before"
        assert all(f"dropped: {path}" in told for path in paths)
        assert "1 zketcd serve it" in told
        client.close()  # so that zketcd shows what the export has
        after = view(server.port)
        client = Client(server.port)
        names = {path: client.create(path, b"", SEQUENTIAL) for path in COUNTED}
        client.close()
        last = client.last_zxid
    with target:
        found = view(target.port)
        for path in ("/eph", "/locks"):
            assert found[path].stat.pzxid > max_zxid(after) - 100
            stat = found[path].stat._replace(pzxid=after[path].stat.pzxid)
            found[path] = found[path]._replace(stat=stat)
        assert found == after
        client = Client(target.port, last_zxid=last)
        assert {path: client.create(path, b"", SEQUENTIAL) for path in COUNTED} == names
        assert client.last_zxid > last
        client.close()
