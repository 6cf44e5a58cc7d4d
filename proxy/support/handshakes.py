"""TLS handshakes: each costs the server milliseconds, and the client nothing.

So one begins when its first record is there, a few begin in one turn of the event loop, and addresses take
turns. What comes after the first record may cost the time as well, so few are under way. While others wait,
one ends after two seconds.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

_HEADER = 5  # bytes of a TLS record's header, the last two of which are the size of the rest
_LONGEST = _HEADER + (16 << 10)  # of unencrypted ones; a longer one is an error
_AT_ONCE = 2  # begin in one turn of the event loop
_MOST = 32  # are under way: about 60 ms, with an RSA key, if all cost their time in one turn
_SECONDS = 2.0  # that one may take while others wait


class _Handshake(NamedTuple):
    client: socket.socket
    begin: Callable[[], asyncio.Task[Any]]


class Handshakes:
    """Begins what was added, a little in each turn of the event loop; addresses take turns."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[str, deque[_Handshake]] = {}
        self._under_way: dict[asyncio.Task[Any], tuple[socket.socket, float]] = {}  # and when it began
        self._is_awake = False
        self._timer: asyncio.TimerHandle | None = None

    def add(self, address: str, client: socket.socket, begin: Callable[[], asyncio.Task[Any]]) -> None:
        """Begin soon. The task that `begin` returns ends with the handshake."""
        self._waiting.setdefault(address, deque()).append(_Handshake(client, begin))
        self._wake()

    def _wake(self) -> None:
        if self._waiting and not self._is_awake:
            self._is_awake = True
            self._loop.call_soon(self._begin_some)

    def _begin_some(self) -> None:
        self._is_awake = False
        for address in list(self._waiting)[: min(_AT_ONCE, _MOST - len(self._under_way))]:
            waiting = self._waiting.pop(address)
            client, begin = waiting.popleft()
            if waiting:
                self._waiting[address] = waiting  # as the last one
            task = begin()
            self._under_way[task] = client, self._loop.time()
            task.add_done_callback(self._ended)
        if len(self._under_way) < _MOST:
            self._wake()
        elif self._waiting and self._timer is None:
            _, began = next(iter(self._under_way.values()))
            self._timer = self._loop.call_at(began + _SECONDS, self._end_the_longest)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        del self._under_way[task]
        self._wake()

    def _end_the_longest(self) -> None:
        self._timer = None
        if self._waiting and len(self._under_way) >= _MOST:
            for client, began in self._under_way.values():
                if began + _SECONDS <= self._loop.time():
                    with suppress(OSError):  # it has gone meanwhile
                        client.shutdown(socket.SHUT_RDWR)  # TLS reports it, also if it is done just now
            self._timer = self._loop.call_later(_SECONDS / 10, self._end_the_longest)


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
