"""Folders that cannot be written to or read are refused at once, with a reason."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline.batches import batch_of
from pipeline.buckets import Buckets
from pipeline.folders import check_writable
from pipeline.job import Writer
from pipeline.sources.parquet import ParquetWriter
from pipeline.sources.zookeeper_sink import ZooKeeperWriter, options_of
from pipeline.table import ZNODES
from tests.pipeline.trees import node, write_parquet
from zketcd.__main__ import main

_SHUT = "/proc"  # tests may run as root, which may write everywhere but in such file systems


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line of a command that fails."""
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


def test_a_table_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_parquet(tmp_path / "shut", node("/", 0))

    def refused(path: Any = ".") -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "listdir", refused)
    monkeypatch.setattr(os, "scandir", refused)
    # Its answer for such a directory; from Python 3.13 it does not look `scandir` up.
    monkeypatch.setattr(Path, "rglob", lambda *_: iter(()))
    for words in (["inspect", table], ["inspect", table, "--traffic", "--spark"]):
        assert f"{tmp_path / 'shut'}: Permission denied" in told(capsys, *words)


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's error for a write does not say where."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    batch = batch_of([node("/", 0)])
    with Buckets(most=0, folder=str(tmp_path)) as buckets, monkeypatch.context() as patch:
        patch.setattr(pa.ipc, "new_stream", full)
        with pytest.raises(OSError, match="No space left on device") as raised:
            buckets.add([(0, batch)])
        assert raised.value.filename.startswith(str(tmp_path))
    writer = ZooKeeperWriter(options_of({}, str(tmp_path / "new"), False), ZNODES.names)
    parts = [writer.write(iter([batch]))]
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="new/version-2"):
        writer.commit(parts)


def test_nothing_stays(tmp_path: Path) -> None:
    check_writable(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="file is not a directory"):
        check_writable(tmp_path / "file" / "a")
    with pytest.raises(ValueError, match=f"{_SHUT} cannot be written to"):
        check_writable(Path(_SHUT) / "new" / "data")


def test_what_a_killed_export_has_left_goes_a_day_later(tmp_path: Path) -> None:
    for name in ("data/version-2/.export", ".table"):
        left = tmp_path / f"{name}-{'0' * 32}"
        left.mkdir(parents=True)
        (left / "part").touch()
        os.utime(left, (1, 1))
        left.with_name(f"{left.name[:-1]}1").mkdir()  # of one that is under way
    writers: list[Writer] = [
        ZooKeeperWriter(options_of({}, str(tmp_path / "data"), False), ZNODES.names),
        ParquetWriter(str(tmp_path / "table")),
    ]
    for writer in writers:
        writer.commit([writer.write(iter([batch_of([node("/", 0)])]))])
    hidden = [path.name[-1] for path in tmp_path.glob("**/.*")]
    assert hidden == ["1", "1"]
