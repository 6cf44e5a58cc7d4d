"""The listener: clients with TLS and without, silent ones, and one too many."""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from unittest import mock

import pytest

from proxy.frontend import listener as module
from proxy.frontend.listener import ClientListener
from proxy.support.tasks import Tasks
from tests.harness.tls import Authority, Pair


class Echo(asyncio.Protocol):
    """What came in tells its first words."""

    def __init__(self, host: "PaperHost") -> None:
        self._host = host

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(b"you said " + data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._host.release("127.0.0.1")


class PaperHost:
    """A server with so many places."""

    def __init__(self, places: int = 100) -> None:
        self.places = places

    def admit(self, address: str) -> bool:
        assert address == "127.0.0.1"
        self.places -= self.places > 0
        return self.places > 0

    def release(self, address: str) -> None:
        assert address == "127.0.0.1"
        self.places += 1

    def connection(self, admitted: bool) -> Echo:
        assert admitted
        return Echo(self)

    async def has(self, places: int) -> None:
        async with asyncio.timeout(20):
            while self.places != places:  # noqa: ASYNC110 - a count has no event
                await asyncio.sleep(0.005)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A CA for the whole file."""
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    """The server's certificate."""
    return authority.issue("server", "127.0.0.1")


@pytest.fixture
def context(pair: Pair) -> ssl.SSLContext:
    """The server's TLS."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(pair.cert, pair.key)
    return made


@pytest.fixture
def _little_patience() -> Iterator[None]:
    with mock.patch.object(module, "PATIENCE", 0.05):
        yield


@asynccontextmanager
async def opened(host: PaperHost, context: ssl.SSLContext, *, plain: bool = True) -> AsyncIterator[int]:
    """A listener's port."""
    tasks = Tasks()
    clients = ClientListener(host, asyncio.get_running_loop(), tasks, lambda: context, plain=plain)
    listener = socket.create_server(("127.0.0.1", 0))
    clients.open(listener)
    try:
        yield listener.getsockname()[1]
    finally:
        clients.close()
        await tasks.close()


async def _asked(port: int, words: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        writer.write(words)
        answer = await reader.read(100)
        writer.close()
        await writer.wait_closed()
        return answer


async def test_both_kinds_on_one_port(authority: Authority, context: ssl.SSLContext) -> None:
    host = PaperHost()
    async with opened(host, context) as port:
        assert await _asked(port, b"ruok") == b"you said ruok"
        assert await _asked(port, b"\0\0\0\x2d rest") == b"you said \0\0\0\x2d rest"
        assert await _asked(port, b"ruok", authority.client_context()) == b"you said ruok"
        await host.has(100)


async def test_a_port_for_tls_alone(
    authority: Authority, context: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    host = PaperHost()
    async with opened(host, context, plain=False) as port:
        with contextlib.suppress(ConnectionResetError):
            assert await _asked(port, b"ruok") == b""
        assert await _asked(port, b"ruok", authority.client_context()) == b"you said ruok"
        await host.has(100)
    assert "it does not use TLS" in caplog.text


@pytest.mark.usefixtures("_little_patience")
@pytest.mark.parametrize("words", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00"])
async def test_who_says_nothing_or_half_a_hello_is_turned_away_and_holds_nobody_up(
    authority: Authority, context: ssl.SSLContext, words: bytes
) -> None:
    host = PaperHost()
    async with opened(host, context) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(words)
        with mock.patch.object(module, "PATIENCE", 20.0):  # for those who come later
            assert await _asked(port, b"ruok", authority.client_context()) == b"you said ruok"
        async with asyncio.timeout(20):
            assert await reader.read() == b""
        writer.close()
        await host.has(100)


async def test_what_is_no_tls_after_all_is_logged_once(
    context: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    host = PaperHost()
    async with opened(host, context) as port:
        for _ in range(3):
            with contextlib.suppress(ConnectionResetError):
                await _asked(port, b"\x16\xff\xff\xff\xff nonsense")
        await host.has(100)
    assert len([record for record in caplog.records if "cannot let 127.0.0.1 in" in record.message]) == 1


async def test_who_goes_within_its_hello_is_logged_with_a_reason(
    context: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    host = PaperHost()
    async with opened(host, context) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x16\x03\x01\x02")
        writer.close()
        async with asyncio.timeout(20):
            while not caplog.records:  # noqa: ASYNC110 - a log has no event
                await asyncio.sleep(0.005)
        await host.has(100)
    (said,) = [record.message for record in caplog.records]
    assert said.partition("cannot let 127.0.0.1 in: ")[2]


async def test_a_client_that_resets_is_no_trouble(authority: Authority, context: ssl.SSLContext) -> None:
    host = PaperHost()
    async with opened(host, context) as port:
        for words in (b"", b"\x16", b"ruok"):
            sock = socket.create_connection(("127.0.0.1", port))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            sock.sendall(words)
            sock.close()
        assert await _asked(port, b"ruok", authority.client_context()) == b"you said ruok"
        await host.has(100)


async def test_one_too_many_is_turned_away_before_a_handshake(context: ssl.SSLContext) -> None:
    host = PaperHost(places=3)
    async with opened(host, context) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        await host.has(1)
        with contextlib.suppress(ConnectionResetError):
            assert await _asked(port, b"ruok") == b""
        for _, writer in silent:
            writer.close()
        await host.has(2)
        assert await _asked(port, b"ruok") == b"you said ruok"


async def test_a_listener_that_closes_closes_those_that_are_not_let_in_yet(context: ssl.SSLContext) -> None:
    host = PaperHost()
    async with opened(host, context) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await host.has(99)
    async with asyncio.timeout(20):
        assert await reader.read() == b""
    writer.close()
    assert host.places == 100


async def test_without_descriptors_it_waits_for_some(context: ssl.SSLContext) -> None:
    host = PaperHost()
    tasks = Tasks()
    listener = mock.Mock(wraps=socket.create_server(("127.0.0.1", 0)))
    listener.accept = mock.Mock(side_effect=OSError(24, "Too many open files"))
    clients = ClientListener(host, asyncio.get_running_loop(), tasks, lambda: context, plain=True)
    with mock.patch.object(module, "_PAUSE", 0.01):
        clients.open(listener)
        sock = socket.create_connection(("127.0.0.1", listener.getsockname()[1]))
        async with asyncio.timeout(20):
            while listener.accept.call_count < 3:  # noqa: ASYNC110 - a count has no event
                await asyncio.sleep(0.005)
    clients.close()
    sock.close()
    await tasks.close()
