"""Free TCP ports on the loopback interface, no port for two processes of tests at once."""

import fcntl
import functools
import os
import random
import socket
import tempfile
from pathlib import Path

# Below Linux's default range of ephemeral ports (32768 and up): the kernel never hands one of these to an
# outgoing connection between our choice and the server's bind.
_FIRST, _LAST = 20000, 32000
_TRIES = 200
_random = random.SystemRandom()
_given: set[int] = set()


def free_port() -> int:
    """Return a port on 127.0.0.1 that is free now and that no process has been given that still runs.

    A server binds its port some time after this choice, and again after a restart: another process of tests
    that looks in between finds the port unbound, but taken. Raises OSError if no port of the range is free.
    """
    for _ in range(_TRIES):
        port = _random.randrange(_FIRST, _LAST)
        if port in _given or not _take(port):
            continue
        _given.add(port)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As the servers do: a port whose last connections are in TIME_WAIT is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise OSError(f"no free port on 127.0.0.1 between {_FIRST} and {_LAST} after {_TRIES} tries")


def _take(port: int) -> bool:
    """Take a port for this process until it ends. False if another process has it."""
    try:
        # One byte of the file stands for one port. The kernel unlocks it when the process ends, however.
        fcntl.lockf(_taken_ports(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except (BlockingIOError, PermissionError):
        return False
    return True


@functools.cache
def _taken_ports() -> int:
    """The file whose locked bytes are the taken ports. It stays open: closing it would unlock them all."""
    path = Path(tempfile.gettempdir()) / f"zketcd-ports-{os.getuid()}"
    return os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
