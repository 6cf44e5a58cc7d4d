"""TLS handshakes: each costs the server milliseconds, and the client nothing.

So one begins when its first record is there, a few begin in one turn of the event loop, and addresses take
turns. What comes after the first record may cost the time as well, so few are under way. While others wait,
one ends after two seconds.
"""

import asyncio
import select
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

from proxy.support.addresses import source_of

#: The first byte of a TLS connection: a record of its handshake.
HANDSHAKE = b"\x16"
_HEADER = 5  # bytes of a TLS record's header, the last two of which are the size of the rest
_LONGEST = _HEADER + (16 << 10)  # of unencrypted ones; a longer one is an error
_AT_ONCE = 2  # begin in one turn of the event loop
_MOST = 32  # are under way: about 60 ms, with an RSA key, if all cost their time in one turn
_SECONDS = 2.0  # that one may take while others wait

MakeProtocol: TypeAlias = Callable[[], asyncio.Protocol]


class Handshakes:
    """Begins handshakes, a few in each turn of the event loop; addresses take turns."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        accept: Callable[[socket.socket, MakeProtocol, ssl.SSLContext, float], Awaitable[None]],
    ) -> None:
        """`accept`: as `TlsConnections.accept`."""
        self._loop = loop
        self._accept = accept
        self._waiting: dict[str, deque[tuple[socket.socket, asyncio.Future[None]]]] = {}  # by address
        self._under_way: dict[socket.socket, float] = {}  # and when each began
        self._is_awake = False
        self._timer: asyncio.TimerHandle | None = None

    async def accept(
        self,
        client: socket.socket,
        address: str,
        make: MakeProtocol,
        context: ssl.SSLContext,
        deadline: float,
    ) -> None:
        """Make a connection with TLS, when it is its turn. Raises OSError where the handshake fails.

        `deadline`: of the handshake, by the loop's clock.
        """
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.setdefault(source_of(address), deque()).append((client, turn))
        self._wake()
        try:
            await turn
            # Rounded for the error, which names it.
            await self._accept(client, make, context, max(round(deadline - self._loop.time(), 1), 0.1))
        finally:
            self._under_way.pop(client, None)
            self._wake()

    def _wake(self) -> None:
        if self._waiting and not self._is_awake:
            self._is_awake = True
            self._loop.call_soon(self._begin_some)

    def _begin_some(self) -> None:
        self._is_awake = False
        for address in list(self._waiting)[: min(_AT_ONCE, _MOST - len(self._under_way))]:
            waiting = self._waiting.pop(address)
            client, turn = waiting.popleft()
            if waiting:
                self._waiting[address] = waiting  # as the last one
            if turn.done():
                continue
            if _has_gone(client):
                turn.set_exception(ConnectionResetError("the client has gone"))
            else:
                self._under_way[client] = self._loop.time()
                turn.set_result(None)
        if len(self._under_way) < _MOST:
            self._wake()
        elif self._waiting and self._timer is None:
            began = next(iter(self._under_way.values()))
            self._timer = self._loop.call_at(began + _SECONDS, self._end_the_longest)

    def _end_the_longest(self) -> None:
        self._timer = None
        if self._waiting and len(self._under_way) >= _MOST:
            for client, began in self._under_way.items():
                if began + _SECONDS <= self._loop.time():
                    with suppress(OSError):  # it has gone meanwhile
                        client.shutdown(socket.SHUT_RDWR)  # TLS reports it, also if it is done just now
            self._timer = self._loop.call_later(_SECONDS / 10, self._end_the_longest)


def _has_gone(client: socket.socket) -> bool:
    """Whether a client has closed its side, also behind what it has sent."""
    poll = select.poll()
    poll.register(client, select.POLLRDHUP)
    return bool(poll.poll(0))


async def until_readable(client: socket.socket) -> None:
    """Wait until there is something to receive, or the end."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()

    def look() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(client.fileno(), look)
    try:
        await readable
    finally:
        loop.remove_reader(client.fileno())


class FirstRecord:
    """What a client sends first. A TLS record is waited for until the whole of it is in the socket."""

    __slots__ = ("wanted",)

    def __init__(self) -> None:
        #: Bytes that the socket waits for; 0 before any of a TLS record has come.
        self.wanted = 0

    async def begin(self, client: socket.socket) -> bytes:
        """Wait for it; returns how it begins, and b"" if nothing comes. Raises OSError as `recv`."""
        while True:
            await until_readable(client)
            try:
                come = client.recv(max(self.wanted, _HEADER), socket.MSG_PEEK)
            except (BlockingIOError, InterruptedError):
                continue
            if come[:1] != HANDSHAKE or not self._waits_for_more(client, come):
                return come

    def _waits_for_more(self, client: socket.socket, come: bytes) -> bool:
        """Whether the rest is still to come: the socket is readable when it is there.

        Or when the client ends its side before that: TLS has the right error then.
        """
        wanted = _HEADER + (int.from_bytes(come[3:_HEADER]) if len(come) >= _HEADER else 0)
        wanted = wanted if wanted <= _LONGEST else 0
        waits = self.wanted < wanted > len(come)
        self.wanted = wanted
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted if waits else 1)
        return waits
