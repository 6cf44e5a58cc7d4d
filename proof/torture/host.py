"""What a process believes about its host: a date that jumps, and a disk that is small."""

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

_DISK = 512 << 20  # bytes: two segments of etcd's write-ahead log and a database of the quota, twice
_MNT_DETACH = 2
_NAME = b"zketcd-torture"


class Abilities(NamedTuple):
    """What this machine can do; each "" is possible, another text says why not."""

    clocks: str
    disks: str


def abilities() -> Abilities:
    """What this machine can do."""
    return Abilities(
        "" if faketime_library() else "faketime is not installed (make setup-test)",
        "" if _may_mount() else "only root may mount a small file system",
    )


class HostClock:
    """The date of one process, which may be set while it runs, if libfaketime is there."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self.set(0)

    def environment(self) -> Mapping[str, str]:
        """The wall clock is the library's; the monotonic clock stays."""
        library = faketime_library()
        if not library:
            return {}
        return {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, seconds: int) -> None:
        """The host's date is ahead by this, or behind; it shows within a second."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}\n")
        fresh.replace(self._file)


@cache
def faketime_library() -> str:
    """What `faketime` preloads for programs with threads; "" if it is not installed."""
    program = shutil.which("faketime")
    if program is None:
        return ""
    command = [program, "-m", "-f", "+0", "printenv", "LD_PRELOAD"]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()


def give_disk(folder: Path) -> Callable[[], object]:
    """A small file system of its own for a server's data; returns what removes it. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    target = os.fsencode(folder)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(_NAME, target, b"tmpfs", 0, f"size={_DISK},mode=700".encode()):
        raise OSError(ctypes.get_errno(), f"cannot mount on {folder}")
    return lambda: libc.umount2(target, _MNT_DETACH)


def _may_mount() -> bool:
    """Whether this process may mount; in a container root often may not."""
    with tempfile.TemporaryDirectory(prefix="zketcd-torture-") as folder:
        libc = ctypes.CDLL(None, use_errno=True)
        target = os.fsencode(folder)
        if libc.mount(_NAME, target, b"tmpfs", 0, b"size=65536"):
            return False
        libc.umount2(target, _MNT_DETACH)
        return True
