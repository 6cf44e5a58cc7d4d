"""`python -m proof.check`."""

from pathlib import Path

import pytest

from proof.check import main
from proof.history import Create, GetData, History, Reply
from proof.history.lines import to_lines


def _file(folder: Path, name: str, history: History) -> str:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in to_lines(history)))
    return str(path)


def _histories() -> tuple[History, History]:
    writer, reader = History(), History()
    writer.reply(2, writer.invoke(1, 1, Create("/a", b"1")), Reply(zxid=1, path="/a"))
    reader.reply(4, reader.invoke(3, 2, GetData("/a")), Reply(zxid=1, data=b"1"))
    return writer, reader


def test_several_files_are_one_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer, reader = _histories()
    assert main([_file(tmp_path, "writer", writer), _file(tmp_path, "reader", reader)]) == 0
    assert capsys.readouterr().out == "4 records, 0 violations\n"


def test_a_broken_promise_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, reader = _histories()
    assert main([_file(tmp_path, "reader", reader)]) == 1
    assert capsys.readouterr().out.startswith("linearizable: call 0, GetData(path='/a')")


@pytest.mark.parametrize("content", ["", "{", '{"type": "info", "time": 1, "call": 1}\n'])
def test_what_is_no_history_is_refused_in_one_line(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    assert main([str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
