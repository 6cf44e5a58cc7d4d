"""TCP relays between all processes, in a process of their own: links that stop, and links that are slow.

A *way* leads from one host to another: what a host sends to another takes the same way, whichever of the two
has opened the connection. A way that is stopped keeps the bytes, as a network does whose packets are sent
again and again: they arrive when it is mended, unless the sender has given up and closed. Here: bytes. Not
here: what they mean, but for the header by which etcd's members say who they are.

One thing is not as in a network: a connection over a stopped way is accepted, and then says nothing.
"""

import asyncio
import multiprocessing
import re
import selectors
import signal
import threading
from collections import deque
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Self, cast

import uvloop

_AHEAD = 1 << 20  # bytes that a way may hold back before it stops reading
_PIECE = 1 << 14  # bytes that a way with a bounded bandwidth sends at once
_FROM = re.compile(rb"\r\nX-Server-From: ([0-9a-f]+)\r\n", re.IGNORECASE)
_HEAD = 1 << 14  # bytes within which that header must come
_LOOK = 0.01  # seconds between two looks at what has come
_TIMEOUT = 30.0  # seconds for an answer of the relays' process

Way = tuple[str, str]


class Quality(NamedTuple):
    """The present quality of a way."""

    stopped: bool = False
    latency: float = 0.0  # seconds
    bandwidth: float = 0.0  # bytes a second; 0: unbounded


_GOOD = Quality()


class Listener(NamedTuple):
    """What one relay listens for. `dialer` None: etcd's member that the first request names."""

    dialer: str | None
    target: str
    port: int


