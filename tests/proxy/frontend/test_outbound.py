"""What is sent to one client: one write at a time, when it is read from, and how it ends."""

import asyncio
from typing import cast

import pytest

from lab.fakes.connection import PaperLoop, PaperTransport
from proxy.frontend.outbound import Outbound


class _Way:
    def __init__(self) -> None:
        self.loop = PaperLoop()
        self.outbound = Outbound(cast(asyncio.AbstractEventLoop, self.loop), [])
        self.transport = PaperTransport()
        self.outbound.transport = self.transport


@pytest.fixture
def way() -> _Way:
    return _Way()


def test_what_is_to_be_sent_is_one_write(way: _Way) -> None:
    way.outbound.out += [b"one", b"two"]
    way.outbound.flush()
    way.outbound.flush()
    assert way.transport.writes == [b"onetwo"]
    assert way.outbound.sent == 2


def test_the_end_comes_after_what_is_to_be_sent(way: _Way) -> None:
    way.outbound.out.append(b"last")
    way.outbound.end()
    assert not way.transport.is_closed()
    way.outbound.flush()
    assert way.transport.writes == [b"last"]
    assert way.transport.is_closed()


def test_who_takes_nothing_is_cut_off(way: _Way, monkeypatch: pytest.MonkeyPatch) -> None:
    aborted: list[bool] = []
    monkeypatch.setattr(way.transport, "abort", lambda: aborted.append(True))
    way.outbound.end()
    way.loop.wait(4.9)
    assert not aborted
    way.loop.wait(0.1)
    assert aborted == [True]


def test_nothing_is_left_of_a_transport_that_is_gone(way: _Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(way.transport, "abort", None)
    way.outbound.end()
    way.outbound.out.append(b"lost")
    way.outbound.lost()
    way.outbound.pause_reading()
    way.outbound.flush()
    way.loop.wait(60)
    assert way.transport.writes == []
    assert way.outbound.ended
    assert way.transport.is_read()


@pytest.mark.parametrize("reason", ["ended", "draining", "writing_paused"])
def test_a_client_is_read_from_again_unless_there_is_a_reason_not_to(way: _Way, reason: str) -> None:
    way.outbound.pause_reading()
    way.outbound.pause_reading()
    assert not way.transport.is_read()
    setattr(way.outbound, reason, True)
    way.outbound.resume_reading()
    assert not way.transport.is_read()
    setattr(way.outbound, reason, False)
    way.outbound.resume_reading()
    way.outbound.resume_reading()
    assert way.transport.is_read()
