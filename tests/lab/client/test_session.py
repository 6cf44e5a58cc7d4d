"""What the client does when a server misbehaves."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from codec import client as zk
from codec.jute import pack_buffer
from lab.client.session import Address, ConnectionLost, Session

_LIMIT_S = 60.0
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def _server(serve: Serve) -> AsyncIterator[Address]:
    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    async with server:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])


def _greeting(timeout_ms: int) -> bytes:
    return pack_buffer(bytes(4) + timeout_ms.to_bytes(4) + (7).to_bytes(8) + pack_buffer(bytes(16)) + b"\0")


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(_greeting(400))
    while await reader.read(1000):
        pass


async def test_a_server_that_falls_silent_or_never_greets_is_given_up() -> None:
    async with asyncio.timeout(_LIMIT_S), _server(_silent) as address:
        idle = await Session.open(address)
        await idle.lost.wait()
        with pytest.raises(ConnectionLost, match="was silent for a session's timeout"):
            await idle.call(zk.get("/"))
        asking = await Session.open(address)
        asking._operation_timeout_s = 0.05  # from here on: a busy machine needs longer to open a session
        with pytest.raises(ConnectionLost, match=r"did not answer in 0\.05 s"):
            await asking.call(zk.get("/"))
    async with asyncio.timeout(_LIMIT_S), _server(_deaf) as address:
        with pytest.raises(ConnectionLost, match=r"did not answer in 0\.05 s"):
            await Session.open(address, operation_timeout_s=0.05)
        with pytest.raises(TimeoutError):  # cancelled: no connection stays open, which would be a warning
            await asyncio.wait_for(Session.open(address), 0.05)


async def _deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
