"""The way out to one client: one write a turn, when it is read from, and how it ends."""

import asyncio
from typing import cast

import pytest

from proxy.outlet import Outlet
from tests.proxy.paper import PaperLoop, PaperTransport


class _Way:
    def __init__(self) -> None:
        self.loop = PaperLoop()
        self.outlet = Outlet(cast(asyncio.AbstractEventLoop, self.loop))
        self.transport = PaperTransport()
        self.outlet.transport = self.transport


@pytest.fixture
def way() -> _Way:
    return _Way()


def test_what_is_to_be_sent_by_the_end_of_a_turn_is_one_write(way: _Way) -> None:
    for packet in (b"one", b"two"):
        way.outlet.out.append(packet)
        way.outlet.schedule_flush()
    assert way.transport.writes == []
    way.loop.run()
    way.outlet.schedule_flush()
    way.loop.run()
    assert way.transport.writes == [b"onetwo"]
    assert way.outlet.sent == 2


def test_the_end_comes_after_what_is_to_be_sent(way: _Way) -> None:
    way.outlet.out.append(b"last")
    way.outlet.end()
    assert not way.transport.is_closed()
    way.loop.run()
    assert way.transport.writes == [b"last"]
    assert way.transport.is_closed()


def test_who_takes_nothing_is_cut_off(way: _Way, monkeypatch: pytest.MonkeyPatch) -> None:
    aborted: list[bool] = []
    monkeypatch.setattr(way.transport, "abort", lambda: aborted.append(True))
    way.outlet.end()
    way.loop.wait(4.9)
    assert not aborted
    way.loop.wait(0.1)
    assert aborted == [True]


def test_nothing_is_left_of_a_transport_that_is_gone(way: _Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(way.transport, "abort", None)
    way.outlet.end()
    way.outlet.out.append(b"lost")
    way.outlet.lost()
    way.outlet.pause()
    way.outlet.flush()
    way.loop.wait(60)
    assert way.transport.writes == []
    assert way.outlet.ended
    assert way.transport.is_read()


@pytest.mark.parametrize("reason", ["ended", "draining", "deaf"])
def test_a_client_is_read_from_again_unless_there_is_a_reason_not_to(way: _Way, reason: str) -> None:
    way.outlet.pause()
    way.outlet.pause()
    assert not way.transport.is_read()
    setattr(way.outlet, reason, True)
    way.outlet.resume()
    assert not way.transport.is_read()
    setattr(way.outlet, reason, False)
    way.outlet.resume()
    way.outlet.resume()
    assert way.transport.is_read()
