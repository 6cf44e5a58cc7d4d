"""Real ZooKeeper -> import -> zketcd: every node is the same to a client, and what comes next as well."""

import pytest

from lab.fakes.clock import FakeClock
from lab.oracle.client import Client
from lab.oracle.requests import EPHEMERAL_SEQUENTIAL, SEQUENTIAL
from lab.servers import EtcdServer, ZooKeeperServer
from pipeline.jobs import import_
from schema.zxids import epoch_at, next_epoch
from tests.pipeline.ensembles import COUNTED, Origin, ephemerals, max_zxid, view, zketcd
from zketcd.__main__ import main


def test_a_tree_without_its_ephemerals(
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
        assert {path: client.create(path, b"", SEQUENTIAL) for path in COUNTED} == origin.next_names
        assert client.last_zxid > max_zxid(origin.after)
        client.close()


def test_a_tree_with_its_sessions(
    origin: Origin, options: list[str], etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    assert main(["import", str(origin.files), *options, "--keep-sessions"]) == 0
    with zketcd(etcd_server.endpoint, etcd_prefix) as server:
        assert view(server.port) == origin.before
        last = origin.last_zxid
        client = Client(server.port, origin.session.id, origin.session.password, last)
        assert client.session.id == origin.session.id
        assert client.create("/locks/lock-", b"", EPHEMERAL_SEQUENTIAL).endswith("0000000002")
        client.close()
        assert view(server.port).keys() == origin.after.keys()


def test_what_is_there_or_served_stays(
    origin: Origin,
    options: list[str],
    etcd_server: EtcdServer,
    etcd_prefix: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with zketcd(etcd_server.endpoint, etcd_prefix) as server:
        client = Client(server.port)
        client.create("/mine")
        client.close()
        assert main(["import", str(origin.files), *options, "--overwrite"]) == 2
        assert "is served by 1 zketcd" in capsys.readouterr().err
        server.stop()
        for flags in ([], ["--dry-run"]):
            assert main(["import", str(origin.files), *options, *flags]) == 2
            assert "--overwrite" in capsys.readouterr().err
        server.start()
        assert "/mine" in view(server.port)
        server.stop()
    capsys.readouterr()
    monkeypatch.setattr(import_, "time", FakeClock(1.8e9))
    first, second = (_first_zxid(origin, options, capsys) for _ in range(2))
    assert first == next_epoch(epoch_at(1.8e9)), "above an import of the same tree to another prefix before"
    assert second == next_epoch(first), "above what clients of the tree before have seen"
    with zketcd(etcd_server.endpoint, etcd_prefix) as server:
        assert view(server.port).keys() == origin.after.keys()


def _first_zxid(origin: Origin, options: list[str], capsys: pytest.CaptureFixture[str]) -> int:
    """Import over a tree; the zxid that the tree has then."""
    assert main(["import", str(origin.files), *options, "--overwrite"]) == 0
    return int(capsys.readouterr().out.split("zxids continue at ")[1], 16)


def test_a_running_ensemble(
    live_server: ZooKeeperServer,
    options: list[str],
    etcd_server: EtcdServer,
    etcd_prefix: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = [f"zk://{live_server.address}", "--auth", "digest:super:test"]
    assert main(["import", *source, *options, "--keep-sessions"]) == 2
    assert "this source has no sessions" in capsys.readouterr().err
    client = Client(live_server.port)
    gone = set(ephemerals(client))
    assert main(["import", *source, *options]) == 0
    told = capsys.readouterr().out
    assert "3 dropped" in told
    assert "TTL nodes come as persistent nodes" in told
    before = view(live_server.port)
    client.close()
    with zketcd(etcd_server.endpoint, etcd_prefix) as server:
        found = view(server.port)
    assert found.keys() == before.keys() - gone
    parents = {"/eph", "/locks"}
    assert {path: found[path] for path in found.keys() - parents} == {
        path: before[path] for path in before.keys() - parents - gone
    }
    for path in parents:  # one child fewer each counts as a change
        lost = before[path].stat.num_children - found[path].stat.num_children
        assert found[path].stat.cversion == before[path].stat.cversion + lost
