"""What is sent to one client: one write at a time, when it is read from, and how it ends."""

import asyncio
from typing import cast

import pytest

from lab.fakes.connection import PaperLoop, PaperTransport
from proxy.frontend.outbound import Outbound


class _Way:
    def __init__(self) -> None:
        self.loop = PaperLoop()
        self.outbound = Outbound(cast(asyncio.AbstractEventLoop, self.loop))
        self.transport = PaperTransport()
        self.outbound.open(self.transport)


@pytest.fixture
def way() -> _Way:
    return _Way()


def test_packets_are_sent_in_one_write_before_the_end(way: _Way) -> None:
    packets = [b"one", b"two"]
    way.outbound.send(packets, False)
    way.outbound.send(packets, False)
    assert packets == []
    assert way.transport.writes == [b"onetwo"]
    assert not way.transport.is_closed()
    way.outbound.send([b"last"], True)
    assert way.transport.writes == [b"onetwo", b"last"]
    assert way.transport.is_closed()
    assert way.outbound.sent == 3


def test_a_client_that_takes_nothing_is_cut_off(way: _Way, monkeypatch: pytest.MonkeyPatch) -> None:
    aborted: list[bool] = []
    monkeypatch.setattr(way.transport, "abort", lambda: aborted.append(True))
    way.outbound.send([], True)
    way.loop.wait(4.9)
    assert not aborted
    way.loop.wait(0.1)
    assert aborted == [True]


def test_nothing_is_left_of_a_transport_that_is_gone(way: _Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(way.transport, "abort", None)
    way.outbound.send([], True)
    way.outbound.lost()
    way.outbound.pause_reading()
    way.outbound.send([b"lost"], False)
    way.loop.wait(60)
    assert way.transport.writes == []
    assert way.transport.is_read()


def test_a_client_is_read_from_again_unless_the_server_stops(way: _Way) -> None:
    way.outbound.pause_reading()
    way.outbound.pause_reading()
    assert not way.transport.is_read()
    way.outbound.draining = True
    way.outbound.resume_reading()
    assert not way.transport.is_read()
    way.outbound.draining = False
    way.outbound.resume_reading()
    way.outbound.resume_reading()
    assert way.transport.is_read()
