"""What is sent to one client: one write at a time, when it is read from, and how it ends."""

import asyncio
import math
import socket
import time
from typing import cast
from unittest import mock

import pytest

from lab.fakes.connection import FakeLoop, FakeTransport
from lab.servers import wait_until
from proxy.frontend.transport import Outbound
from proxy.support.counters import Counters

_TICK = 0.02  # seconds: the kernel counts in jiffies


class _Way:
    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.outbound = Outbound(cast(asyncio.AbstractEventLoop, self.loop), Counters())
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


def test_the_kernel_knows_how_long_a_client_was_silent() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    accepted, _ = listener.accept()
    transport = FakeTransport()
    outbound = Outbound(cast(asyncio.AbstractEventLoop, FakeLoop()), Counters())
    assert outbound.measure_silence() == math.inf
    with listener, client, accepted, mock.patch.object(transport, "get_extra_info", {"socket": accepted}.get):
        outbound.open(transport)
        client.sendall(b"never read")
        wait_until(lambda: outbound.measure_silence() > 0.1, "the client is silent for a while")
        began = time.monotonic()
        accepted.sendall(bytes(10))
        assert outbound.measure_silence() <= time.monotonic() - began + _TICK  # it took something
        assert outbound.measure_silence() > 0.1  # it sent nothing since
        began = time.monotonic()
        client.sendall(b"a ping")
        assert outbound.measure_silence() <= time.monotonic() - began + _TICK
        outbound.lost()
        assert outbound.measure_silence() == math.inf
