"""TLS of accepted connections: what arrives comes whole, and a little in each turn."""

import asyncio
import random
import socket
import ssl
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
import uvloop

from lab.servers.tls import Authority
from proxy.support import tls_pieces
from proxy.support.inflow import Inflow
from tests.proxy.log.proxies import until


class _Taken(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = bytearray()
        self.transport: asyncio.Transport | None = None
        self.calls: list[str] = []
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.calls.append("made")
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> None:
        self.calls.append("eof")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")
        self.lost.set_result(None)


@asynccontextmanager
async def _accepting(folder: Path) -> AsyncIterator[tuple[int, Authority, _Taken]]:
    authority = Authority(folder)
    pair = authority.issue("server", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    taken, inflow = _Taken(), Inflow()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)

    async def accept() -> None:
        client, _ = await asyncio.get_running_loop().sock_accept(listener)
        await tls_pieces.accept(client, lambda: taken, context, inflow, 60.0)

    accepting = asyncio.ensure_future(accept())
    try:
        yield listener.getsockname()[1], authority, taken
        await accepting
    finally:
        accepting.cancel()
        listener.close()
        if taken.transport is not None:
            taken.transport.abort()


def _run(work: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


def test_what_comes_is_decrypted_and_comes_whole(tmp_path: Path) -> None:
    async def send() -> None:
        data = random.Random(1).randbytes(3_000_000)
        async with _accepting(tmp_path) as (port, authority, taken):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=authority.client_context())
            writer.write(data)
            await writer.drain()
            await until(lambda: len(taken.data) == len(data))
            assert taken.transport is not None
            taken.transport.write(b"answer")
            assert await reader.readexactly(6) == b"answer"
            writer.close()
            await until(taken.lost.done)
        assert taken.data == data
        assert taken.calls == ["made", "eof", "lost"]

    _run(send())


def test_who_is_not_read_from_cannot_send_much(tmp_path: Path) -> None:
    async def send() -> None:
        data = bytes(40 << 20)
        async with _accepting(tmp_path) as (port, authority, taken):
            context = authority.client_context()

            def client() -> None:
                with (
                    socket.create_connection(("127.0.0.1", port)) as plain,
                    context.wrap_socket(plain, server_hostname="127.0.0.1") as secret,
                ):
                    secret.sendall(data)
                    assert secret.recv(6) == b"answer"

            sending = asyncio.ensure_future(asyncio.to_thread(client))
            await until(lambda: taken.transport is not None)
            assert taken.transport is not None
            taken.transport.pause_reading()
            await asyncio.sleep(0.3)
            assert not sending.done()
            taken.transport.resume_reading()
            await until(lambda: len(taken.data) == len(data), 60)
            taken.transport.write(b"answer")
            await sending

    _run(send())


def test_a_handshake_that_fails_raises(tmp_path: Path) -> None:
    async def refused() -> None:
        async with _accepting(tmp_path) as (port, _, _taken):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            await writer.drain()
            writer.close()

    with pytest.raises(OSError, match=r"SSL|TLS|HTTP"):
        _run(refused())
