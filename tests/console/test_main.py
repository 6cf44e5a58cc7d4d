"""`zketcd console-user`."""

import io
from pathlib import Path
from unittest import mock

import pytest

from console.people.passwords import is_right, read
from zketcd.__main__ import main


def _typed(*passwords: str | type[Exception]) -> int:
    with mock.patch("sys.stdin") as terminal, mock.patch("getpass.getpass", side_effect=passwords):
        terminal.isatty.return_value = True
        return main(["console-user", "amy"])


def test_the_printed_line_is_what_the_server_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with mock.patch("sys.stdin", io.StringIO("correct horse\nsecond line\n")):
        assert main(["console-user", "amy"]) == 0
    assert _typed("other horse", "other horse") == 0
    file = tmp_path / "users"
    piped, typed = capsys.readouterr().out.splitlines()
    for line, password in ((piped, "correct horse"), (typed, "other horse")):
        file.write_text(line)
        assert is_right(password, read(str(file))["amy"])


@pytest.mark.parametrize("passwords", [("short", "short"), ("one password", "another one"), (EOFError,)])
def test_what_cannot_be_used_is_said_in_one_line(
    passwords: tuple[str | type[Exception], ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        _typed(*passwords)
    assert ended.value.code == 2
    assert "zketcd console-user: error: " in capsys.readouterr().err.splitlines()[-1]
    with mock.patch("sys.stdin", io.StringIO("")), pytest.raises(SystemExit):
        main(["console-user", "amy"])


def test_a_name_that_cannot_be_is_refused_before_a_password_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with mock.patch("sys.stdin") as terminal, mock.patch("getpass.getpass") as asked:
        terminal.isatty.return_value = True
        with pytest.raises(SystemExit) as ended:
            main(["console-user", "a:b"])
    assert ended.value.code == 2
    assert "'a:b' is no user's name" in capsys.readouterr().err
    asked.assert_not_called()
    terminal.readline.assert_not_called()
