"""What cannot be moved is refused before anything is written; no proxy serves a partial import."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lab.oracle.client import Client
from lab.oracle.requests import GetData
from lab.servers import EtcdServer, StartFailed, wait_until
from lab.servers.process import REPOSITORY
from pipeline.batches import of_rows
from pipeline.etcd.load import Target, target_of
from pipeline.etcd.options import Connection
from pipeline.table import ZNODES, ZnodeRow
from tests.pipeline.ensembles import zketcd
from tests.pipeline.etcd.rows import FIXED
from tests.pipeline.follow.histories import creates
from tests.pipeline.trees import SAMPLES, node, write_log, write_parquet, write_snapshot
from zketcd.__main__ import main

ROOT = node("/", 0, created=1)


@pytest.fixture
def target(etcd_server: EtcdServer, etcd_prefix: str) -> Connection:
    return Connection(etcd_server.endpoint, etcd_prefix)


def run(source: str, target: Connection, *arguments: str) -> int:
    return main(["import", source, "--etcd", target.etcd, "--prefix", target.prefix, *arguments])


def state(target: Connection) -> Target:
    """What lies under the prefix."""

    async def ask() -> Target:
        async with target.client() as etcd:
            return await target_of(etcd, target.keys)

    return asyncio.run(ask())


def _own(found: Target) -> Target:
    """Without etcd's revision: it also counts what others do there, such as leases that end."""
    return found._replace(revision=0)


def table(folder: Path, *nodes: ZnodeRow) -> str:
    """A table of znodes with a root; returns it as a source."""
    return write_parquet(folder / "znodes", ROOT, *nodes)


