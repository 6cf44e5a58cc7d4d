"""One address in front of several servers, as a load balancer has it: tests change what is behind it."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, Self, TypeVar

T = TypeVar("T")


class Balancer:
    """Passes each connection to the next server that takes it; with no server, connections are refused."""

    def __init__(self) -> None:
        self.port = 0
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._ports: Sequence[int] = ()
        self._turns = itertools.count()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        """For clients."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self.port = self._run(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def lead_to(self, *ports: int) -> None:
        """Connections from now on are for these servers; those that exist are closed."""
        self._run(self._change(ports))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._change(())
        ours = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*ours, return_exceptions=True)

    async def _change(self, ports: Sequence[int]) -> None:
        self._ports = ports
        for writer in list(self._writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        turn, ports = next(self._turns), self._ports
        for at in range(len(ports)):
            try:
                far = await asyncio.open_connection("127.0.0.1", ports[(turn + at) % len(ports)])
            except OSError:
                continue
            if ports is self._ports:
                await self._join((reader, writer), far)
            else:
                far[1].transport.abort()
            break
        writer.transport.abort()

    async def _join(
        self,
        near: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        far: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        both = {near[1], far[1]}
        self._writers |= both
        try:
            await asyncio.gather(_copy(near[0], far[1]), _copy(far[0], near[1]))
        finally:
            self._writers -= both
            for writer in both:
                writer.transport.abort()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
    target.transport.abort()
