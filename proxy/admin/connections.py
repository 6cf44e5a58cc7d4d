"""The connections of the admin port: how many there are, and how long one may take.

aiohttp limits none of this: a connection that asks nothing, sends its headers byte by byte, or reads no
answer stays for ever.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import cast

from aiohttp import web

from proxy.support.inflow import Inflow
from proxy.support.last_resort import contained
from proxy.support.ports import Slot
from proxy.support.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

#: Seconds for a request's headers, from the connection or the last answer on, and for a client to take
#: what was sent. The same as ZooKeeper's admin.idleTimeout.
IDLE_TIMEOUT = 30.0
# What a request has while it waits for others.
_WAITS = web.RequestKey("waits", bool)


@contextmanager
def waits(request: web.Request) -> Iterator[None]:
    """A request waits for others meanwhile: its connection may give way."""
    request[_WAITS] = True
    yield
    del request[_WAITS]


class AdminConnection(asyncio.Protocol):
    """One connection, around aiohttp's handler of it."""

    def __init__(self, inner: asyncio.Protocol, slot: Slot, open_ones: "AdminConnections") -> None:
        self._inner = inner
        self.slot = slot
        self._all = open_ones
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._request: web.Request | None = None  # whose headers are here
        self.has_asked = False  # a request has come
        self._is_read = True  # the client takes what it is sent

    @property
    def address(self) -> str:
        """As proxy.support.inflow.Taker."""
        return self.slot.address

    @property
    def is_idle(self) -> bool:
        """Whether the server does nothing for it: it waits for the client, or for a place."""
        request = self._request
        return request is None or not request.content.is_eof() or not self._is_read or _WAITS in request

    # -- the transport's callbacks ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast(asyncio.Transport, transport)
        self._all.by_transport[transport] = self
        self._inner.connection_made(transport)
        self.wait()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request."""
        self._all.inflow.came(self, data)

    def take(self, data: bytes) -> None:
        """As proxy.support.inflow.Taker."""
        # aiohttp raises where requests come before their connection is lost in the same turn of the loop.
        if self._transport is not None and not self._transport.is_closing():
            try:
                self._inner.data_received(data)
            except Exception as error:  # noqa: BLE001 - `contained` logs it
                contained(error, "closing a connection of the admin port", self._all.throttled_log)
                self.abort()

    def hold(self) -> None:
        """As Taker: aiohttp alone stops what is received."""

    def go_on(self) -> None:
        """As Taker."""

    def eof_received(self) -> bool | None:
        """The client sends no more."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """The client does not read its answer."""
        self._inner.pause_writing()
        self._is_read = False
        self._limit()

    def resume_writing(self) -> None:
        """It reads again."""
        self._inner.resume_writing()
        self._is_read = True
        if self._request is None:
            self._limit()
        else:
            self._stop_timer()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is closed."""
        self._stop_timer()
        self._all.inflow.lost(self)
        self._all.by_transport.pop(self._transport, None)
        self._all.changed.set()
        self._transport = self._request = None
        self.slot.release()
        self._inner.connection_lost(error)

    # -- requests --------------------------------------------------------------------------------------------

    def begin(self, request: web.Request) -> None:
        """The headers of a request are here."""
        self.has_asked = True
        self._all.changed.set()
        self._request = request
        self._stop_timer()

    def wait(self) -> None:
        """Wait for a request's headers, from now on."""
        self._request = None
        if self._all.by_transport.pop(self._transport, None) is self:
            self._all.by_transport[self._transport] = self
            self._limit()

    def abort(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._all.by_transport.pop(self._transport, None)
            self._transport.abort()

    def _limit(self) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(IDLE_TIMEOUT, self.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class AdminConnections:
    """All connections of the admin port."""

    def __init__(self) -> None:
        #: That which had its last answer longest ago is the first.
        self.by_transport: dict[asyncio.BaseTransport | None, AdminConnection] = {}
        self.inflow = Inflow()
        self.throttled_log = ThrottledLog(log)
        #: One has sent a request, or is closed.
        self.changed = asyncio.Event()

    @property
    def idle(self) -> Iterator[AdminConnection]:
        """Those for which the server does nothing."""
        return (each for each in self.by_transport.values() if each.is_idle)

    def maker(self, make: Callable[[], asyncio.Protocol]) -> Callable[[Slot], asyncio.Protocol]:
        """Makes connections around protocols that `make` makes."""
        return lambda slot: AdminConnection(make(), slot, self)

    def make_room(self, address: str) -> bool:
        """Close the idle connection that had its last answer longest ago; False if there is none.

        Only one of this address, unless it is "".
        """
        longest = next((each for each in self.idle if address in ("", each.slot.address)), None)
        if longest is not None:
            longest.abort()
        return longest is not None

    async def until_asked(self, patience: float) -> None:
        """Wait until each connection has sent a request, for so many seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while not all(each.has_asked for each in self.by_transport.values()):
                    self.changed.clear()
                    await self.changed.wait()

    @web.middleware
    async def watched(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """A middleware, the outermost one: notes what each connection does."""
        connection = self.by_transport.get(request.transport)
        if connection is None:
            raise ConnectionResetError("the client has gone")  # the body would raise RuntimeError
        connection.begin(request)
        try:
            return await handler(request)
        finally:
            connection.wait()
