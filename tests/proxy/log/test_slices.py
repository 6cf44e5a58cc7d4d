"""Long work in slices, and what has the loop meanwhile. The clock advances at each look."""

import asyncio
from collections.abc import Iterator

import pytest

from lab.fakes.clock import FakeClock
from proxy.log.slices import SLICE, Slices, StateWorker, each_in_slices, in_slices
from proxy.state.pause import Pause


async def _turns(seconds: float) -> list[int]:
    """For 12 pauses: in which turn of the loop the work before each was done, if it takes so many seconds."""
    turns: list[int] = []
    seen: list[int] = []
    loop = asyncio.get_running_loop()

    def turn() -> None:
        turns.append(1)
        if len(turns) < 100:
            loop.call_soon(turn)

    def work(pause: Pause) -> str:
        for _ in range(12):
            seen.append(len(turns))
            pause()
        return "done"

    loop.call_soon(turn)
    assert await in_slices(work, FakeClock(step=seconds)) == "done"
    return seen


async def test_other_work_has_the_loop_between_two_slices() -> None:
    seen = await _turns(SLICE / 3.5)
    assert [seen.count(turn) for turn in range(3)] == [4, 4, 4]


async def test_short_work_is_done_at_a_stretch() -> None:
    assert set(await _turns(0)) == {0}


@pytest.mark.parametrize("seconds", [0, SLICE])
async def test_an_error_is_that_of_the_coroutine(seconds: float) -> None:
    def fail(pause: Pause) -> None:
        pause()
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await in_slices(fail, FakeClock(step=seconds))


async def test_items_are_made_in_slices_and_one_by_one() -> None:
    turns: list[int] = []

    async def rest() -> None:
        turns.append(1)
        await asyncio.sleep(0)

    def make(pause: Pause) -> Iterator[int]:
        for number in range(4):
            for _ in range(3):
                pause()
            yield number
        raise ValueError("broken")

    made = each_in_slices(make, FakeClock(step=SLICE), rest)
    assert [(await anext(made), len(turns)) for _ in range(4)] == [(0, 3), (1, 6), (2, 9), (3, 12)]
    with pytest.raises(ValueError, match="broken"):
        await anext(made)
    assert [item async for item in each_in_slices(lambda _: [7, 8], FakeClock(step=SLICE))] == [7, 8]


async def test_work_that_is_given_up_ends_where_it_pauses() -> None:
    ended: list[str] = []

    def work(pause: Pause) -> None:
        try:
            while True:
                pause()
        except Exception:  # noqa: BLE001 - must not get it
            ended.append("as an error")
        finally:
            ended.append("here")

    task = asyncio.ensure_future(in_slices(work, FakeClock(step=SLICE)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["here"]


def test_work_within_work_returns_to_where_it_was_resumed() -> None:
    outer, inner = Slices(seconds=0), Slices(seconds=0)
    steps: list[str] = []

    def inner_work() -> None:
        steps.append("inner 1")
        inner()
        steps.append("inner 2")

    def outer_work() -> None:
        inner.prepare(inner_work)
        inner.resume()
        steps.append("outer 1")
        outer()
        steps.append("outer 2")

    outer.prepare(outer_work)
    outer.resume()
    inner.resume()
    assert inner.done
    outer.resume()
    assert outer.done
    assert steps == ["inner 1", "outer 1", "inner 2", "outer 2"]


async def test_what_follows_a_slice_is_done_at_its_end_and_otherwise_in_the_next_turn() -> None:
    worker = StateWorker(seconds=0)
    steps: list[str] = []

    def follow() -> None:
        steps.append("follow")

    def work() -> None:
        worker.after_slice(follow)
        steps.append("first slice")
        worker.rest()
        steps.append("second slice")

    worker.run(work)
    assert steps == ["first slice", "follow"]
    await worker.drained()
    worker.after_slice(follow)
    assert steps == ["first slice", "follow", "second slice"]
    await asyncio.sleep(0)
    assert steps[3:] == ["follow"]
