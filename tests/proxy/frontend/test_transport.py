"""What is sent to one client: one write at a time, when it is read from, and how it ends."""

import asyncio
import math
import socket
import ssl
import time
from pathlib import Path
from typing import cast
from unittest import mock

import pytest
import uvloop

from lab.fakes.connection import FakeLoop, FakeTransport
from lab.servers.tls import Authority
from proxy.frontend.transport import Outbound
from tests.proxy.log.proxies import until

_TICK = 0.02  # seconds: the kernel counts in jiffies


class _Way:
    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.outbound = Outbound(cast(asyncio.AbstractEventLoop, self.loop))
        self.transport = FakeTransport()
        self.outbound.open(self.transport)


@pytest.fixture
def way() -> _Way:
    return _Way()


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_client_that_takes_nothing_is_cut_off_unless_it_is_gone(way: _Way, is_lost: bool) -> None:
    with mock.patch.object(way.transport, "abort") as abort:
        way.outbound.send([], True)
        if is_lost:
            way.outbound.lost()
            way.outbound.pause_reading()
            way.outbound.send([b"lost"], False)
        way.loop.wait(4.9)
        assert not abort.called
        way.loop.wait(0.1)
        assert abort.called is not is_lost
    assert way.transport.writes == []
    assert way.transport.is_read()


def test_what_a_closed_client_has_not_read_counts_until_it_is_cut_off(way: _Way) -> None:
    with mock.patch.object(way.transport, "get_write_buffer_size", return_value=7):
        assert way.outbound.unread == 7
        way.outbound.send([], True)
        assert (way.outbound.unread, way.outbound.unsent) == (7, 0)
        with mock.patch.object(way.transport, "abort") as abort:
            way.outbound.abort()
            way.outbound.abort()
        assert abort.call_count == 1
        assert way.outbound.unread == 0
        way.outbound.lost()


class _Taken(asyncio.Protocol):
    """Sends the client, once it has said something, 16 MiB."""

    def __init__(self) -> None:
        self.outbound = Outbound(asyncio.get_running_loop())
        self.unread: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.outbound.open(cast(asyncio.Transport, transport))

    def data_received(self, data: bytes) -> None:
        self.outbound.send([bytes(8 << 20), bytes(8 << 20)], False)
        self.unread.set_result(self.outbound.unread)


def test_what_a_client_with_tls_has_not_read_counts(tmp_path: Path) -> None:
    """Its transport does not count what it has handed on: all of it, if it is one write."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(_kept_for_a_client_that_reads_nothing(tmp_path)) > 4 << 20


async def _kept_for_a_client_that_reads_nothing(tmp_path: Path) -> int:
    authority = Authority(tmp_path)
    pair = authority.issue("server", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    made: list[_Taken] = []

    def make() -> _Taken:
        made.append(_Taken())
        return made[-1]

    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    client = authority.client_context()
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, limit=1000)
    writer.write(b"some")
    await until(lambda: bool(made) and made[0].unread.done())
    made[0].outbound.abort()
    writer.transport.abort()
    server.close()
    return made[0].unread.result()


def test_the_kernel_knows_how_long_a_client_was_silent() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    accepted, _ = listener.accept()
    transport = FakeTransport()
    outbound = Outbound(cast(asyncio.AbstractEventLoop, FakeLoop()))
    assert outbound.silence() == math.inf
    with listener, client, accepted, mock.patch.object(transport, "get_extra_info", {"socket": accepted}.get):
        outbound.open(transport)
        client.sendall(b"never read")
        time.sleep(0.3)
        began = time.monotonic()
        accepted.sendall(bytes(10))
        assert outbound.silence() <= time.monotonic() - began + _TICK  # it took something
        time.sleep(0.3)
        assert outbound.silence() >= 0.59  # it sent nothing since
        began = time.monotonic()
        client.sendall(b"a ping")
        assert outbound.silence() <= time.monotonic() - began + _TICK
        outbound.lost()
        assert outbound.silence() == math.inf
