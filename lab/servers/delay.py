"""A relay that makes a server far away: every byte takes a fixed time each way."""

import asyncio
import multiprocessing
from collections import deque
from multiprocessing.connection import Connection
from typing import Self, cast


class _Side(asyncio.Protocol):
    """One end of a relayed connection: what comes in leaves at the other end, later."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._loop = asyncio.get_running_loop()
        self._late: deque[tuple[float, bytes]] = deque()
        self._peer: asyncio.Future[asyncio.Transport] = self._loop.create_future()
        self.transport: asyncio.Transport | None = None

    def join(self, peer: asyncio.Transport) -> None:
        """Say where the bytes go."""
        self._peer.set_result(peer)
        self._send()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._late.append((self._loop.time() + self._delay, data))
        if len(self._late) == 1:
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._peer.done():
            self._loop.call_later(self._delay, self._peer.result().close)

    def _send(self) -> None:
        if not self._peer.done():
            return
        now = self._loop.time()
        while self._late and self._late[0][0] <= now:
            self._peer.result().write(self._late.popleft()[1])
        if self._late:
            self._loop.call_at(self._late[0][0], self._send)


async def _relay(target: int, delay: float, told: Connection) -> None:
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    async def reach(near: _Side) -> None:
        try:
            _, far = await loop.create_connection(lambda: _Side(delay), "127.0.0.1", target)
        except OSError:
            assert near.transport is not None
            near.transport.close()
            return
        assert near.transport is not None
        assert far.transport is not None
        near.join(far.transport)
        far.join(near.transport)

    def accept() -> _Side:
        near = _Side(delay)
        task = loop.create_task(reach(near))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return near

    server = await loop.create_server(accept, "127.0.0.1", 0)
    told.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def _run(target: int, delay: float, told: Connection) -> None:
    asyncio.run(_relay(target, delay, told))


class DelayingRelay:
    """Relays connections to 127.0.0.1:`port` in a process of its own; `delay` is seconds each way."""

    def __init__(self, port: int, delay: float) -> None:
        context = multiprocessing.get_context("spawn")
        listener, told = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(port, delay, told), daemon=True)
        self._process.start()
        told.close()
        self.port: int = listener.recv()
        listener.close()

    @property
    def endpoint(self) -> str:
        """For `--etcd`."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()
