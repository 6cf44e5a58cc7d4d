"""Bounded ports: what counts, from when on, and until when."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from lab.servers.tls import Authority
from proxy.frontend.listener import bound_socket
from proxy.support import ports as module
from proxy.support.handshakes import Handshakes
from proxy.support.ports import BoundedPort, Bounds, Slot
from tests.proxy.log.proxies import until


class Greeter(asyncio.Protocol):
    """Says hello, and keeps its place until the connection is closed."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(b"hello")

    def connection_lost(self, exc: Exception | None) -> None:
        self._slot.release()
        self._slot.release()  # which has no effect


@asynccontextmanager
async def port(bounds: Bounds, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[BoundedPort, int]]:
    listener = bound_socket("127.0.0.1", 0)
    number = listener.getsockname()[1]
    bounded = BoundedPort(listener, bounds, "a test", tls)
    bounded.open(Greeter)
    yield bounded, number
    await bounded.close()


async def _close(*writers: asyncio.StreamWriter) -> None:
    """Close connections, and wait: what is closed later is found by another test."""
    for writer in writers:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _said(number: int, address: str = "127.0.0.1") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", number, local_addr=(address, 0))
    try:
        return await reader.read(5)
    except ConnectionResetError:
        return b""
    finally:
        await _close(writer)


async def test_places_are_given_back(caplog: pytest.LogCaptureFixture) -> None:
    async with port(Bounds(3, 2)) as (bounded, number):
        for _ in range(5):
            assert await _said(number) == b"hello"
            await until(lambda: bounded.taken.total() == 0)
        kept = [await asyncio.open_connection("127.0.0.1", number) for _ in range(2)]
        for reader, _ in kept:
            assert await reader.readexactly(5) == b"hello"
        assert await _said(number) == b""
        assert "closing a connection of a test: there are 2 from 127.0.0.1" in caplog.text
        kept.append(await asyncio.open_connection("127.0.0.1", number, local_addr=("127.0.0.2", 0)))
        assert await kept[2][0].readexactly(5) == b"hello"
        assert await _said(number, "127.0.0.3") == b""
        assert "there are 3" in caplog.text
        await _close(*[writer for _, writer in kept])
        await until(lambda: bounded.taken.total() == 0)


def _server_tls(folder: Path) -> tuple[Authority, ssl.SSLContext]:
    """What a port uses, and who has signed it."""
    authority = Authority(folder)
    pair = authority.issue("server", "127.0.0.1")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.cert, pair.key)
    return authority, tls


async def test_a_connection_counts_before_and_during_its_tls_handshake(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    authority, tls = _server_tls(tmp_path_factory.mktemp("tls"))
    async with port(Bounds(2, 2), tls) as (bounded, number):
        idle = [await asyncio.open_connection("127.0.0.1", number) for _ in range(2)]
        await until(lambda: bounded.taken.total() == 2)
        assert await _said(number) == b""
        await _close(*[writer for _, writer in idle])
        await until(lambda: bounded.taken.total() == 0)
        reasons = [message.rpartition(": ")[2] for message in caplog.messages if "closing" in message]
        assert reasons
        assert all(reasons), "asyncio's error of a client that has gone has no text"
        monkeypatch.setattr(module, "_HANDSHAKE", 0.05)
        reader, writer = await asyncio.open_connection("127.0.0.1", number)
        assert await reader.read() == b""  # it says nothing
        await _close(writer)
        await until(lambda: bounded.taken.total() == 0)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", number, ssl=authority.client_context(), server_hostname="127.0.0.1"
        )
        assert await reader.readexactly(5) == b"hello"
        await _close(writer)
        await until(lambda: bounded.taken.total() == 0)


async def test_a_tls_handshake_begins_with_a_whole_record_and_in_its_turn(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or strangers could have many begin in one turn of the loop."""
    authority, tls = _server_tls(tmp_path_factory.mktemp("tls"))
    hello = authority.hello()
    turns: list[str] = []
    accept, is_its_turn = Handshakes.accept, asyncio.Event()

    async def later(self: Handshakes, client: socket.socket, address: str, *rest: Any) -> None:
        turns.append(address)
        await is_its_turn.wait()
        await accept(self, client, address, *rest)

    monkeypatch.setattr(Handshakes, "accept", later)
    async with port(Bounds(4, 4), tls) as (bounded, number):
        reader, writer = await asyncio.open_connection("127.0.0.1", number)
        for piece in (hello[:3], hello[3:-1]):
            writer.write(piece)
            await asyncio.sleep(0.05)
        assert not turns
        writer.write(hello[-1:])
        await until(lambda: turns == ["127.0.0.1"])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await reader.read(1)
        is_its_turn.set()
        assert await reader.read(1) == b"\x16"  # the server's hello
        await _close(writer)
        await until(lambda: bounded.taken.total() == 0)


@pytest.mark.parametrize("has_begun", [True, False])
async def test_a_port_that_closes_ends_tls_handshakes(
    tmp_path_factory: pytest.TempPathFactory, *, has_begun: bool
) -> None:
    _, tls = _server_tls(tmp_path_factory.mktemp("tls"))
    async with port(Bounds(2, 2), tls) as (bounded, number):
        reader, writer = await asyncio.open_connection("127.0.0.1", number)
        while not bounded.taken:  # noqa: ASYNC110 - a moment later the handshake has begun
            await asyncio.sleep(0)
        if has_begun:
            await asyncio.sleep(0.01)
        await bounded.close()
        assert bounded.taken.total() == 0
        assert await reader.read() == b""
        await _close(writer)
