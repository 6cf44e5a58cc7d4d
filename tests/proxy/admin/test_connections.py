"""The admin port's connections: slow and idle ones end, and there is always a place for a request."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from unittest import mock

import pytest
from aiohttp import web

from proxy.admin import connections as module
from proxy.admin.connections import AdminConnection, AdminConnections
from proxy.admin.long_answers import LongAnswers
from proxy.frontend.listener import bound_socket
from proxy.support.environment import HOST
from proxy.support.ports import BoundedPort, Bounds, Slot
from tests.proxy.log.proxies import until

_LARGE = 8 << 20


class Site:
    """A port with 4 places, 3 of them for one address."""

    def __init__(self, port: int, connections: AdminConnections, bounded: BoundedPort) -> None:
        self.port = port
        self.connections = connections
        self.bounded = bounded
        self.requests = 0
        self.opened: list[asyncio.StreamWriter] = []

    async def open(self, words: bytes, address: str = "127.0.0.1") -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(address, 0))
        self.opened.append(writer)
        writer.write(words)
        return reader

    async def ask(self, path: str, address: str = "127.0.0.1") -> bytes:
        """The first line of the answer; nothing if the connection is closed."""
        try:
            reader = await self.open(
                f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode(), address
            )
            return await reader.readline()
        except ConnectionResetError:
            return b""

    @property
    def idle(self) -> int:
        return len(list(self.connections.idle))

    @property
    def taken(self) -> int:
        return self.bounded.taken.total()


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    listener = bound_socket("127.0.0.1", 0)
    connections = AdminConnections()
    busy = asyncio.Event()

    answers = LongAnswers(HOST.clock, most=1)

    async def short(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def few(request: web.Request) -> web.Response:
        made.requests += 1
        async with answers.place(request):
            await busy.wait()
        return web.Response(text="ok")

    async def body(request: web.Request) -> web.Response:
        made.requests += 1
        await request.read()
        return web.Response(text="ok")

    async def long(_request: web.Request) -> web.Response:
        await busy.wait()
        return web.Response(text="ok")

    async def large(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(8):
            await response.write(bytes(_LARGE // 8))
        return response

    application = web.Application(middlewares=[connections.watched])
    application.add_routes([web.get("/", short), web.get("/long", long), web.get("/large", large)])
    application.add_routes([web.get("/few", few), web.post("/body", body)])
    runner = web.AppRunner(application, access_log=None, keepalive_timeout=60.0, shutdown_timeout=0.1)
    await runner.setup()
    assert runner.server is not None
    bounded = BoundedPort(listener, Bounds(4, 3), "a test", None, connections.make_room)
    bounded.open(connections.maker(runner.server))
    made = Site(listener.getsockname()[1], connections, bounded)
    try:
        yield made
    finally:
        for writer in made.opened:
            writer.close()
        await bounded.close()
        await runner.cleanup()


@pytest.mark.parametrize("words", [b"", b"GET / HTTP/1.1\r\nHost: ", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"])
async def test_a_connection_without_a_request_ends(words: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_TIMEOUT", 0.05)
    async with site() as port:
        reader = await port.open(words)
        await until(lambda: reader.at_eof() or reader.exception() is not None or bool(reader._buffer))  # type: ignore[attr-defined]
        await until(lambda: port.taken == 0)


async def test_headers_that_drip_do_not_prolong_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_TIMEOUT", 0.2)
    async with site() as port:
        await port.open(b"GET / HTTP/1.1\r\n")
        await until(lambda: port.taken == 1)
        for number in range(1000):
            if not port.taken:
                break
            port.opened[0].write(b"X-%d: a\r\n" % number)
            await asyncio.sleep(0.01)
        assert not port.taken


async def test_a_request_may_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_TIMEOUT", 0.5)
    async with site() as port:
        reader = await port.open(b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
        await until(lambda: len(port.connections.by_transport) == 1 and not port.idle)
        idle = await port.open(b"")
        assert await idle.read() == b""
        assert not reader.at_eof()
        assert port.taken == 1


async def test_a_client_that_reads_no_answer_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_TIMEOUT", 0.2)
    async with site() as port:
        reader = await port.open(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        await until(lambda: port.taken == 1)
        await until(lambda: port.taken == 0)
        come = 0
        with suppress(ConnectionResetError):
            while data := await reader.read(1 << 20):
                come += len(data)
        assert come < _LARGE


async def test_an_address_has_a_place_for_a_request_beside_idle_connections() -> None:
    async with site() as port:
        idle = [await port.open(b"") for _ in range(3)]
        await until(lambda: port.idle == 3)
        assert await port.ask("/") == b"HTTP/1.1 200 OK\r\n"
        await until(lambda: sum(reader.at_eof() or reader.exception() is not None for reader in idle) == 1)


async def test_idle_connections_give_way_to_a_request() -> None:
    async with site() as port:
        idle = [await port.open(b"", f"127.0.0.{number}") for number in (1, 1, 2, 2)]
        await until(lambda: port.idle == 4)
        assert await port.ask("/", "127.0.0.3") == b"HTTP/1.1 200 OK\r\n"
        await until(lambda: sum(reader.at_eof() or reader.exception() is not None for reader in idle) == 1)
        assert idle[0].at_eof() or idle[0].exception() is not None


async def test_requests_whose_bodies_do_not_come_give_way(caplog: pytest.LogCaptureFixture) -> None:
    async with site() as port:
        for number in (1, 1, 2, 2):
            words = b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"
            await port.open(words, f"127.0.0.{number}")
        await until(lambda: port.requests == 4)
        assert await port.ask("/", "127.0.0.3") == b"HTTP/1.1 200 OK\r\n"
        assert "closing" not in caplog.text


async def test_a_fault_of_the_parser_ends_one_connection() -> None:
    everything = AdminConnections()
    inner = mock.Mock(asyncio.Protocol)
    inner.data_received.side_effect = ZeroDivisionError
    transport = mock.Mock(asyncio.Transport)
    transport.is_closing.return_value = False
    connection = AdminConnection(inner, Slot(Counter(), "a"), everything)
    connection.connection_made(transport)
    connection.data_received(b"GET / HTTP/1.1")
    transport.abort.assert_called_once()


async def test_what_is_taken_while_the_connection_closes_is_no_request() -> None:
    """The log had a traceback of aiohttp for each."""
    loop = asyncio.get_running_loop()
    raised: list[object] = []
    loop.set_exception_handler(lambda _, context: raised.append(context))
    server = web.Server(mock.AsyncMock())
    transport = mock.Mock(asyncio.Transport)
    connection = AdminConnection(server(), Slot(Counter(), "a"), AdminConnections())
    connection.connection_made(transport)
    await asyncio.sleep(0)  # aiohttp waits for a request from here on
    transport.is_closing.return_value = True
    loop.call_soon(connection.connection_lost, None)
    connection.data_received(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    for _ in range(3):
        await asyncio.sleep(0)
    assert raised == []


async def test_a_request_whose_client_has_gone_is_not_begun() -> None:
    handler = mock.AsyncMock()
    with pytest.raises(ConnectionResetError):
        await AdminConnections().watched(mock.Mock(web.Request, transport=None), handler)
    handler.assert_not_called()


async def test_requests_that_wait_for_others_give_way(caplog: pytest.LogCaptureFixture) -> None:
    async with site() as port:
        for number in (1, 1, 2, 2):
            await port.open(b"GET /few HTTP/1.1\r\nHost: a\r\n\r\n", f"127.0.0.{number}")
        await until(lambda: port.requests == 4)
        assert port.idle == 3
        assert await port.ask("/", "127.0.0.3") == b"HTTP/1.1 200 OK\r\n"
        assert "closing" not in caplog.text


async def test_one_address_has_not_all_places_and_busy_ones_do_not_give_way(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with site() as port:
        asked = b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n"
        for _ in range(3):
            await port.open(asked)
        await until(lambda: len(port.connections.by_transport) == 3 and not port.idle)
        assert await port.ask("/") == b""
        assert "closing a connection of a test: there are 3 from 127.0.0.1" in caplog.text
        assert await port.ask("/", "127.0.0.2") == b"HTTP/1.1 200 OK\r\n"
        await until(lambda: port.taken == 3)
        await port.open(asked, "127.0.0.2")
        await until(lambda: len(port.connections.by_transport) == 4 and not port.idle)
        assert await port.ask("/", "127.0.0.3") == b""
        assert "there are 4" in caplog.text
