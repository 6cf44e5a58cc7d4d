"""The options of access to etcd: which go together, and what a file with a password may be."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.options.etcd import DEFAULTS, EtcdAccess, check, read_password
from tests.table import one_by_one


def _access(**given: str) -> EtcdAccess:
    return replace(DEFAULTS, **given)


def _refuses(file: Path, said: str) -> None:
    expected = f"^--etcd-password-file {file}: {said}$"
    with pytest.raises(ValueError, match=expected):
        read_password(str(file))
    with pytest.raises(ValueError, match=expected):
        check(_access(user="me", password_file=str(file)), ())


@one_by_one(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (b"\n", "it is empty"),
        (b"\xef\xbb\xbf\n", "it is empty"),
        (b"a\nhunter2\n", "it has more than one line"),
        (b"hunter2\n\n", "it has more than one line"),
        (b"hunter2\xff", "it is not UTF-8"),
        ("hunter2".encode("utf-16"), "it is not UTF-8"),
        (b"x" * 4097, "it has more than 4096 bytes"),
    ],
)
def test_a_file_without_a_password(content: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(content)
    _refuses(file, said)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "No such file or directory"),
        (Path.mkdir, "it is not a regular file"),
        (os.mkfifo, "it is not a regular file"),  # without a writer open() waits for ever
        (lambda path: path.symlink_to("/dev/zero"), "it is not a regular file"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
    ],
)
def test_what_is_not_a_file(make: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    make(file)
    _refuses(file, said)


@pytest.mark.parametrize(
    "content", [" a b\u00fc:", " a b\u00fc:\n", " a b\u00fc:\r\n", "\ufeff a b\u00fc:\r\n"]
)
def test_the_end_of_the_line_is_not_part_of_the_password(content: str, tmp_path: Path) -> None:
    """Nor is a byte order mark. The locale decides nothing."""
    file = tmp_path / "password"
    file.write_bytes(content.encode())
    assert read_password(str(file)) == " a b\u00fc:"


@pytest.mark.parametrize(
    ("user", "password", "said"),
    [
        ("me\udcff", "word", "--etcd-user: it is not UTF-8"),
        ("me", "word\udcff", "--etcd-password: it is not UTF-8"),
    ],
)
def test_words_that_etcd_does_not_take(user: str, password: str, said: str) -> None:
    """Python reads such bytes of a command line as surrogates."""
    with pytest.raises(ValueError, match=f"^{said}$"):
        check(_access(user=user, password=password), ("http://e:1",))
