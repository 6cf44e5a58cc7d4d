"""Real ZooKeeper -> import -> zketcd: every node is the same to a client, and what comes next as well."""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from pipeline.__main__ import main
from tests.compat import script
from tests.compat.wire import Session
from tests.harness import EtcdServer
from tests.pipeline.ensembles import Client, Node, ephemerals, populate, view, zketcd, zookeeper


class Origin(NamedTuple):
    """A ZooKeeper that was stopped while a client had ephemerals."""

    files: Path
    before: dict[str, Node]  # the client's session alive
    after: dict[str, Node]  # once ZooKeeper had closed it
    session: Session
    ephemerals: list[str]
    next_names: dict[str, str]  # what the next sequential creates were called
    last_zxid: int


COUNTED = ("/seq/n-", "/seq-/x", "/container/n-", "/locks/lock-", "/gone/q", "/wide/s", "/s")


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    folder = tmp_path_factory.mktemp("origin")
    with zookeeper() as server:
        client = Client(server.port)
        populate(client)
        client.leave()
        server.restart()  # it makes a snapshot: what follows is in the log only
        client = Client(server.port, client.session.id, client.session.password)
        paths = ephemerals(client)
        before = view(server.port)
        zxid = client.last_zxid
        client.leave()
        server.kill()
        shutil.copytree(server.data_dir, folder / "data")
        server.start()
        client = Client(server.port, client.session.id, client.session.password)
        session = client.session
        client.close()
        after = view(server.port)
        client = Client(server.port)
        names = {path: client.create(path, b"", script.SEQUENTIAL) for path in COUNTED}
        client.close()
    return Origin(folder / "data", before, after, session, paths, names, zxid)


@pytest.fixture
def options(etcd_server: EtcdServer, etcd_prefix: str) -> list[str]:
    return ["--etcd", etcd_server.endpoint, "--prefix", etcd_prefix]


def test_a_tree_without_its_ephemerals(
    spark: SparkSession,
    origin: Origin,
    options: list[str],
    etcd_server: EtcdServer,
    etcd_prefix: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["import", str(origin.files), "--dry-run", *options]) == 0
    assert main(["import", str(origin.files), *options]) == 0
    told = capsys.readouterr().out
    assert "digest: equal" in told
    assert "ephemerals: 0 kept with 0 sessions, 3 dropped" in told
    assert all(f"dropped: {path}" in told for path in origin.ephemerals)
    with zketcd(etcd_server.endpoint, etcd_prefix) as server:
        found = view(server.port)
        assert found.keys() == origin.after.keys()
        moved = {path for path in ("/eph", "/locks") if found[path].stat.pzxid > max_zxid(origin.before)}
        assert moved == {"/eph", "/locks"}  # as a closeSession moves it
        for path in moved:
            stat = found[path].stat._replace(pzxid=origin.after[path].stat.pzxid)
            found[path] = found[path]._replace(stat=stat)
        assert found == origin.after
        client = Client(server.port)
        assert {path: client.create(path, b"", script.SEQUENTIAL) for path in COUNTED} == origin.next_names
        assert client.last_zxid > max_zxid(origin.after)
        client.close()


def test_a_tree_with_its_sessions(
    spark: SparkSession,
    origin: Origin,
    options: list[str],
    etcd_server: EtcdServer,
    etcd_prefix: str,
) -> None:
    command = ["import", str(origin.files), *options, "--keep-sessions", "--hold-sessions", "0"]
    assert main(command) == 0
    with zketcd(etcd_server.endpoint, etcd_prefix) as server:
        assert view(server.port) == origin.before
        last = origin.last_zxid
        client = Client(server.port, origin.session.id, origin.session.password, last)
        assert client.session.id == origin.session.id
        assert client.create("/locks/lock-", b"", script.EPHEMERAL_SEQUENTIAL).endswith("0000000002")
        client.close()
        assert view(server.port).keys() == origin.after.keys()


def test_what_is_there_or_served_stays(
    spark: SparkSession,
    origin: Origin,
    options: list[str],
    etcd_server: EtcdServer,
    etcd_prefix: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with zketcd(etcd_server.endpoint, etcd_prefix) as server:
        client = Client(server.port)
        client.create("/mine")
        client.close()
        assert main(["import", str(origin.files), *options, "--overwrite"]) == 1
        assert "is served by 1 zketcd" in capsys.readouterr().err
        server.stop()
        assert main(["import", str(origin.files), *options]) == 1
        assert "--overwrite" in capsys.readouterr().err
        server.start()
        assert "/mine" in view(server.port)
        server.stop()
    assert main(["import", str(origin.files), *options, "--overwrite"]) == 0
    with zketcd(etcd_server.endpoint, etcd_prefix) as server:
        assert view(server.port).keys() == origin.after.keys()


def max_zxid(nodes: dict[str, Node]) -> int:
    """The largest zxid in any Stat."""
    return max(max(node.stat.czxid, node.stat.mzxid, node.stat.pzxid) for node in nodes.values())
