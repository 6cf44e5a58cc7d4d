"""Slices of long work."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from time import perf_counter

import pytest

from console.walks.pacing import Pace, paced

_WORK = 0.02  # seconds of one request: several slices


def _work() -> Iterator[int]:
    """Keeps the loop busy between what it yields."""
    end = perf_counter() + _WORK
    place = 0
    while perf_counter() < end:
        yield place
        place += 1


async def test_many_requests_have_one_slice_at_a_time() -> None:
    turn = 0
    workers: defaultdict[int, set[int]] = defaultdict(set)  # by turns of the loop

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def work(worker: int, pace: Pace) -> None:
        async for _ in paced(_work(), pace):
            workers[turn].add(worker)

    counting = asyncio.create_task(count_turns())
    together = asyncio.Lock()
    await asyncio.gather(*(work(worker, Pace(together, lambda: False)) for worker in range(5)))
    counting.cancel()
    assert set().union(*workers.values()) == set(range(5))
    assert all(len(each) == 1 for each in workers.values())


async def test_work_ends_once_nobody_waits_for_it() -> None:
    rests = 0
    pace = Pace(asyncio.Lock(), lambda: rests > 0)

    async def work() -> None:
        nonlocal rests
        while True:
            await pace.rest()
            rests += 1

    with pytest.raises(ConnectionError):
        await work()
    assert rests, "it had begun"
