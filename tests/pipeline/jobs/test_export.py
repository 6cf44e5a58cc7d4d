"""zketcd -> export -> real ZooKeeper: every node is the same to a client, and sessions that can go on do."""

from pathlib import Path

import pytest

from lab.servers import EtcdServer, free_port
from pipeline.__main__ import main
from tests.compat import script
from tests.pipeline.ensembles import (
    COUNTED,
    Client,
    Origin,
    ephemerals,
    max_zxid,
    populate,
    view,
    zketcd,
    zookeeper,
)


@pytest.fixture
def options(etcd_server: EtcdServer, etcd_prefix: str) -> list[str]:
    return ["--etcd", etcd_server.endpoint, "--prefix", etcd_prefix]


def test_a_tree_born_in_etcd(
    options: list[str],
    etcd_server: EtcdServer,
    etcd_prefix: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = zookeeper()
    with zketcd(etcd_server.endpoint, etcd_prefix) as server:
        client = Client(server.port)
        populate(client)
        paths = ephemerals(client)
        assert main(["export", str(target.data_dir), *options]) == 0
        told = capsys.readouterr().out
        assert all(f"dropped: {path}" in told for path in paths)
        assert "1 zketcd serve it" in told
        client.close()  # so that zketcd shows what the export has
        after = view(server.port)
        client = Client(server.port)
        names = {path: client.create(path, b"", script.SEQUENTIAL) for path in COUNTED}
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
        assert {path: client.create(path, b"", script.SEQUENTIAL) for path in COUNTED} == names
        assert client.last_zxid > last
        client.close()


def test_there_and_back_with_a_session(
    origin: Origin, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    keep = ["--keep-sessions"]
    assert main(["import", str(origin.files), *options, *keep]) == 0
    target = zookeeper()
    assert main(["export", str(target.data_dir), *options, *keep]) == 0
    assert "3 kept with 1 sessions" in capsys.readouterr().out
    with target:
        assert view(target.port) == origin.before
        client = Client(target.port, origin.session.id, origin.session.password, origin.last_zxid)
        assert client.session.id == origin.session.id
        client.close()
        assert view(target.port).keys() == origin.after.keys()


@pytest.mark.parametrize("flags", [[], ["--dry-run"]])
@pytest.mark.parametrize(
    ("there", "reason"),
    [("version-2/snapshot.5", "holds snapshot.5 already"), ("version-2", "is not a directory")],
)
def test_a_target_that_cannot_take_it_is_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], there: str, reason: str, flags: list[str]
) -> None:
    (tmp_path / there).parent.mkdir(exist_ok=True)
    (tmp_path / there).touch()
    nobody = f"http://127.0.0.1:{free_port()}"
    assert main(["export", str(tmp_path), "--etcd", nobody, *flags]) == 2
    told = capsys.readouterr()
    assert reason in told.err
    assert told.out == ""
