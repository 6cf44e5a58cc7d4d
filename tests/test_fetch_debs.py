"""tools/fetch_debs.py: pinned Debian packages, unpacked without root."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from lab.servers.process import REPOSITORY

_MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


class Checkout:
    """A checkout with pins of its own, and an archive of packages that hold one file each."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / ".cache"
        self._archive = folder / "archive"
        self._pins = folder / "requirements" / "debs.txt"
        self._script = folder / "tools" / "fetch_debs.py"
        for parent in (self._archive, self._pins.parent, self._script.parent):
            parent.mkdir()
        shutil.copy(REPOSITORY / "tools" / "fetch_debs.py", self._script)

    def add(self, name: str, package: str, *, sha256: str = "", architecture: str = _MACHINE) -> Path:
        """Pin a package under a name; returns its file in the archive."""
        file = self._archive / f"{package}_1.0-1_{architecture}.deb"
        content = self._archive / package
        content.write_text("what it holds\n")
        member = self._archive / "data.tar.xz"
        with tarfile.open(member, "w:xz") as packed:
            packed.add(content, f"./usr/share/{package}")
        # ar(5): what `dpkg-deb --build` writes, without the files of control.tar.
        with tarfile.open(self._archive / "control.tar.xz", "w:xz"):
            pass
        file.write_bytes(b"!<arch>\n")
        (self._archive / "debian-binary").write_bytes(b"2.0\n")
        for part in ("debian-binary", "control.tar.xz", "data.tar.xz"):
            data = (self._archive / part).read_bytes()
            header = f"{part:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode()
            with file.open("ab") as archive:
                archive.write(header + data + b"\n" * (len(data) % 2))
        digest = sha256 or hashlib.sha256(file.read_bytes()).hexdigest()
        with self._pins.open("a") as pins:
            pins.write(f"# what it is for\n{name} {digest} {file.name}\n")
        return file

    def fetch(self, *arguments: str, path: str = os.environ["PATH"]) -> tuple[int, str]:
        """The exit status and what was said."""
        environment = {"PATH": path, "DEBIAN_ARCHIVE": self._archive.as_uri()}
        command = [sys.executable, str(self._script), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


# What unpacks where there is no dpkg: a bare Debian has no xz.
_UNPACKERS = ("tar", "xz")
needs_unpackers = pytest.mark.skipif(not all(map(shutil.which, _UNPACKERS)), reason="tar and xz are needed")


@pytest.mark.parametrize("dpkg", [True, pytest.param(False, marks=needs_unpackers)])
def test_all_packages_of_a_name_are_unpacked(dpkg: bool, checkout: Checkout, tmp_path: Path) -> None:
    checkout.add("both-1", "one")
    checkout.add("both-1", "other", architecture="all")
    path = os.environ["PATH"]
    if not dpkg:
        path = str(tmp_path / "bin")
        Path(path).mkdir()
        for program in _UNPACKERS:
            found = shutil.which(program)
            assert found is not None
            Path(path, program).symlink_to(found)
    assert checkout.fetch("both-1", path=path) == (0, "fetching both-1\n")
    for package in ("one", "other"):
        assert (checkout.cache / "both-1" / "usr" / "share" / package).read_text() == "what it holds\n"
    assert [child.name for child in checkout.cache.iterdir()] == ["both-1"]
    assert checkout.fetch("both-1", path=path) == (0, "")


def test_the_next_name_is_taken_where_a_file_has_left_the_archive(checkout: Checkout) -> None:
    newer = checkout.add("program-2", "newer")
    checkout.add("program-1", "older")
    newer.unlink()
    status, said = checkout.fetch("program-2", "program-1")
    assert status == 0
    assert re.search(r"^program-2 cannot be had: newer: .*\nfetching program-1$", said, re.MULTILINE)
    assert [child.name for child in checkout.cache.iterdir()] == ["program-1"]
    assert checkout.fetch("--check") == (1, re.findall(r"^program-2 cannot.*\n", said, re.MULTILINE)[0])
    assert checkout.fetch("program-2")[0] == 1


def test_another_file_than_the_pinned_one_is_refused(checkout: Checkout) -> None:
    checkout.add("program-1", "one", sha256="0" * 64)
    status, said = checkout.fetch("program-1")
    assert status == 1
    assert "000 is pinned" in said
    assert list(checkout.cache.iterdir()) == []


def test_a_package_for_other_machines_is_named(checkout: Checkout) -> None:
    checkout.add("program-1", "one", architecture="z80")
    assert checkout.fetch("program-1")[1].endswith(f"cannot be had: no one is pinned for {_MACHINE}\n")


def test_a_name_without_a_pin_is_refused(checkout: Checkout) -> None:
    checkout.add("program-1", "one")
    for arguments in ((), ("program-2",), ("program-1", "program-2")):
        assert checkout.fetch(*arguments) == (2, "usage: fetch_debs.py --check | NAME...\nnames: program-1\n")


def test_every_pin_is_a_hash_and_a_file() -> None:
    lines = [
        line
        for line in (REPOSITORY / "requirements" / "debs.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert lines
    for line in lines:
        assert re.fullmatch(r"[a-z0-9.-]+  [0-9a-f]{64}  pool/\S+_\S+_(amd64|arm64|all)\.deb", line)
