"""The listener: clients with TLS and without, silent ones, one too many, and those behind a load balancer."""

import asyncio
import contextlib
import errno
import ipaddress
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest

from lab.servers.tls import Authority
from proxy.frontend import listener as module
from proxy.frontend.listener import ClientListener, bound_socket
from proxy.frontend.proxy_protocol import ACCEPT, OFF, REQUIRE, ProxyProtocol, Source
from proxy.support.counters import Counters
from proxy.support.handshakes import Handshakes
from proxy.support.tasks import Tasks
from proxy.support.tls_pieces import TlsConnections
from tests.proxy.frontend.proxy_headers import binary, line
from tests.proxy.log.proxies import until

# Of a client behind a load balancer, and the balancers.
_CLIENT = ("192.0.2.7", 52000)
_NO_HEADERS = ProxyProtocol(OFF)
_HERE, _ELSEWHERE = ((ipaddress.ip_network(network),) for network in ("127.0.0.0/8", "10.0.0.0/8"))
_REQUIRED = ProxyProtocol(REQUIRE, _HERE)


class Echo(asyncio.Protocol):
    """What came in tells its first words."""

    def __init__(self, host: "FakePorts", source: Source) -> None:
        self._host = host
        self._source = source

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(b"you said " + data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._host.release(self._source[0])


class FakePorts:
    """A server with so many places for one client's address, and the clients that call it."""

    def __init__(self, tasks: Tasks, headers: ProxyProtocol, places: int, address: str) -> None:
        self.limits = self
        self.counters = Counters()
        self.loop = asyncio.get_running_loop()
        self.tasks = tasks
        self.handshakes = Handshakes(self.loop, TlsConnections().accept)
        self.headers = headers
        self.places = places
        self.asked = 0  # how many clients wanted a place
        self.address = address
        self.sources: list[Source] = []
        self.port = 0

    def admit(self, address: str) -> bool:
        if not address:  # not known yet
            return True
        assert address == self.address
        self.places -= self.places > 0
        self.asked += 1
        return self.places > 0

    def release(self, address: str) -> None:
        if not address:
            return
        assert address == self.address
        self.places += 1

    def connection(self, *, admitted: bool, source: Source | None = None) -> Echo:
        assert admitted
        assert source is not None
        self.sources.append(source)
        return Echo(self, source)

    async def has(self, places: int) -> None:
        await until(lambda: self.places == places)

    async def open(
        self, words: bytes = b"", tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A client that has said this."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=tls)
        writer.write(words)
        return reader, writer

    async def ask(self, words: bytes, tls: ssl.SSLContext | None = None, *, header: bytes = b"") -> bytes:
        """What a client is answered; nothing if it is turned away."""
        async with asyncio.timeout(20):
            reader, writer = await self.open(header, None if header else tls)
            if header and tls is not None:
                await writer.start_tls(tls, server_hostname="127.0.0.1")
            writer.write(words)
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                answer = await reader.read(100)
            writer.close()
            with contextlib.suppress(ConnectionResetError):
                await writer.wait_closed()
            return answer

    def reset(self, words: bytes, linger: bytes = b"\1" + bytes(7)) -> None:
        """A client says this and resets its connection, or closes it."""
        with socket.create_connection(("127.0.0.1", self.port)) as sock:
            sock.sendall(words)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A CA for the whole file."""
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def context(authority: Authority) -> ssl.SSLContext:
    """The server's TLS."""
    pair = authority.issue("server", "127.0.0.1")
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(pair.cert, pair.key)
    return made


@pytest.fixture(autouse=True)
def _told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


@pytest.fixture
def _short_timeout() -> Iterator[None]:
    with mock.patch.object(module, "SESSIONLESS_TIMEOUT", 0.05):
        yield


@asynccontextmanager
async def listening(
    context: ssl.SSLContext | None = None,
    headers: ProxyProtocol = _NO_HEADERS,
    *,
    plain: bool = True,
    address: str = "127.0.0.1",
    places: int = 100,
    is_left: bool = False,
) -> AsyncIterator[FakePorts]:
    """A listener, to which all places are given back, unless clients are left at its end."""
    tasks = Tasks()
    host = FakePorts(tasks, headers, places, address)
    tls: Any = None if context is None else SimpleNamespace(current=context)
    ports: Any = host
    clients = ClientListener(ports, tls, plain=plain)
    listener = socket.create_server(("127.0.0.1", 0))
    host.port = listener.getsockname()[1]
    clients.open(listener)
    try:
        yield host
        if not is_left:
            await host.has(places)
    finally:
        clients.close()
        await tasks.close()


async def test_both_kinds_on_one_port(authority: Authority, context: ssl.SSLContext) -> None:
    async with listening(context) as host:
        assert await host.ask(b"ruok") == b"you said ruok"
        assert await host.ask(b"\0\0\0\x2d rest") == b"you said \0\0\0\x2d rest"
        for words in (b"", b"\x16", b"ruok"):
            host.reset(words)
        assert await host.ask(b"ruok", authority.client_context()) == b"you said ruok"


async def test_many_clients_are_accepted_in_one_turn_of_the_loop() -> None:
    """uvloop's own server accepts one: a herd would open a session an entry."""
    async with listening(places=200) as host:
        with contextlib.ExitStack() as stack:
            for _ in range(90):
                stack.enter_context(socket.create_connection(("127.0.0.1", host.port)))
            while not host.asked:  # noqa: ASYNC110 - turn by turn
                await asyncio.sleep(0)
            assert host.asked == 90


async def test_a_port_for_tls_alone(
    authority: Authority, context: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(context, plain=False) as host:
        assert await host.ask(b"ruok") == b""
        assert await host.ask(b"ruok", authority.client_context()) == b"you said ruok"
    assert "it does not use TLS" in caplog.text


@pytest.mark.usefixtures("_short_timeout")
@pytest.mark.parametrize("words", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00"])
async def test_who_says_nothing_or_half_a_hello_is_turned_away_and_holds_nobody_up(
    authority: Authority, context: ssl.SSLContext, words: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(context) as host, asyncio.timeout(20):
        reader, writer = await host.open(words)
        await until(lambda: host.asked == 1)  # its time has begun
        with mock.patch.object(module, "SESSIONLESS_TIMEOUT", 20.0):  # for those that come later
            assert await host.ask(b"ruok", authority.client_context()) == b"you said ruok"
        with contextlib.suppress(ConnectionResetError):  # what it said was not read
            assert await reader.read() == b""
        writer.close()
        await host.has(100)
        assert host.counters.sessionless_expired == 1
    for message in caplog.messages:
        assert "aborting the connection" not in message or " 0.1 seconds" in message


async def test_what_is_no_tls_after_all_is_logged_once_with_a_reason(
    context: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(context) as host:
        _, writer = await host.open(b"\x16\x03\x01\x02")
        writer.close()
        await until(lambda: bool(caplog.records))
        for _ in range(3):
            await host.ask(b"\x16\xff\xff\xff\xff nonsense")
    reasons = [said.partition("cannot let 127.0.0.1 in: ")[2] for said in caplog.messages]
    assert all(reasons)
    assert len(reasons) == len(set(reasons)) == 2


async def test_a_handshake_begins_with_a_whole_record(authority: Authority, context: ssl.SSLContext) -> None:
    """So nobody can have many begin, and cost their time in one turn of the loop."""
    hello = authority.hello()
    async with listening(context) as host, asyncio.timeout(60):
        accept = host.handshakes.accept
        reader, writer = await host.open()
        with mock.patch.object(host.handshakes, "accept", side_effect=accept) as begun:
            for byte in hello[:-1]:
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
            await asyncio.sleep(0.05)
            assert not begun.called
            writer.write(hello[-1:])
            assert await reader.read(1) == b"\x16"  # the server's hello
        writer.close()


async def test_one_too_many_is_turned_away_before_a_handshake(context: ssl.SSLContext) -> None:
    async with listening(context, places=3) as host:
        silent = [await host.open() for _ in range(2)]
        await host.has(1)
        assert await host.ask(b"ruok") == b""
        for _, writer in silent:
            writer.close()
        await host.has(2)
        assert await host.ask(b"ruok") == b"you said ruok"
        host.places += 1  # that of the client that was turned away, which FakePorts has taken


async def test_a_listener_that_closes_closes_those_that_are_not_let_in_yet(context: ssl.SSLContext) -> None:
    async with listening(context, is_left=True) as host:
        reader, writer = await host.open()
        await host.has(99)
    async with asyncio.timeout(20):
        assert await reader.read() == b""
    writer.close()
    assert host.places == 100


async def test_without_descriptors_it_waits_for_some() -> None:
    refused = OSError(24, "Too many open files")
    with mock.patch("proxy.support.ports._PAUSE", 0.01), mock.patch.object(socket.socket, "accept") as accept:
        accept.side_effect = [refused, refused, refused, BlockingIOError]
        async with listening() as host:
            _, writer = await host.open()
            await until(lambda: accept.call_count >= 4)
            writer.close()


@pytest.mark.parametrize("number", [errno.EPROTO, errno.ETIMEDOUT, errno.EPROTONOSUPPORT])
async def test_an_error_of_the_network_in_accept_is_that_clients_alone(number: int) -> None:
    raised: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: raised.append(context))
    with mock.patch.object(socket.socket, "accept") as accept:
        accept.side_effect = chain([OSError(number, "an error")], repeat(BlockingIOError))
        async with listening() as host:
            _, writer = await host.open()
            await until(lambda: accept.call_count >= 2)
            writer.close()
    assert raised == []


# -- behind a load balancer --------------------------------------------------------------------------------

_HEADERS = [line(_CLIENT), binary(_CLIENT), binary(_CLIENT, tlvs=b"\x04\x01\x00" + bytes(256))]


@pytest.mark.parametrize("header", _HEADERS)
@pytest.mark.parametrize("mode", [ACCEPT, REQUIRE])
async def test_a_header_names_the_client(
    authority: Authority, context: ssl.SSLContext, header: bytes, mode: str
) -> None:
    async with listening(context, ProxyProtocol(mode, _HERE), address=_CLIENT[0]) as host:
        assert await host.ask(b"ruok", header=header) == b"you said ruok"
        assert await host.ask(b"ruok", authority.client_context(), header=header) == b"you said ruok"
    assert host.sources == [_CLIENT, _CLIENT]


@pytest.mark.parametrize("header", _HEADERS[:2])
async def test_a_header_that_comes_byte_by_byte_is_read_whole(header: bytes) -> None:
    async with listening(None, _REQUIRED, address=_CLIENT[0]) as host, asyncio.timeout(20):
        reader, writer = await host.open()
        for byte in header + b"r":
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        assert (await reader.readexactly(10)) == b"you said r"
        writer.close()


@pytest.mark.parametrize(
    ("headers", "header"),
    [
        *((_REQUIRED, header) for header in (b"PROXY UNKNOWN\r\n", binary(None, command=0), binary(None))),
        (ProxyProtocol(ACCEPT, _HERE), b""),
    ],
)
async def test_a_balancer_that_speaks_for_itself_is_the_client(headers: ProxyProtocol, header: bytes) -> None:
    async with listening(None, headers) as host:
        assert await host.ask(header + b"ruok") == b"you said ruok"


@pytest.mark.parametrize("begin", [b"", binary(None, command=0), line(_CLIENT)])
async def test_a_health_check_that_only_connects_leaves_no_line(
    begin: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    address = _CLIENT[0] if begin == line(_CLIENT) else "127.0.0.1"
    async with listening(None, _REQUIRED, address=address) as host:
        host.reset(begin, bytes(8))
        host.reset(begin)
        assert await host.ask(line((address, 1)) + b"ruok") == b"you said ruok"  # after these
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (b"ruok", "there is none, the connection begins with b'ruok'"),
        (b"PROXY TCP4 1.2.3.4", "the connection ends after 18 bytes"),
        (binary(_CLIENT)[:20], "the connection ends after 20 bytes"),
        (binary(_CLIENT, tlvs=bytes(5000)), "it has 5028 bytes, more than 4096"),
        (b"\r\n\r\nwhat", "it begins with"),
    ],
)
async def test_without_a_good_header_the_connection_is_closed_with_one_line(
    words: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Which are good is in test_proxy_protocol.py."""
    async with listening(None, _REQUIRED) as host, asyncio.timeout(20):
        reader, writer = await host.open(words)
        writer.write_eof()
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
    assert [reason in message for message in caplog.messages] == [True]
    assert "closing 127.0.0.1: its PROXY header: " in caplog.text


@pytest.mark.usefixtures("_short_timeout")
@pytest.mark.parametrize("words", [b"", b"PROXY", binary(_CLIENT)[:-1]])
async def test_who_is_late_with_its_header_is_closed_and_takes_no_place(
    words: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(None, ProxyProtocol(ACCEPT, _HERE)) as host, asyncio.timeout(20):
        # Its words are there when it is accepted: a busy machine does not make them late.
        sock = socket.create_connection(("127.0.0.1", host.port))
        sock.sendall(words)
        sock.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=sock)
        assert await reader.read() == b""
        writer.close()
        assert host.counters.sessionless_expired == 1
    said = ["closing 127.0.0.1: its PROXY header is not complete after 0 s"]
    assert caplog.messages == (said if words else [])


@pytest.mark.parametrize("header", _HEADERS[:2])
async def test_a_header_from_anybody_else_forges_nothing(
    header: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """It is data of the client itself: no packet that the server would understand."""
    async with listening(None, ProxyProtocol(ACCEPT, _ELSEWHERE)) as host:
        assert await host.ask(header) == b"you said " + header
    assert [address for address, _ in host.sources] == ["127.0.0.1"]
    async with listening(None, ProxyProtocol(REQUIRE, _ELSEWHERE)) as host:
        assert await host.ask(header + b"ruok") == b""
    assert "closing 127.0.0.1: it is none of --proxy-protocol-from" in caplog.text


async def test_places_are_those_of_the_clients_behind_the_balancer() -> None:
    async with listening(None, _REQUIRED, address=_CLIENT[0], places=2, is_left=True) as host:
        first, writer = await host.open(line(_CLIENT) + b"r")
        await first.readexactly(10)
        assert await host.ask(line(_CLIENT) + b"ruok") == b""
        writer.close()
        await host.has(1)  # of two: the refused one is not given back


def test_a_name_with_addresses_of_both_families_is_taken_for_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    """As localhost on Debian, where the IPv6 address comes first."""
    found = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with bound_socket("localhost", 0) as bound:
        assert bound.family == socket.AF_INET