def test_nodes_that_zketcd_cannot_hold(
    target: Connection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = table(
        tmp_path, node("/large", data=bytes(1536 * 1024)), node("/a\u0001b"), node("/good", data=b"x")
    )
    assert run(source, target) == 1
    told = capsys.readouterr().out
    assert "refused: 2 znodes that zketcd cannot store" in told
    assert "refused: '/large': its 1572864 bytes of data exceed" in told
    assert r"refused: '/a\x01b': ZooKeeper allows no such path" in told
    assert state(target).keys == 0


def test_a_large_tree_where_no_temporary_file_can_be_made(
    target: Connection, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a read-only root: it is found before the tree that is there is deleted."""
    source = table(tmp_path, node("/a"))
    assert run(source, target) == 0
    before = state(target)
    monkeypatch.setattr("pipeline.etcd.publish._IN_MEMORY", 0)
    monkeypatch.setattr(tempfile, "tempdir", "/proc")
    assert run(source, target, "--overwrite") == 2
    assert "a tree of this size needs temporary files: /proc cannot be written to" in capsys.readouterr().err
    assert _own(state(target)) == _own(before)
    assert run(source, target, "--overwrite", "--work-dir", str(tmp_path)) == 0


def test_a_snapshot_amid_transactions_whose_logs_are_missing(
    target: Connection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Servers before 3.6 write no trailer that says so; a znode above the last zxid does."""
    write_snapshot(tmp_path, 5, [ROOT, node("/a", 7)])
    assert run(str(tmp_path), target) == 1
    assert "refused: a znode has zxid 0x7, and the source ends at 0x5" in capsys.readouterr().out
    assert state(target).keys == 0
    assert main(["verify", str(tmp_path), str(tmp_path)]) == 2
    assert "a znode has zxid 0x7, and the logs end at 0x5" in capsys.readouterr().err
    assert main(["follow", str(tmp_path), "--etcd", target.etcd, "--prefix", target.prefix]) == 2
    assert run(str(tmp_path), target, "--accept-changes") == 0


def test_a_follower_whose_log_does_not_go_on(
    target: Connection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    follow = ["follow", str(tmp_path), "--etcd", target.etcd, "--prefix", target.prefix, "--until-level"]
    write_snapshot(tmp_path / "version-2", 0, [*FIXED, ROOT])
    write_log(tmp_path / "version-2", *creates(1, 5))
    assert main(follow) == 0
    write_log(tmp_path / "version-2", *creates(8, 2))
    assert main([*follow, "--log-timeout", "0"]) == 1
    assert "stopped at zxid 0x5: " in capsys.readouterr().err


def test_zxids_without_an_epoch_above_them(
    target: Connection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was there stays, though it may be overwritten: the refusal comes before the target is cleared."""
    assert run(table(tmp_path, node("/a")), target) == 0
    before = state(target)
    write_snapshot(tmp_path / "version-2", 0x7FFFFFFF_00000005, [ROOT, node("/b")])
    for arguments in (["--dry-run"], []):
        assert run(str(tmp_path), target, "--overwrite", *arguments) == 2
        assert "there is no epoch of zxids above 0x7fffffff00000005" in capsys.readouterr().err
    assert _own(state(target)) == _own(before)


def test_a_table_that_is_no_tree(
    target: Connection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(table(tmp_path, node("/a/b"), node("/c")), target) == 2
    assert "/a/b is in the table, but its parent /a is not" in capsys.readouterr().err
    rows = pa.Table.from_batches(of_rows([ROOT]), ZNODES)
    (tmp_path / "t").mkdir()
    at = rows.schema.get_field_index("data")
    pq.write_table(rows.set_column(at, "data", pa.array(["text"])), tmp_path / "t" / "0.parquet")
    assert run(f"parquet:{tmp_path / 't'}", target) == 2
    assert "t is no table of znodes: data is not of binary" in capsys.readouterr().err
    write_snapshot(tmp_path / "version-2", 0x20, [])
    assert run(str(tmp_path), target) == 2
    assert "the source has 0 rows for /" in capsys.readouterr().err
    assert run("zk://127.0.0.1:99999", target) == 2
    assert state(target).keys == 0


def test_a_digest_that_differs(
    target: Connection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zxid, wrong = (0x20).to_bytes(8, "big"), bytes(7) + b"\1"
    write_snapshot(tmp_path / "version-2", 0x20, [ROOT, node("/a")], trailers=[zxid + b"\0\0\0\2" + wrong])
    assert run(str(tmp_path), target, "--dry-run") == 1
    assert "refused: the tree's digest" in capsys.readouterr().out
    assert run(str(SAMPLES / "zk39-posixlocale"), target, "--dry-run") == 0
    assert "digest: equal" in capsys.readouterr().out


_NODES = 12_000


def test_an_import_that_is_killed(target: Connection, etcd_server: EtcdServer, tmp_path: Path) -> None:
    random = Random(5)  # what cannot be compressed takes its time
    source = table(tmp_path, *(node(f"/n{number}", data=random.randbytes(4096)) for number in range(_NODES)))
    command = [sys.executable, "-m", "zketcd", "import", source, "--etcd", target.etcd]
    with (tmp_path / "log").open("wb") as log:
        running = subprocess.Popen(
            [*command, "--prefix", target.prefix, "--max-txn-ops", "1"],
            cwd=REPOSITORY,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            wait_until(lambda: state(target).keys > 10, "some pages are written", timeout=240)
            running.kill()
        finally:
            os.killpg(running.pid, signal.SIGKILL)  # Spark's JVM, if we never got there
            running.wait()
    found = state(target)
    assert found.record is not None
    assert not found.record.complete
    with pytest.raises(StartFailed, match="is not complete"), zketcd(target.etcd, target.prefix):
        pass
    assert run(source, target) == 0
    assert state(target).nodes == _NODES + 4  # and the fixed nodes
    with zketcd(target.etcd, target.prefix) as server:
        client = Client(server.port)
        client.do(GetData(f"/n{_NODES - 1}"))
        client.close()


@pytest.mark.real
def test_an_etcd_without_room_for_another_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would be full for the tree that is served there, too; what a load deletes is not free at once."""
    random = Random(1)
    source = table(tmp_path, *(node(f"/{number}", data=random.randbytes(100_000)) for number in range(80)))
    with EtcdServer(f"--quota-backend-bytes={17 << 20}") as etcd:
        served = Connection(etcd.endpoint, "/served")
        assert run(source, served) == 0
        before = state(served)
        for prefix, *more in (("/served", "--overwrite"), ("/rehearsal",), ("/rehearsal", "--dry-run")):
            assert run(source, Connection(etcd.endpoint, prefix), *more) == 2
            told = capsys.readouterr()
            assert "etcd has no room: the tree takes about 9 MiB" in told.err
            assert "of 17 MiB are in use, and 2 MiB are kept free for the proxies" in told.err
            assert "target: free" not in told.out
        assert state(served) == before
