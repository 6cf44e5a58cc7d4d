"""Where commands may write: what cannot be written is refused before the work begins."""

import argparse
from pathlib import Path

import pytest

from proxy.support.usage import output_file, output_folder


def test_a_file_that_can_be_written(tmp_path: Path) -> None:
    assert output_file(str(tmp_path / "new")) == tmp_path / "new"
    (tmp_path / "old").touch()
    assert output_file(str(tmp_path / "old")) == tmp_path / "old"


@pytest.mark.parametrize(
    ("name", "words"), [("", "is a folder"), ("absent/file", "there is no folder"), ("file/x", "no folder")]
)
def test_a_file_that_cannot_be_written(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(argparse.ArgumentTypeError, match=words):
        output_file(str(tmp_path / name))


def test_a_folder_need_not_be_there(tmp_path: Path) -> None:
    assert output_folder(str(tmp_path)) == tmp_path
    assert output_folder(str(tmp_path / "a" / "b")) == tmp_path / "a" / "b"
    assert not (tmp_path / "a").exists()


def test_a_folder_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(argparse.ArgumentTypeError, match="is not a folder"):
        output_folder(str(tmp_path / "file" / "a"))


def test_what_only_others_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda _path, _mode: False)  # root may write everywhere
    with pytest.raises(argparse.ArgumentTypeError, match="cannot be written"):
        output_file(str(tmp_path / "new"))
    with pytest.raises(argparse.ArgumentTypeError, match="cannot be written"):
        output_folder(str(tmp_path / "new"))
