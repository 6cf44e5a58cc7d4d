"""Runs of simulated hosts that fail, last and keep a pace."""

import asyncio
import time

import pytest

from codec.constants import ErrorCode
from examples.invariants import Violation
from examples.runner import Pace, Period, background, forever
from lab.client.session import ConnectionLost, ZooKeeperError


async def test_a_period_lasts_as_long_as_what_happens_meanwhile() -> None:
    event = asyncio.Event()

    async def meanwhile() -> None:
        await event.wait()

    assert Period(0.0).over
    assert not Period(3600.0).over
    period = Period(0.0, meanwhile)
    assert not period.over
    event.set()
    await period.run_others()
    assert period.over


@pytest.mark.parametrize(
    "error", [Violation("one", "is broken"), ConnectionLost("lost"), ZooKeeperError(ErrorCode.NO_NODE, "get")]
)
async def test_what_ends_a_task_ends_the_run(error: Exception) -> None:
    async def fail() -> None:
        raise error

    with pytest.raises(type(error)) as found:
        async with background([fail(), asyncio.Event().wait()]):  # type: ignore[list-item]
            await asyncio.Event().wait()
    assert found.value is error


async def test_tasks_end_with_the_run() -> None:
    ended = asyncio.Event()

    async def task() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with background([task()]):
        await asyncio.sleep(0)
    assert ended.is_set()


async def test_a_task_begins_again_after_a_lost_connection() -> None:
    times = 0

    async def task() -> None:
        nonlocal times
        times += 1
        if times == 3:
            raise Violation("one", "is broken")
        raise ConnectionLost("lost")

    with pytest.raises(Violation):
        await forever(task)


async def test_a_pace_holds_up_whoever_is_too_early() -> None:
    begun = time.monotonic()
    pace = Pace(100.0)
    for _ in range(4):
        assert await pace.turn(Period(3600.0))
    assert time.monotonic() - begun >= 0.03
    assert not await Pace(0.001).turn(Period(0.0)), "who waits does not wait longer than the period"
    free = Pace(0.0)
    async with asyncio.timeout(60.0):
        for _ in range(1000):
            assert await free.turn(Period(3600.0))
