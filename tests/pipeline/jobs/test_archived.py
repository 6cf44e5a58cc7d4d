"""Import, export, verify and inspect on a moment of an archive."""

import asyncio
import json
from pathlib import Path

import pytest

from archive.archiver.writer import RunWriter
from archive.files import container
from archive.files.moment import moment
from archive.files.names import Point
from archive.files.store import store_of
from archive.past.state import state_at
from lab.client.blocking import EPHEMERAL, SEQUENTIAL, Client
from lab.servers import EtcdServer, ZketcdServer
from proxy.state.capture import new_machine
from tests.archive.archives import ROOT, Archive, seen_by
from zketcd.__main__ import main


def test_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = str(tmp_path / "archive")
    for words, why in (
        (["verify", f"archive:{url}", "parquet:x"], "there is no directory"),
        (["verify", "zk://127.0.0.1:1", "zk://127.0.0.1:1", "--at", "0x5"], "--at goes with archive:URL"),
        (["export", str(tmp_path / "new"), "--follow", "--archive", url], "has no future"),
    ):
        assert main(words) == 2
        assert why in capsys.readouterr().err
    start = Point(0, 0, 0, 0)
    writer = RunWriter(store_of(url), "20261123T074501.123Z-cdf818194e3a8c32", start)
    asyncio.run(writer.snapshot(start, container.captured(new_machine(1))))
    assert main(["verify", f"archive:{url}", f"archive:{url}"]) == 0
    assert len(state_at(store_of(url), moment("now", 0)).tree.nodes) == 4


def test_a_moment_moves_as_a_tree_does(
    zketcd_server: ZketcdServer,
    etcd_server: EtcdServer,
    etcd_prefix: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    archive = Archive(etcd_server, etcd_prefix, tmp_path, capsys)
    name = f"archive:{archive.url}"
    with Client(zketcd_server.port) as client:
        client.create(ROOT, b"before")
        for _ in range(5):
            client.create(f"{ROOT}/n", b"x", SEQUENTIAL)
        client.write(ROOT, b"after")
        wanted = seen_by(client)
        client.create(f"{ROOT}/ephemeral", b"", EPHEMERAL)
        client.write(f"{ROOT}/n0000000002", b"later")
        archive.start()
        try:
            archive.until(client.zxid)
        finally:
            archive.kill()
    at = f"0x{wanted.zxid:x}"
    target = f"{etcd_prefix}-restored"
    url = f"etcd://{etcd_server.address}{target}"
    words = ["--etcd", etcd_server.endpoint, "--prefix", target]
    assert main(["import", name, "--at", at, *words]) == 0
    assert "digest: equal" in capsys.readouterr().out
    assert main(["verify", name, url, "--at", at]) == 0
    assert main(["verify", name, url, "--json"]) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["right"] == 10
    with ZketcdServer(etcd_server.endpoint, prefix=target) as restored, Client(restored.port) as client:
        assert seen_by(client).nodes == wanted.nodes
        assert client.create(f"{ROOT}/n", b"", SEQUENTIAL) == f"{ROOT}/n0000000005"

    exported = f"parquet:{tmp_path}/table"
    assert main(["export", exported, "--archive", archive.url, "--at", at]) == 0
    assert main(["verify", name, exported, "--at", at]) == 0
    capsys.readouterr()
    assert main(["inspect", name, "--at", at, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"] == 10
