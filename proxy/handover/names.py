"""The Unix socket, without a file, by which `zketcd upgrade` reaches a process that serves: name and ends."""

import re
import socket
from pathlib import Path
from struct import Struct

_OURS = re.compile(r"@zketcd/([0-9]+)/([0-9]+)$", re.MULTILINE)
_CREDENTIALS = Struct("3i")  # of a socket's other end: process, user, group


def _namespace() -> int:
    """Where process ids have a meaning: containers that share a network see the names of each other."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


_OWN = _namespace()


def name_of(pid: int) -> str:
    """The name of a process's socket, in the abstract namespace of Linux."""
    return f"\0zketcd/{_OWN}/{pid}"


def serving(sockets: Path = Path("/proc/net/unix")) -> set[int]:
    """The processes with such a name. Raises OSError."""
    # Names of other programs' sockets may have any bytes.
    found = _OURS.findall(sockets.read_text(encoding="utf-8", errors="replace"))
    return {int(pid) for namespace, pid in found if int(namespace) == _OWN}


def other_end(end: socket.socket) -> tuple[int, int]:
    """The process at the other end of a socket, and its user."""
    credentials = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(credentials)
    return process, user
