"""TLS handshakes: each costs the server milliseconds, and the client nothing.

So one begins when its first record is there, a few begin in one turn of the event loop, and addresses take
turns.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable

_HEADER = 5  # bytes of a TLS record's header, the last two of which are the size of the rest
_LONGEST = _HEADER + (16 << 10)  # of unencrypted ones; a longer one is an error
_AT_ONCE = 2  # begin in one turn of the event loop


class Handshakes:
    """Begins what was added, a little in each turn of the event loop; addresses take turns."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[str, deque[Callable[[], None]]] = {}

    def add(self, address: str, begin: Callable[[], None]) -> None:
        """Begin soon."""
        if not self._waiting:
            self._loop.call_soon(self._begin_some)
        self._waiting.setdefault(address, deque()).append(begin)

    def _begin_some(self) -> None:
        for address in list(self._waiting)[:_AT_ONCE]:
            waiting = self._waiting.pop(address)
            begin = waiting.popleft()
            if waiting:
                self._waiting[address] = waiting  # as the last one
            begin()
        if self._waiting:
            self._loop.call_soon(self._begin_some)


class FirstRecord:
    """The first TLS record of a connection, until it is in the socket."""

    __slots__ = ("wanted",)

    def __init__(self) -> None:
        #: Bytes that the socket waits for; 0 before any has come.
        self.wanted = 0

    def peek(self, client: socket.socket) -> bytes:
        """The bytes that are there, as far as they matter; b"" at their end. Raises OSError as `recv`."""
        return client.recv(max(self.wanted, _HEADER), socket.MSG_PEEK)

    def waits_for_more(self, client: socket.socket, come: bytes) -> bool:
        """Whether the rest is still to come: the socket is readable when it is there.

        Or when the client ends its side before that: TLS has the right error then.
        """
        wanted = _HEADER + (int.from_bytes(come[3:_HEADER]) if len(come) >= _HEADER else 0)
        wanted = wanted if wanted <= _LONGEST else 0
        waits = self.wanted < wanted > len(come)
        self.wanted = wanted
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted if waits else 1)
        return waits
