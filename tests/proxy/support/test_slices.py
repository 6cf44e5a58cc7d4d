"""A coroutine's long work, and who has the loop meanwhile. The clock goes on at each look."""

import asyncio
from collections.abc import Generator

from lab.fakes.clock import FakeClock
from proxy.support.slices import SLICE, in_slices


def _work(pieces: int, seen: list[int], turns: list[int]) -> Generator[None, None, str]:
    for _ in range(pieces):
        seen.append(len(turns))
        yield
    return "done"


async def _in_turns(seconds: float) -> list[int]:
    """For 12 pieces: in which turn of the loop each was done, if each of them takes so long."""
    turns: list[int] = []
    seen: list[int] = []
    loop = asyncio.get_running_loop()

    def turn() -> None:
        turns.append(1)
        if len(turns) < 100:
            loop.call_soon(turn)

    loop.call_soon(turn)
    assert await in_slices(_work(12, seen, turns), FakeClock(step=seconds)) == "done"
    return seen


async def test_others_have_the_loop_between_two_slices() -> None:
    seen = await _in_turns(SLICE / 3.5)
    assert [seen.count(turn) for turn in range(3)] == [4, 4, 4]


async def test_short_work_is_done_at_a_stretch() -> None:
    assert set(await _in_turns(0)) == {0}
