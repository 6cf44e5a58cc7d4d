"""Backups: ZooKeeper's files, without numpy or pyarrow, and only so many of them."""

import os
import shutil
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cli.output import CommandFailed
from codec.jute import OPEN_ACL, Acl
from codec.seal import sealed_tail
from ctl import backup as module
from ctl.backup import backup
from pipeline.formats.snapshot import check_seal
from proxy.state.capture import new_machine
from proxy.state.machine import Machine
from proxy.state.node import make_node
from schema.znode import CONTAINER_OWNER
from schema.zxids import epoch_at, next_epoch
from tests.pipeline.trees import read

_NOW = datetime(2026, 11, 23, 12, 0, 0, tzinfo=UTC)


def _machine() -> Machine:
    machine = new_machine(1)
    machine.zxid = (3 << 32) + 5
    secret = (Acl(31, "digest", "bob:x"),)
    for path, data, acl, owner in (
        ("/b", None, OPEN_ACL, 0),
        ("/a", b"", secret, 0),
        ("/a/e", b"1", OPEN_ACL, 0x100),
        ("/a!", b"2", secret, CONTAINER_OWNER),
        ("/a/b", b"\xff\x00", (Acl(1, "world", "anyone"),), 0),
    ):
        machine.tree.nodes[path] = make_node(data, acl, owner, 7, 8, 9, 10, 11, 1, 2, 3)
    return machine


def _write(folder: Path, keep: int = 0, seconds: int = 0, prefix: str = "/zketcd") -> Path:
    output = backup(_machine(), prefix, 27, folder, keep, _NOW + timedelta(seconds=seconds))
    return Path(output.data["path"])


def test_a_backup_is_a_tree_of_zookeeper_without_ephemerals(tmp_path: Path) -> None:
    target = _write(tmp_path)
    assert target.name == "zketcd-20261123T120000Z"
    (file,) = (target / "version-2").iterdir()
    zxid = next_epoch(epoch_at(_NOW.timestamp()))
    assert file.name == f"snapshot.{zxid:x}.gz"
    check_seal(str(file))
    rows = {row.path: row for row in read(target)[1]}
    assert [path for path in rows if not path.startswith("/zookeeper")] == ["/", "/a", "/a!", "/a/b", "/b"]
    a = rows["/a"]
    assert (a.data, a.czxid, a.mzxid, a.pzxid, a.version, a.created, a.aversion) == (b"", 7, 8, zxid, 1, 2, 3)
    assert (rows["/b"].data, rows["/b"].pzxid, rows["/b"].acl) == (None, 9, None)
    assert (rows["/a/b"].data, rows["/a!"].owner) == (b"\xff\x00", CONTAINER_OWNER)
    assert [tuple(entry) for entry in rows["/a"].acl or ()] == [(31, "digest", "bob:x")]


def test_no_other_user_reads_a_backup(tmp_path: Path) -> None:
    former = os.umask(0o022)
    try:
        target = _write(tmp_path / "daily")
    finally:
        os.umask(former)
    (file,) = (target / "version-2").iterdir()
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (file, file.parent, target, target.parent)]
    assert modes == [0o640, 0o750, 0o750, 0o750]


def test_the_newest_stay_and_nothing_else_is_touched(tmp_path: Path) -> None:
    others = [
        _write(tmp_path, prefix="/other"),
        tmp_path / "zketcd-mine",
        tmp_path / "zketcd-20200101T000000Z",
    ]
    others[1].mkdir()
    others[2].write_text("a file")
    made = [_write(tmp_path, keep=2, seconds=n) for n in range(4)]
    assert sorted(tmp_path.iterdir()) == sorted([*others, *made[2:]])
    with pytest.raises(CommandFailed, match="is there already"):
        _write(tmp_path, seconds=3)


def test_of_two_in_one_second_one_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = iter(["the other one"])

    def meanwhile(*arguments: Any) -> bytes:
        for _ in others:
            with monkeypatch.context() as patched:
                patched.setattr(os, "getpid", lambda: 0)
                _write(tmp_path)
        return sealed_tail(*arguments)

    monkeypatch.setattr(module, "sealed_tail", meanwhile)
    with pytest.raises(CommandFailed, match="is there already"):
        _write(tmp_path)


def test_a_tree_deletes_backups_of_no_other(tmp_path: Path) -> None:
    made = [_write(tmp_path, keep=1, prefix=prefix) for prefix in ("/a/b", "a/b", "/a+b", "/a%2Bb")]
    assert len(set(made)) == len([*tmp_path.iterdir()]) == 4


@pytest.mark.parametrize("keep", [1, 2])
def test_backups_of_a_clock_that_was_ahead_are_not_counted(tmp_path: Path, keep: int) -> None:
    """They counted as the newest ones, and the backup that was just written was deleted."""
    later = [_write(tmp_path, seconds=years * 366 * 86_400) for years in (10, 11)]
    made = [_write(tmp_path, keep=keep, seconds=n) for n in range(3)]
    assert sorted(tmp_path.iterdir()) == sorted([*later, *made[-keep:]])
    output = backup(_machine(), "/zketcd", 27, tmp_path, keep, _NOW + timedelta(seconds=3))
    assert output.data["later"] == [str(each) for each in later]
    assert output.lines[-1] == f"neither counted nor deleted, as its time has not come yet: {later[-1]}"


def test_a_backup_that_fails_leaves_nothing_and_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = _write(tmp_path)

    def full(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "pack_node", full)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}'"):
        _write(tmp_path, keep=1, seconds=1)
    assert list(tmp_path.iterdir()) == [kept]


def test_what_a_killed_run_leaves_has_no_name_and_goes_a_day_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while it deletes an old backup, and while it writes one."""

    def killed(*_: object, ignore_errors: bool = False) -> None:
        if not ignore_errors or is_writing:
            raise KeyboardInterrupt

    _write(tmp_path, prefix="/zketcd/b")
    old = _write(tmp_path)
    is_writing = False
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            _write(tmp_path, keep=1, seconds=1)
        is_writing = True
        patched.setattr(module, "pack_node", killed)
        with pytest.raises(KeyboardInterrupt):
            _write(tmp_path, seconds=2)
    assert not old.exists()
    left = sorted(each.name.split("-")[0] for each in tmp_path.iterdir())
    assert left == [".partial", ".partial", "zketcd", "zketcd+b"]

    in_work = tmp_path / ".partial-zketcd-20261124T110000Z-7"
    of_another = tmp_path / ".partial-zketcd-b-20261123T110000Z-7"
    for each in (in_work, of_another):
        each.mkdir()
    newest = _write(tmp_path, keep=1, seconds=86_500)
    stays = {newest, in_work, of_another, next(tmp_path.glob("zketcd+b-*"))}
    assert set(tmp_path.iterdir()) == stays


@pytest.mark.long
def test_it_needs_neither_numpy_nor_pyarrow() -> None:
    program = (
        "import sys, ctl.main, ctl.backup\n"
        "sys.exit(bool({'numpy', 'pyarrow', 'pipeline'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
