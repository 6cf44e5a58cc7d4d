"""A ZooKeeper client for workloads with many simulated hosts in one process: one session on one connection.

Here: bytes from and to one socket, requests in flight, watches, pings. It does what ClickHouse's client does
when anything goes wrong: the connection is over, all that waits for an answer gets `ConnectionLost`, and the
host opens another session. No request is repeated.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Self, TypeVar, cast

from codec import client as zk
from codec.client import NO_SESSION, Dialogue, answer_of
from codec.client import MultiFailed as MultiFailed
from codec.client import ZooKeeperError as ZooKeeperError
from codec.constants import ErrorCode, EventType, OpCode, Xid
from codec.errors import MalformedPacket
from lab.client.meter import Meter

T = TypeVar("T")

#: A connection over which nothing has come for so long, although something was asked, is over: ClickHouse's
#: operation_timeout_ms.
OPERATION_TIMEOUT_S = 10.0
SESSION_TIMEOUT_MS = 30_000
#: How long `connect` tries.
TIMEOUT_S = 60.0
_PAUSE_S = 0.1
_END_DATA_WATCHES = (EventType.NODE_CREATED, EventType.NODE_DELETED, EventType.NODE_DATA_CHANGED)
_END_CHILD_WATCHES = (EventType.NODE_DELETED, EventType.NODE_CHILDREN_CHANGED)


class ConnectionLost(Exception):
    """The connection is over. A request that waited may or may not have been applied."""


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Watch:
    """A one-shot watch, from the moment at which ZooKeeper set it."""

    def __init__(self) -> None:
        self.event: zk.Event | None = None
        """What happened; None before that, and if the connection was lost."""
        self._fired = asyncio.Event()

    @property
    def fired(self) -> bool:
        """Whether the event came, or can no longer come because the connection is over."""
        return self._fired.is_set()

    def fire(self, event: zk.Event | None) -> None:
        """Wake the waiting coroutines."""
        self.event = event
        self._fired.set()

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Whether it has fired, at the latest after the timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._fired.wait()
        except TimeoutError:
            return False
        return True


class _Waiting(NamedTuple):
    xid: int
    request: zk.Request[Any]
    future: asyncio.Future[Any]
    watch: Watch | None
    since: int


class Session(asyncio.Protocol):
    """One session on one connection. Make it with `Session.open` or `connect`."""

    def __init__(self, address: Address, meter: Meter, operation_timeout_s: float) -> None:
        self.address = address
        self.granted = NO_SESSION
        """The session's id, password and timeout."""
        self.meter = meter
        self.lost = asyncio.Event()
        """Set when the connection is over."""
        self._operation_timeout_s = operation_timeout_s
        self._reason = "closed"
        self._transport: asyncio.Transport | None = None
        self._dialogue = Dialogue()
        self._greeting: asyncio.Future[zk.Connected] = asyncio.get_running_loop().create_future()
        self._waiting: deque[_Waiting] = deque()
        self._watches: dict[tuple[bool, str], list[Watch]] = {}  # by (of children, path)
        self._heard = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    async def open(
        cls,
        address: Address,
        *,
        timeout_ms: int = SESSION_TIMEOUT_MS,
        operation_timeout_s: float = OPERATION_TIMEOUT_S,
        meter: Meter | None = None,
    ) -> Self:
        """Open a session. Raises ConnectionLost or OSError."""
        loop = asyncio.get_running_loop()
        session = cls(address, meter or Meter(), operation_timeout_s)
        try:
            async with asyncio.timeout(operation_timeout_s):
                await loop.create_connection(lambda: session, address.host, address.port)
                session._write(zk.connect(timeout_ms))
                session.granted = await session._greeting
        except TimeoutError:
            session.drop()
            raise ConnectionLost(f"{address} did not answer in {operation_timeout_s:g} s") from None
        except asyncio.CancelledError:
            session.drop()
            raise
        session._check_in(loop.time())
        return session

    @property
    def id(self) -> int:
        """The session's id."""
        return self.granted.session

    @property
    def timeout_ms(self) -> int:
        """The session's timeout as the server gave it."""
        return self.granted.timeout_ms

    async def call(self, request: zk.Request[T]) -> T:
        """The answer to a request. Raises ZooKeeperError (a multi: MultiFailed) or ConnectionLost."""
        return await self.send(request)

    async def watched(self, request: zk.Request[T]) -> tuple[T, Watch]:
        """The answer to exists, get or children, and the watch that it has set.

        If the node is missing only exists sets a watch; that of another request has fired from the beginning.
        """
        watch = Watch()
        return await self.send(request, watch), watch

    async def multi(self, *parts: zk.Request[Any]) -> list[Any]:
        """The answers of all parts. Raises MultiFailed or ConnectionLost: see `call`."""
        return await self.send(zk.multi(parts))

    def send(self, request: zk.Request[T], watch: Watch | None = None) -> asyncio.Future[T]:
        """Send a request without waiting; the future has what `call` returns or raises.

        Requests of one session are applied and answered in the order in which they were sent.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self.lost.is_set():
            future.set_exception(ConnectionLost(self._reason))
            future.exception()  # a caller that does not await it sees `lost`
            return future
        xid, packet = self._dialogue.request(request, watch=watch is not None)
        self.meter.sent(request.opcode)
        self._waiting.append(_Waiting(xid, request, future, watch, time.perf_counter_ns()))
        self._write(packet)
        return future

    async def close(self) -> None:
        """End the session, and with it its ephemeral nodes."""
        try:
            await self.call(zk.close())
        except ConnectionLost:
            pass
        finally:
            self.drop()

    def drop(self) -> None:
        """Close the connection without a closeSession: the session lives on until its timeout."""
        self._end("dropped")

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        self._heard = asyncio.get_running_loop().time()
        try:
            frames = self._dialogue.feed(data)
            if self._dialogue.granted is not None and not self._greeting.done():
                self._greeting.set_result(self._dialogue.granted)
            for frame in frames:
                self._take(frame)
        except MalformedPacket as error:
            self._end(f"the server sent a malformed packet: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        """See asyncio."""
        self._end(f"the connection was lost: {error}" if error else "the server closed the connection")

    def _take(self, frame: bytes) -> None:
        header, body = zk.header(frame), zk.body(frame)
        if header.xid == Xid.NOTIFICATION:
            self._notify(zk.read_event(body))
            return
        if header.xid == Xid.PING:
            return
        if not self._waiting or self._waiting[0].xid != header.xid:
            raise MalformedPacket(f"a reply with xid {header.xid} answers nothing")
        waiting = self._waiting[0]
        answer, refusal = None, None
        try:
            answer = answer_of(waiting.request, header.error, body)  # malformed: it waits until the end
        except ZooKeeperError as error:
            refusal = error
        self._waiting.popleft()
        if waiting.watch is not None:
            self._register(waiting.watch, waiting.request, header.error)
        if waiting.future.cancelled():
            return
        if refusal is not None:
            waiting.future.set_exception(refusal)
        else:
            waiting.future.set_result(answer)

    def _register(self, watch: Watch, request: zk.Request[Any], error: int) -> None:
        of_children = request.opcode == OpCode.GET_CHILDREN2
        if error and not (error == ErrorCode.NO_NODE and request.opcode == OpCode.EXISTS):
            watch.fire(None)
        else:
            self._watches.setdefault((of_children, request.path), []).append(watch)

    def _notify(self, event: zk.Event) -> None:
        for of_children, ends in ((False, _END_DATA_WATCHES), (True, _END_CHILD_WATCHES)):
            if event.type in ends:
                for watch in self._watches.pop((of_children, event.path), ()):
                    watch.fire(event)

    def _check_in(self, sent: float) -> None:
        """Ping at a third of the timeout, and give a silent server up."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        waited = self._waiting and (time.perf_counter_ns() - self._waiting[0].since) / 1e9
        if waited and min(waited, now - self._heard) > self._operation_timeout_s:
            self._end(f"{self.address} did not answer in {self._operation_timeout_s:g} s")
            return
        if now - self._heard > self.timeout_ms / 1000:
            self._end(f"{self.address} was silent for a session's timeout")
            return
        if now - sent >= self.timeout_ms / 3000:
            self._write(zk.PING)
            sent = now
        pause = min(self.timeout_ms / 6000, self._operation_timeout_s / 4)
        self._timer = loop.call_later(pause, self._check_in, sent)

    def _write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def _end(self, reason: str) -> None:
        if self.lost.is_set():
            return
        self._reason = reason
        self.lost.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        if not self._greeting.done():
            self._greeting.set_exception(ConnectionLost(reason))
            self._greeting.exception()  # no task waits for it if the opening was given up
        for waiting in self._waiting:
            if not waiting.future.done():
                waiting.future.set_exception(ConnectionLost(reason))
                waiting.future.exception()
        self._waiting.clear()
        for watches in self._watches.values():
            for watch in watches:
                watch.fire(None)
        self._watches.clear()


