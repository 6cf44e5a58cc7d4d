"""A root of its own to install a package into: Debian's programs, but an empty /etc, /opt, /var and /home.

`/usr` is this machine's with a layer above it that takes what is written; it is mounted for each command, in
a mount namespace that ends with the command. So nothing of this machine is changed or left mounted.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
# As base-files, base-passwd and dpkg make them.
_FOLDERS = (
    *("dev", "etc", "opt", "proc", "run", "tmp", "usr", "var/cache", "var/log"),
    *("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"),
)
_KNOWN = tuple(f"Package: {name}\n" for name in ("adduser", "libc6", "libstdc++6", _PYTHON))
_USERS = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
_GROUPS = "root:x:0:\nnogroup:x:65534:\n"
_MOUNTS = """set -e
mount -t overlay overlay -o "lowerdir=/usr,upperdir=$1/upper,workdir=$1/work" "$1/tree/usr"
mount --rbind /dev "$1/tree/dev"
mount -t proc proc "$1/tree/proc"
root=$1/tree
shift
exec chroot "$root" "$@"
"""


def obstacle() -> str:
    """Why there can be no clean root here; "" if there can."""
    if os.geteuid() != 0:
        return "only root may mount"
    for program in (Path("/usr/bin") / _PYTHON, Path("/usr/sbin") / "adduser"):
        if not program.exists():
            return f"this machine's Debian has no {program.name}"
    if not Path("/var/lib/dpkg/status").exists():
        return "this machine is no Debian"
    tried = subprocess.run(
        ["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt"],
        check=False,
        capture_output=True,
        text=True,
    )
    return f"mounts are not allowed here: {tried.stderr.strip()}" if tried.returncode else ""


class CleanRoot:
    """The root, kept in `folder`."""

    def __init__(self, folder: Path) -> None:
        """Make the folders and files that a Debian without packages of its own has."""
        self._folder = folder
        self.path = folder / "tree"
        for name in ("upper", "work", *(f"tree/{name}" for name in _FOLDERS)):
            (folder / name).mkdir(parents=True)
        (self.path / "tmp").chmod(0o1777)
        for name in ("bin", "sbin", "lib", "lib64"):
            (self.path / name).symlink_to(f"usr/{name}")
        etc = self.path / "etc"
        (etc / "passwd").write_text(_USERS)
        (etc / "group").write_text(_GROUPS)
        (etc / "shadow").write_text("root:*:19000:0:99999:7:::\nnobody:*:19000:0:99999:7:::\n")
        shutil.copy("/etc/ld.so.cache", etc)
        self._make_known(self.path / "var/lib/dpkg")

    def _make_known(self, database: Path) -> None:
        """Tell dpkg of the packages in /usr that may be depended on."""
        stanzas = Path("/var/lib/dpkg/status").read_text().split("\n\n")
        kept = [stanza for stanza in stanzas if stanza.startswith(_KNOWN)]
        (database / "status").write_text("\n\n".join([*kept, ""]))
        for stanza in kept:
            fields = dict(line.split(": ", 1) for line in stanza.splitlines() if re.match(r"\w+: ", line))
            name = fields["Package"]
            if fields.get("Multi-Arch") == "same":
                name += f":{fields['Architecture']}"
            (database / "info" / f"{name}.list").touch()

    def command(self, *command: str | Path) -> Sequence[str]:
        """The command line that runs a command inside; its process is the command's own."""
        return ["unshare", "--mount", "sh", "-c", _MOUNTS, "sh", str(self._folder), *map(str, command)]

    def run(self, *command: str | Path, status: int = 0) -> str:
        """Run a command inside; what it prints. Raises AssertionError for another exit code."""
        done = subprocess.run(
            self.command(*command),
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "DEBIAN_FRONTEND": "noninteractive",
                "HOME": "/root",
            },
        )
        assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout}"
        return done.stdout
