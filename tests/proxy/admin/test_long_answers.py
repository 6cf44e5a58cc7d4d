"""Long answers of the admin port: how many are made at once, and what they leave to others."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from lab.fakes.clock import FakeClock
from proxy.admin.long_answers import LongAnswers
from proxy.log.slices import SLICE
from proxy.state.pause import Pause


class _Request(dict[object, object]):
    def __init__(self) -> None:
        super().__init__()
        self.transport: object = object()


def _request() -> Any:
    return _Request()


async def test_few_are_under_way_and_few_have_a_slice_in_one_turn() -> None:
    answers = LongAnswers(FakeClock(step=SLICE))
    turn, seen, under_way, most = 0, list[int](), 0, 0

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def work(pause: Pause) -> str:
        for _ in range(4):
            seen.append(turn)
            pause()
        return "done"

    async def answer() -> str:
        nonlocal under_way, most
        request = _request()
        async with answers.place(request):
            under_way += 1
            most = max(most, under_way)
            made = await answers.make(work, request)
            under_way -= 1
            return made

    counting = asyncio.ensure_future(count())
    assert await asyncio.gather(*(answer() for _ in range(12))) == ["done"] * 12
    counting.cancel()
    assert len(seen) == 48
    assert most == 4
    assert max(Counter(seen).values()) <= 4
    # Between two slices of those that are under way others have the loop.
    assert len(set(seen)) >= 36


async def test_what_nobody_waits_for_is_not_made() -> None:
    answers = LongAnswers(FakeClock(step=SLICE))
    slices: list[str] = []
    first, second = _request(), _request()

    def work(pause: Pause) -> None:
        first.transport = second.transport = None  # both clients go
        while True:
            slices.append("made")
            pause()

    async def answer(request: Any) -> None:
        async with answers.place(request):
            await answers.make(work, request)

    with pytest.raises(ConnectionError):
        await answer(first)
    with pytest.raises(ConnectionError):
        await answer(second)
    assert slices == ["made"]