class _Pipe:
    """One direction of a connection."""

    def __init__(
        self, relays: "_Relays", way: Way, source: asyncio.Transport, sink: asyncio.Transport
    ) -> None:
        self.way = way
        self._relays = relays
        self._source = source
        self._sink = sink
        self._chunks: deque[tuple[float, bytes | None]] = deque()  # None: the end
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None
        self._free_at = 0.0  # when the bandwidth allows the next piece

    def push(self, data: bytes | None) -> None:
        """Take bytes; None: the end of the stream."""
        quality = self._relays.quality(self.way)
        at = self._relays.loop.time() + quality.latency
        if data is None or not quality.bandwidth:
            self._chunks.append((at, data))
        else:
            self._chunks.extend((at, data[start : start + _PIECE]) for start in range(0, len(data), _PIECE))
        self._size += len(data or b"")
        if self._size > _AHEAD:
            self._source.pause_reading()
        self.pump()

    def pump(self) -> None:
        """Pass on what is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._chunks:
            quality = self._relays.quality(self.way)
            if quality.stopped:
                return  # `pump` is called again when that changes
            now = self._relays.loop.time()
            due = max(self._chunks[0][0], self._free_at)
            if due > now:
                self._timer = self._relays.loop.call_later(due - now, self.pump)
                return
            _, data = self._chunks.popleft()
            if data is None:
                self._sink.close()
                return
            self._size -= len(data)
            if quality.bandwidth:
                self._free_at = now + len(data) / quality.bandwidth
            if not self._sink.is_closing():  # else asyncio would warn of each piece
                self._sink.write(data)
            if self._size <= _AHEAD and not self._source.is_reading() and not self._source.is_closing():
                self._source.resume_reading()


class _Side(asyncio.Protocol):
    """One end of a relayed connection."""

    def __init__(self, relays: "_Relays") -> None:
        self._relays = relays
        self._pipe: _Pipe | None = None
        self._early: list[bytes | None] = []
        self.transport: asyncio.Transport | None = None
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._push(data)

    def eof_received(self) -> bool:
        self._push(None)
        return True  # what comes the other way may still be wanted

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()
        self._push(None)

    def _push(self, data: bytes | None) -> None:
        if self._pipe is None:
            self._early.append(data)
        else:
            self._pipe.push(data)

    @property
    def head(self) -> bytes:
        """What has come so far, before the connection is joined."""
        return b"".join(data for data in self._early if data)

    @property
    def over(self) -> bool:
        """Whether the connection has ended before it was joined."""
        return None in self._early

    def join(self, pipe: _Pipe) -> None:
        """Set the connection to which the bytes are sent."""
        self._pipe = pipe
        early, self._early = self._early, []
        for data in early:
            pipe.push(data)


class _Relays:
    """All relays, in their own process."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._ways: dict[Way, Quality] = {}
        self._pipes: dict[_Pipe, tuple[asyncio.Transport, asyncio.Transport]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def quality(self, way: Way) -> Quality:
        """The present quality of a way."""
        return self._ways.get(way, _GOOD)

    async def listen(self, listener: Listener) -> int:
        """Open a port."""

        def accept() -> _Side:
            near = _Side(self)
            task = self.loop.create_task(self._connect(near, listener))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return near

        server = await self.loop.create_server(accept, "127.0.0.1", 0)
        return int(server.sockets[0].getsockname()[1])

    async def change(self, ways: dict[Way, Quality]) -> None:
        """Set the quality of these ways."""
        self._ways.update(ways)
        for pipe in list(self._pipes):
            if pipe.way in ways:
                pipe.pump()

    async def reset(self, ways: set[Way]) -> int:
        """Break all connections of these ways; returns their number."""
        broken = {ends for pipe, ends in self._pipes.items() if pipe.way in ways}
        for ends in broken:
            for transport in ends:
                transport.abort()
        return len(broken)

    async def _connect(self, near: _Side, listener: Listener) -> None:
        await asyncio.sleep(0)  # connection_made comes behind the protocol's making
        assert near.transport is not None
        dialer = listener.dialer or await _dialer(near)
        try:
            _, far = await self.loop.create_connection(lambda: _Side(self), "127.0.0.1", listener.port)
        except OSError:
            near.transport.abort()
            return
        assert far.transport is not None
        ends = near.transport, far.transport
        there = _Pipe(self, (dialer, listener.target), near.transport, far.transport)
        back = _Pipe(self, (listener.target, dialer), far.transport, near.transport)
        self._pipes[there] = self._pipes[back] = ends
        near.join(there)
        far.join(back)
        await near.lost.wait()
        await far.lost.wait()
        del self._pipes[there], self._pipes[back]


async def _dialer(near: _Side) -> str:
    """Which member of etcd has opened a connection to another: the id in its first request, "" if none."""
    for _ in range(200):
        head = near.head
        found = _FROM.search(head)
        if found is not None:
            return found[1].decode()
        if b"\r\n\r\n" in head or len(head) > _HEAD or near.over:
            break
        await asyncio.sleep(_LOOK)
    return ""


def _run(told: Connection, exact: bool) -> None:
    """The process: ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=_exact_loop if exact else uvloop.new_event_loop) as runner:
        runner.run(_serve(told))


def _exact_loop() -> asyncio.AbstractEventLoop:
    """A loop whose timers are exact to some microseconds; epoll's, and uvloop's, count in milliseconds."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


async def _serve(told: Connection) -> None:
    relays = _Relays()
    while True:
        try:
            name, argument = await asyncio.to_thread(told.recv)
        except (EOFError, OSError):
            return
        told.send(await getattr(relays, name)(argument))


class Relays:
    """The relays' process, from outside. Methods block for a moment."""

    def __init__(self, *, exact: bool = False) -> None:
        """`exact`: latencies below some milliseconds count; takes more CPU, and 500 connections at most."""
        context = multiprocessing.get_context("spawn")
        self._pipe, told = context.Pipe()
        self._asking = threading.Lock()  # faults of torture that come together have a thread each
        self._process = context.Process(target=_run, args=(told, exact), daemon=True)
        self._process.start()
        told.close()

    def listen(self, dialer: str | None, target: str, port: int) -> int:
        """Relay connections to 127.0.0.1:`port`, which is `target`'s; returns the relay's own port."""
        return int(self._ask("listen", Listener(dialer, target, port)))

    def change(self, ways: dict[Way, Quality]) -> None:
        """Set the quality of these ways; others keep theirs."""
        self._ask("change", ways)

    def reset(self, ways: set[Way]) -> int:
        """Break all connections of these ways; returns how many there were."""
        return int(self._ask("reset", ways))

    def close(self) -> None:
        """End everything."""
        self._pipe.close()
        self._process.terminate()
        self._process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, name: str, argument: Any) -> Any:
        with self._asking:
            self._pipe.send((name, argument))
            if not self._pipe.poll(_TIMEOUT):
                raise TimeoutError("the relays' process does not answer")
            return self._pipe.recv()
