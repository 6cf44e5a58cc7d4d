"""The listener: clients with TLS and without, silent ones, one too many, and those behind a load balancer."""

import asyncio
import contextlib
import ipaddress
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from unittest import mock

import pytest

from lab.servers.tls import Authority, Pair
from proxy.frontend import listener as module
from proxy.frontend.listener import ClientListener
from proxy.frontend.proxy_protocol import ACCEPT, OFF, REQUIRE, ProxyProtocol, Source
from proxy.support.tasks import Tasks
from tests.proxy.frontend.proxy_headers import binary, line
from tests.proxy.log.proxies import until

# Of a client behind a load balancer, and the balancers.
_CLIENT = ("192.0.2.7", 52000)
_HERE = (ipaddress.ip_network("127.0.0.0/8"),)
_NO_HEADERS = ProxyProtocol(OFF)
_ELSEWHERE = (ipaddress.ip_network("10.0.0.0/8"),)


class Echo(asyncio.Protocol):
    """What came in tells its first words."""

    def __init__(self, host: "PaperHost", source: Source) -> None:
        self._host = host
        self._source = source

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(b"you said " + data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._host.release(self._source[0])


class PaperHost:
    """A server with so many places for one client's address."""

    def __init__(self, places: int = 100, address: str = "127.0.0.1") -> None:
        self.places = places
        self.address = address
        self.sources: list[Source] = []

    def admit(self, address: str) -> bool:
        assert address == self.address
        self.places -= self.places > 0
        return self.places > 0

    def release(self, address: str) -> None:
        assert address == self.address
        self.places += 1

    def connection(self, admitted: bool, source: Source | None = None) -> Echo:
        assert admitted
        assert source is not None
        self.sources.append(source)
        return Echo(self, source)

    async def has(self, places: int) -> None:
        await until(lambda: self.places == places)


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
async def opened(
    host: PaperHost,
    context: ssl.SSLContext | None,
    *,
    plain: bool = True,
    headers: ProxyProtocol = _NO_HEADERS,
) -> AsyncIterator[int]:
    """A listener's port."""
    tasks = Tasks()
    tls = None if context is None else lambda: context
    clients = ClientListener(host, asyncio.get_running_loop(), tasks, tls, plain=plain, headers=headers)
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
        await until(lambda: bool(caplog.records))
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
    clients = ClientListener(
        host, asyncio.get_running_loop(), tasks, lambda: context, plain=True, headers=_NO_HEADERS
    )
    with mock.patch.object(module, "_PAUSE", 0.01):
        clients.open(listener)
        sock = socket.create_connection(("127.0.0.1", listener.getsockname()[1]))
        await until(lambda: listener.accept.call_count >= 3)
    clients.close()
    sock.close()
    await tasks.close()


# -- behind a load balancer --------------------------------------------------------------------------------

_HEADERS = [line(_CLIENT), binary(_CLIENT), binary(_CLIENT, tlvs=b"\x04\x01\x00" + bytes(256))]


@pytest.mark.parametrize("header", _HEADERS)
@pytest.mark.parametrize("mode", [ACCEPT, REQUIRE])
async def test_a_header_names_the_client(
    authority: Authority, context: ssl.SSLContext, header: bytes, mode: str
) -> None:
    host = PaperHost(address=_CLIENT[0])
    async with opened(host, context, headers=ProxyProtocol(mode, _HERE)) as port:
        assert await _asked(port, header + b"ruok") == b"you said ruok"
        assert await _asked_over_tls(port, header, authority) == b"you said ruok"
        await host.has(100)
    assert host.sources == [_CLIENT, _CLIENT]


async def _asked_over_tls(port: int, header: bytes, authority: Authority) -> bytes:
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(header)
        await writer.start_tls(authority.client_context(), server_hostname="127.0.0.1")
        writer.write(b"ruok")
        answer = await reader.read(100)
        writer.close()
        await writer.wait_closed()
        return answer


@pytest.mark.parametrize("header", _HEADERS[:2])
async def test_a_header_that_comes_byte_by_byte_is_read_whole(header: bytes) -> None:
    host = PaperHost(address=_CLIENT[0])
    async with opened(host, None, headers=ProxyProtocol(REQUIRE, _HERE)) as port, asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for byte in header + b"r":
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        assert (await reader.readexactly(10)) == b"you said r"
        writer.close()
        await host.has(100)


@pytest.mark.parametrize("header", [b"PROXY UNKNOWN\r\n", binary(None, command=0), binary(None)])
async def test_a_balancer_that_speaks_for_itself_is_the_client(header: bytes) -> None:
    host = PaperHost()
    async with opened(host, None, headers=ProxyProtocol(REQUIRE, _HERE)) as port:
        assert await _asked(port, header + b"ruok") == b"you said ruok"
        await host.has(100)


@pytest.mark.parametrize("begin", [b"", binary(None, command=0), line(_CLIENT)])
async def test_a_health_check_that_only_connects_leaves_no_line(
    begin: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    host = PaperHost(address=_CLIENT[0] if begin == line(_CLIENT) else "127.0.0.1")
    async with opened(host, None, headers=ProxyProtocol(REQUIRE, _HERE)) as port:
        for linger in (b"\0" * 8, b"\1" + b"\0" * 7):  # it closes, or resets
            with socket.create_connection(("127.0.0.1", port)) as sock:
                sock.sendall(begin)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        later = line((host.address, 1)) + b"ruok"
        assert await _asked(port, later) == b"you said ruok"  # after these
        await host.has(100)
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (b"ruok", "there is none, the connection begins with b'ruok'"),
        (b"\x16\x03\x01", "there is none"),
        (b"PROXY TCP4 1.2.3.4", "the connection ends after 18 bytes"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 x\r\n", "no valid addresses and ports"),
        (b"PROXY " + b"x" * 500, "more than 107 bytes"),
        (binary(_CLIENT)[:20], "the connection ends after 20 bytes"),
        (binary(_CLIENT, tlvs=bytes(5000)), "it has 5028 bytes, more than 4096"),
        (b"\r\n\r\nwhat", "it begins with"),
    ],
)
async def test_without_a_good_header_the_connection_is_closed_with_one_line(
    words: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    host = PaperHost()
    async with opened(host, None, headers=ProxyProtocol(REQUIRE, _HERE)) as port, asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(words)
        writer.write_eof()
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        await host.has(100)
    assert [reason in message for message in caplog.messages] == [True]
    assert "closing 127.0.0.1: its PROXY header: " in caplog.text


@pytest.mark.usefixtures("_little_patience")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (b"", []),
        (b"PROXY", ["closing 127.0.0.1: its PROXY header is not complete after 0 s"]),
        (binary(_CLIENT)[:-1], ["closing 127.0.0.1: its PROXY header is not complete after 0 s"]),
    ],
)
async def test_who_is_late_with_its_header_is_closed_and_takes_no_place(
    words: bytes, said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    host = PaperHost()
    async with opened(host, None, headers=ProxyProtocol(ACCEPT, _HERE)) as port, asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(words)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
    assert host.places == 100
    assert caplog.messages == said


async def test_with_accept_a_balancer_may_leave_the_header_out() -> None:
    host = PaperHost()
    async with opened(host, None, headers=ProxyProtocol(ACCEPT, _HERE)) as port:
        assert await _asked(port, b"ruok") == b"you said ruok"
        await host.has(100)


@pytest.mark.parametrize("header", _HEADERS[:2])
async def test_a_header_from_anybody_else_forges_nothing(header: bytes) -> None:
    """It is data of the client itself: no packet that the server would understand."""
    host = PaperHost()
    async with opened(host, None, headers=ProxyProtocol(ACCEPT, _ELSEWHERE)) as port:
        assert await _asked(port, header) == b"you said " + header
        await host.has(100)
    assert [address for address, _ in host.sources] == ["127.0.0.1"]


async def test_with_require_nobody_else_is_let_in(caplog: pytest.LogCaptureFixture) -> None:
    host = PaperHost()
    async with opened(host, None, headers=ProxyProtocol(REQUIRE, _ELSEWHERE)) as port:
        with contextlib.suppress(ConnectionResetError):
            assert await _asked(port, line(_CLIENT) + b"ruok") == b""
    assert host.places == 100
    assert "closing 127.0.0.1: it is none of --proxy-protocol-from" in caplog.text


async def test_places_are_those_of_the_clients_behind_the_balancer() -> None:
    host = PaperHost(places=2, address=_CLIENT[0])
    async with opened(host, None, headers=ProxyProtocol(REQUIRE, _HERE)) as port, asyncio.timeout(20):
        first, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(line(_CLIENT) + b"r")
        await first.readexactly(10)
        with contextlib.suppress(ConnectionResetError):
            assert await _asked(port, line(_CLIENT) + b"ruok") == b""
        writer.close()
        await host.has(1)  # of two: the refused one is not given back
