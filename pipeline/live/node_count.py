"""How many znodes a running server has, as its four-letter word srvr says: for an estimate, if it answers."""

import contextlib
import re
import socket
from collections.abc import Iterable

_TIMEOUT = 0.5  # seconds
_MOST = 1 << 16  # bytes of an answer
_COUNT = re.compile(rb"^Node count: (\d{1,18})$", re.MULTILINE)


def node_count(servers: Iterable[tuple[str, int]]) -> int | None:
    """The number that the first server reports; None if none does. Blocks for a second a server."""
    for server in servers:
        with contextlib.suppress(OSError), socket.create_connection(server, _TIMEOUT) as connection:
            connection.sendall(b"srvr")
            answer = b""
            while len(answer) < _MOST and (chunk := connection.recv(4096)):
                answer += chunk
            if found := _COUNT.search(answer):
                return int(found[1])
    return None