async def connect(
    addresses: Sequence[Address],
    first: int = 0,
    *,
    timeout_ms: int = SESSION_TIMEOUT_MS,
    operation_timeout_s: float = OPERATION_TIMEOUT_S,
    timeout_s: float = TIMEOUT_S,
    meter: Meter | None = None,
) -> Session:
    """A new session at the first of the servers that takes one, beginning with number `first`.

    Tries them in turn for `timeout_s`, then raises ConnectionLost with the last reason.
    """
    deadline = time.monotonic() + timeout_s
    number = first
    while True:
        try:
            return await Session.open(
                addresses[number % len(addresses)],
                timeout_ms=timeout_ms,
                operation_timeout_s=operation_timeout_s,
                meter=meter,
            )
        except (ConnectionLost, OSError) as error:
            if time.monotonic() > deadline:
                tried = ", ".join(map(str, addresses))
                within = f" in {timeout_s:g} s" if timeout_s else ""
                raise ConnectionLost(f"no session at {tried}{within}: {error}") from error
        number += 1
        if (number - first) % len(addresses) == 0:
            await asyncio.sleep(_PAUSE_S)


@asynccontextmanager
async def connected(addresses: Sequence[Address], timeout_s: float = TIMEOUT_S) -> AsyncIterator[Session]:
    """`connect`, and close the session at the end."""
    session = await connect(addresses, timeout_s=timeout_s)
    try:
        yield session
    finally:
        await session.close()
