"""Unpack pinned Debian packages into .cache, without root and without installing anything.

    tools/fetch_debs.py etcd-3.5.30 etcd-3.5.16    the first of these that can be had, into .cache/NAME
    tools/fetch_debs.py --check                    whether the archive still has a file for every name

requirements/debs.txt has the files and their hashes. They are asked of each archive that apt is configured
for, by apt's own downloader, so that its proxies and credentials count. DEBIAN_ARCHIVE, a URL, replaces these
archives; it is needed where there is no apt.

The exit status is 1 if no name can be had, or if --check misses a file; stderr says why.
"""

import getpass
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).resolve().parents[1]
_PINS = _ROOT / "requirements" / "debs.txt"
_CACHE = _ROOT / ".cache"
_APT_HELPER = "/usr/lib/apt/apt-helper"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_TIMEOUT_S = 60.0


class Unavailable(Exception):
    """A package cannot be had here; the message says why."""


class Pin(NamedTuple):
    """One file of an archive: a build of `package` for `architecture`, which .cache/`name` needs."""

    name: str
    sha256: str
    path: str

    @property
    def package(self) -> str:
        """As in etcd-server_3.5.30-2_amd64.deb."""
        return self.path.rpartition("/")[2].partition("_")[0]

    @property
    def architecture(self) -> str:
        """As Debian calls it; "all" for a package without machine code."""
        return self.path.rpartition("_")[2].removesuffix(".deb")


def read_pins(text: str) -> dict[str, list[Pin]]:
    """Pins by name, in the order of the text."""
    pins: dict[str, list[Pin]] = defaultdict(list)
    for line in text.splitlines():
        if line and not line.startswith("#"):
            pin = Pin(*line.split())
            pins[pin.name].append(pin)
    return dict(pins)


def archives() -> list[str]:
    """URLs of the archives to ask. Raises Unavailable if none is known."""
    given = os.environ.get("DEBIAN_ARCHIVE")
    if given:
        return [given]
    if not Path(_APT_HELPER).exists():
        raise Unavailable("this system has no apt: set DEBIAN_ARCHIVE to the URL of a Debian archive")
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = sorted(set(told.split()))
    if not found:
        raise Unavailable("apt is configured for no archive")
    return found


def fetch(pins: Sequence[Pin], folder: Path) -> None:
    """Unpack every package of `pins` into `folder`, which is there afterwards in full or not at all.

    Raises Unavailable.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetching-") as scratch:
        content = Path(scratch, "content")
        content.mkdir()
        for builds in _by_package(pins).values():
            deb = Path(scratch, "deb")
            _download_one_of(builds, deb)
            unpack(deb, content)
            deb.unlink()
        content.rename(folder)


def _by_package(pins: Sequence[Pin]) -> Mapping[str, list[Pin]]:
    """The builds of each package that run on this machine. Raises Unavailable for a package without any."""
    machine = _ARCHITECTURES.get(platform.machine(), platform.machine())
    packages: dict[str, list[Pin]] = {pin.package: [] for pin in pins}
    for pin in pins:
        if pin.architecture in (machine, "all"):
            packages[pin.package].append(pin)
    for package, builds in packages.items():
        if not builds:
            raise Unavailable(f"no {package} is pinned for {machine}")
    return packages


def _download_one_of(builds: Sequence[Pin], target: Path) -> None:
    """Write the first that an archive has. Raises Unavailable."""
    reasons: dict[str, None] = {}  # each once, in their order: most archives say the same
    for pin in builds:
        for archive in archives():
            try:
                _download(f"{archive.rstrip('/')}/{pin.path}", target)
                _verify(target, pin)
            except Unavailable as error:
                reasons[str(error)] = None
            else:
                return
    raise Unavailable(f"{builds[0].package}: {'; '.join(reasons)}")


def _download(url: str, target: Path) -> None:
    if not Path(_APT_HELPER).exists():
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response, target.open("wb") as file:
                shutil.copyfileobj(response, file)
        except OSError as error:
            raise Unavailable(str(error)) from None
        return
    options = ["-o", f"APT::Sandbox::User={getpass.getuser()}", "-o", "Acquire::Retries=1"]
    command = [_APT_HELPER, *options, "download-file", url, str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = re.search(r"^E: Failed to fetch \S+\s+(.*?)(?: \[IP: .*)?$", done.stderr, re.MULTILINE)
        raise Unavailable(reason[1] if reason else done.stderr.strip())


def _verify(file: Path, pin: Pin) -> None:
    with file.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if found != pin.sha256:
        raise Unavailable(f"its SHA-256 is {found}, and {pin.sha256} is pinned")


def unpack(deb: Path, folder: Path) -> None:
    """Unpack the files of a package into `folder`, as `dpkg-deb --extract`, also where there is no dpkg."""
    if shutil.which("dpkg-deb"):
        subprocess.run(["dpkg-deb", "--extract", deb, folder], check=True)
        return
    for member, content in _members(deb.read_bytes()):
        if member.startswith("data.tar"):
            archive = deb.with_name(member)
            archive.write_bytes(content)
            subprocess.run(["tar", "--extract", "--file", archive, "--directory", folder], check=True)
            archive.unlink()


def _members(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Names and contents of what an `ar` archive holds (see ar(5)): what a .deb is."""
    offset = len(b"!<arch>\n")
    while offset < len(archive):
        header = archive[offset : offset + 60]
        size = int(header[48:58])
        offset += len(header)
        yield header[:16].decode().rstrip("/ "), archive[offset : offset + size]
        offset += size + size % 2


def _check(pins: Mapping[str, Sequence[Pin]]) -> int:
    gone = 0
    for name, files in pins.items():
        with tempfile.TemporaryDirectory() as scratch:
            try:
                fetch(files, Path(scratch, name))
            except Unavailable as error:
                print(f"{name} cannot be had: {error}", file=sys.stderr)
                gone += 1
    return min(gone, 1)


def main(arguments: Sequence[str]) -> int:
    """The exit status."""
    pins = read_pins(_PINS.read_text())
    if arguments == ["--check"]:
        return _check(pins)
    if not arguments or not pins.keys() >= set(arguments):
        print(f"usage: fetch_debs.py --check | NAME...\nnames: {' '.join(pins)}", file=sys.stderr)
        return 2
    for name in arguments:
        if (_CACHE / name).exists():
            return 0
        print(f"fetching {name}", file=sys.stderr)
        try:
            fetch(pins[name], _CACHE / name)
        except Unavailable as error:
            print(f"{name} cannot be had: {error}", file=sys.stderr)
        else:
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
