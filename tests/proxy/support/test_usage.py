"""Where commands may write: what cannot be written is refused before the work begins."""

import argparse
from pathlib import Path

import pytest

from proxy.support.usage import Parser, output_file


def test_what_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    for name in ("new", "old"):
        assert output_file(str(tmp_path / name)) == tmp_path / name


@pytest.mark.parametrize(
    ("name", "words"), [("", "is a folder"), ("absent/file", "there is no folder"), ("file/x", "no folder")]
)
def test_what_cannot_be_written(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(argparse.ArgumentTypeError, match=words):
        output_file(str(tmp_path / name))


def test_what_only_others_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda _path, _mode: False)  # root may write everywhere
    with pytest.raises(argparse.ArgumentTypeError, match="cannot be written"):
        output_file(str(tmp_path / "new"))


def test_an_option_behind_an_inner_command_is_not_called_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    parser = Parser(prog="x")
    parser.add_argument("--etcd")
    parser.add_subparsers(parser_class=Parser).add_parser("ls")
    with pytest.raises(SystemExit):
        parser.parse_args(["ls", "--etcd", "y"])
    assert "unrecognized arguments: --etcd (give it before the inner command)" in capsys.readouterr().err
