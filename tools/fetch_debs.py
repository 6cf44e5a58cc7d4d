"""Unpack pinned Debian packages into .cache, without root and without installing anything.

    tools/fetch_debs.py etcd-3.5.30 etcd-3.5.16    the first of these that can be had, into .cache/NAME
    tools/fetch_debs.py --check                    whether the archive still has a file for every name

requirements/debs.txt has the files and their hashes. They are asked of each archive that apt is configured
for, by apt's own downloader, so that its proxies and credentials count. DEBIAN_ARCHIVE, a URL, replaces these
archives; it is needed where there is no apt.

The exit status is 1 if no name can be had, or if --check misses a file; stderr says why.
"""

import functools
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


@functools.cache
def archives() -> list[str]:
    """URLs of the archives to ask. Raises Unavailable if none is known."""
    given = os.environ.get("DEBIAN_ARCHIVE")
    if given:
        return [given]
    if not Path(_APT_HELPER).exists():
        raise Unavailable("this system has no apt: set DEBIAN_ARCHIVE to the URL of a Debian archive")
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = sorted(set(listed.split()))
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
        for deb in _download(_by_package(pins), Path(scratch)):
            unpack(deb, content)
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


def _download(packages: Mapping[str, Sequence[Pin]], folder: Path) -> list[Path]:
    """Write a build of each package, the first that an archive has, into `folder`. Raises Unavailable."""
    missing = dict(packages)
    found = []
    reasons: dict[str, None] = {}  # each once, in their order: most archives and files have the same
    for archive in archives():
        urls = {
            folder / pin.sha256: f"{archive.rstrip('/')}/{pin.path}"
            for builds in missing.values()
            for pin in builds
        }
        reasons |= dict.fromkeys(_request(urls))
        for package, builds in list(missing.items()):
            for pin in builds:
                file = folder / pin.sha256
                if not file.exists():
                    continue
                with file.open("rb") as content:
                    digest = hashlib.file_digest(content, "sha256").hexdigest()
                if digest == pin.sha256:
                    found.append(file)
                    del missing[package]
                    break
                reasons[f"its SHA-256 is {digest}, and {pin.sha256} is pinned"] = None
                file.unlink()
        if not missing:
            return found
    raise Unavailable(f"{', '.join(missing)}: {'; '.join(reasons)}")


def _request(urls: Mapping[Path, str]) -> Iterator[str]:
    """Write each file from its URL, all of them in one call of apt; the reasons why some could not be had."""
    if Path(_APT_HELPER).exists():
        options = ["-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=1"]
        command = [_APT_HELPER, *options, "download-file"]
        for file, url in urls.items():
            command += [url, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            failed = re.findall(r"^E: Failed to fetch \S+\s+(.*?)(?: \[IP: .*)?$", done.stderr, re.MULTILINE)
            yield from failed or [done.stderr.strip()]
        return
    for file, url in urls.items():
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response, file.open("wb") as content:
                shutil.copyfileobj(response, content)
        except OSError as error:
            yield str(error)


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
