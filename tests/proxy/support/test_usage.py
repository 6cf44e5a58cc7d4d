"""Where commands may write: what cannot be written is refused before the work begins."""

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.support.usage import Parser, output_file, output_folder


def test_what_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    for name in ("new", "old"):
        assert output_file(str(tmp_path / name)) == tmp_path / name
    for folder in (tmp_path, tmp_path / "a" / "b"):
        assert output_folder(str(folder)) == folder
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("check", "name", "words"),
    [
        (output_file, "", "is a folder"),
        (output_file, "absent/file", "there is no folder"),
        (output_file, "file/x", "no folder"),
        (output_folder, "file/a", "is not a folder"),
    ],
)
def test_what_cannot_be_written(check: Callable[[str], Path], name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(argparse.ArgumentTypeError, match=words):
        check(str(tmp_path / name))


@pytest.mark.parametrize("check", [output_file, output_folder])
def test_what_only_others_may_write(
    check: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda _path, _mode: False)  # root may write everywhere
    with pytest.raises(argparse.ArgumentTypeError, match="cannot be written"):
        check(str(tmp_path / "new"))


def test_an_option_behind_an_inner_command_is_not_called_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    parser = Parser(prog="x")
    parser.add_argument("--etcd")
    parser.add_subparsers(parser_class=Parser).add_parser("ls")
    with pytest.raises(SystemExit):
        parser.parse_args(["ls", "--etcd", "y"])
    assert "unrecognized arguments: --etcd (give it before the inner command)" in capsys.readouterr().err
