"""TLS of accepted connections: what arrives and what is sent comes whole, and a little in each turn."""

import asyncio
import random
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from lab.servers.tls import Authority
from proxy.support import tls_pieces
from proxy.support.tls_pieces import TlsConnections
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

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")
        self.lost.set_result(None)


@asynccontextmanager
async def _accepting(folder: Path) -> AsyncIterator[tuple[int, Authority, _Taken]]:
    authority = Authority(folder)
    pair = authority.issue("server", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    taken, connections = _Taken(), TlsConnections()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)

    async def accept() -> None:
        client, _ = await asyncio.get_running_loop().sock_accept(listener)
        await connections.accept(client, lambda: taken, context, 60.0)

    accepting = asyncio.ensure_future(accept())
    try:
        yield listener.getsockname()[1], authority, taken
        await accepting
    finally:
        accepting.cancel()
        listener.close()
        if taken.transport is not None:
            taken.transport.abort()


_Loop = Callable[[], asyncio.AbstractEventLoop]
_loops = pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop])


def _run(work: Coroutine[None, None, None], loop: _Loop = uvloop.new_event_loop) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(work)


class _Client:
    """Reads when it is said to."""

    def __init__(self, port: int, authority: Authority) -> None:
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        plain.connect(("127.0.0.1", port))
        self._secret = authority.client_context().wrap_socket(plain, server_hostname="127.0.0.1")

    def read(self) -> bytes:
        """All, up to the end of the connection."""
        data = bytearray()
        with self._secret, suppress(OSError):
            while piece := self._secret.recv(1 << 20):
                data += piece
        return bytes(data)

    def end(self) -> None:
        """Say that nothing more is sent, and read on."""
        with suppress(OSError):
            self._secret.unwrap()  # fails: the answer is none
        with socket.socket(fileno=self._secret.detach()) as plain, suppress(OSError):
            while plain.recv(1 << 20):
                continue


@asynccontextmanager
async def _sending(folder: Path) -> AsyncIterator[tuple[_Client, _Taken, asyncio.Transport]]:
    async with _accepting(folder) as (port, authority, taken):
        client = await asyncio.to_thread(_Client, port, authority)
        await until(lambda: taken.transport is not None)
        assert taken.transport is not None
        yield client, taken, taken.transport


class _Counting:
    """In place of a transport with TLS: how much it is given in each turn."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self.turn = 0
        self.in_a_turn = Counter[int]()
        self._next()

    def _next(self) -> None:
        self.turn += 1
        self._loop.call_soon(self._next)

    def write(self, data: bytes) -> None:
        self.in_a_turn[self.turn] += len(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


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
        data = bytes(20 << 20)
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


@_loops
def test_what_is_sent_is_encrypted_a_little_in_each_turn_and_comes_whole(tmp_path: Path, loop: _Loop) -> None:
    async def send() -> None:
        data = random.Random(1).randbytes(5_000_000)
        async with _sending(tmp_path) as (client, taken, transport):
            hidden = cast(Any, transport)
            counting = hidden._transport = _Counting(hidden._transport)
            reading = asyncio.ensure_future(asyncio.to_thread(client.read))
            transport.write(data[:10])
            transport.write(bytearray(data[10:3_000_000]))
            transport.write(data[3_000_000:3_000_007])
            transport.writelines([data[3_000_007:4_000_000], data[4_000_000:]])
            assert taken.calls == ["made", "pause"]
            transport.close()
            assert transport.is_closing()
            transport.write(b"nothing more")
            assert await reading == data
            await until(taken.lost.done)
        assert [call for call in taken.calls if call != "eof"] == ["made", "pause", "lost"]
        assert max(counting.in_a_turn.values()) <= (256 << 10) + 10

    _run(send(), loop)


@_loops
def test_who_does_not_read_is_sent_no_more(tmp_path: Path, loop: _Loop) -> None:
    async def send() -> None:
        data = bytes(20 << 20)
        async with _sending(tmp_path) as (client, taken, transport):
            hidden = cast(Any, transport)
            counting = hidden._transport = _Counting(hidden._transport)
            transport.write(data)
            seen, last = 0, -1
            while seen < 100:  # turns without anything
                await asyncio.sleep(0.001)
                given = counting.in_a_turn.total()
                seen, last = seen + 1 if given == last else 0, given
            assert last < len(data) - (5 << 20), "the rest would be kept twice"
            assert transport.get_write_buffer_size() >= len(data) - last
            assert taken.calls == ["made", "pause"]
            reading = asyncio.ensure_future(asyncio.to_thread(client.read))
            await until(lambda: taken.calls == ["made", "pause", "resume"], 60)
            assert counting.in_a_turn.total() == len(data)
            transport.write(b"more")
            transport.close()
            assert await reading == data + b"more"

    _run(send(), loop)


@_loops
def test_what_waits_is_dropped_when_a_connection_is_aborted(tmp_path: Path, loop: _Loop) -> None:
    async def send() -> None:
        async with _sending(tmp_path) as (client, taken, transport):
            transport.write(bytes(20 << 20))
            transport.close()
            transport.abort()
            assert len(await asyncio.to_thread(client.read)) < 20 << 20
            await until(taken.lost.done)
            assert not transport.get_write_buffer_size()

    _run(send(), loop)


@_loops
def test_a_client_that_never_reads_cannot_delay_a_close_for_ever(
    tmp_path: Path, loop: _Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_pieces, "_CLOSING", 0.2)

    async def send() -> None:
        async with _sending(tmp_path) as (client, taken, transport):
            transport.write(bytes(20 << 20))
            transport.close()
            await until(taken.lost.done)
            assert len(await asyncio.to_thread(client.read)) < 20 << 20

    _run(send(), loop)


@_loops
def test_a_client_that_ends_its_connection_is_sent_no_more(tmp_path: Path, loop: _Loop) -> None:
    async def send() -> None:
        async with _sending(tmp_path) as (client, taken, transport):
            transport.write(bytes(20 << 20))
            ending = asyncio.ensure_future(asyncio.to_thread(client.end))
            await until(taken.lost.done, 60)
            await ending
        assert [call for call in taken.calls if call != "resume"] == ["made", "pause", "eof", "lost"]

    _run(send(), loop)
