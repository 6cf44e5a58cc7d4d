"""The file of users, and what is wrong with one."""

from pathlib import Path

import pytest

from console.people.passwords import is_right, line, make, read
from tests.table import one_by_one

_SECRET = make("correct horse")
_LINE = line("amy", _SECRET)


def test_a_password_is_right_or_not() -> None:
    secret = make("correct hörse \U0001f40e")
    assert is_right("correct hörse \U0001f40e", secret)
    assert not is_right("correct horse", secret)
    assert not is_right("correct horse", None)
    assert make("correct horse").hash != _SECRET.hash  # salted


@pytest.mark.parametrize("password", ["", "seven77", "x" * 1025])
def test_a_password_has_a_length(password: str) -> None:
    with pytest.raises(ValueError, match="8 to 1024 characters"):
        make(password)


@one_by_one("name", ["", "a b", "a:b", "x" * 65, "ä", "-a", "a\nb"])
def test_a_name_that_is_none(name: str) -> None:
    with pytest.raises(ValueError, match="is no user's name"):
        line(name, _SECRET)


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text(f"# the operators\n\n{_LINE}\n{_LINE.replace('amy', 'ben@example', 1)}\n")
    users = read(str(file))
    assert list(users) == ["amy", "ben@example"]
    assert users["amy"] == _SECRET


@one_by_one(
    ("content", "words"),
    [
        (b"", "names no user"),
        (b"# nobody\n", "names no user"),
        (b"amy:secret\n", "line 1: it is not NAME:scrypt:"),
        (b"\xff\n", "it is not UTF-8"),
        (f"{_LINE}\n{_LINE}\n".encode(), "line 2: the user amy is there twice"),
        (_LINE.replace("16384", "1024").encode(), "too weak"),
        (_LINE.replace("16384", "16777216").encode(), "too much memory"),
        (_LINE.replace("16384", "many").encode(), "a number or the base64"),
        (_LINE.replace("=", "!").encode(), "a number or the base64"),
        (b"a" * 100_000, "line 1"),
    ],
    ids=range(10),  # the line has a salt, and tests must have the same names in every process
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "users"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=words) as raised:
        read(str(file))
    assert str(file) in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No such file"):
        read(str(tmp_path / "none"))


def test_a_file_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="/dev/zero: it has more than 16777216 bytes"):
        read("/dev/zero")
