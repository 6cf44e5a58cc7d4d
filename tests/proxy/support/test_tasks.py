"""The registry of tasks: none is lost, none fails in silence."""

import asyncio
import logging

import pytest

from proxy.support.tasks import Tasks, together


async def _until_cancelled(ended: list[str], turns: int = 1) -> None:
    """Run for ever; when that is cancelled, clean up for so many turns of the loop, and note it."""
    try:
        await asyncio.Event().wait()
    finally:
        for _ in range(turns):
            await asyncio.sleep(0)
        ended.append("here")


async def test_a_task_that_fails_is_logged_unless_its_owner_reports_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(error: Exception) -> None:
        raise error

    tasks = Tasks()
    reported = tasks.start(fail(KeyError("told")), "do something", reported=(KeyError, OSError))
    other = tasks.start(fail(ValueError("a bug")), "do another thing", reported=(KeyError, OSError))
    await asyncio.wait((reported, other))
    await asyncio.sleep(0)
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "failed to do another thing")
    assert "a bug" in caplog.text


async def test_closing_cancels_what_runs_and_waits_for_it(caplog: pytest.LogCaptureFixture) -> None:
    ended: list[str] = []

    tasks = Tasks()
    tasks.start(_until_cancelled(ended), "run for ever")
    await asyncio.sleep(0)
    await tasks.close()
    assert ended == ["here"]
    assert caplog.records == []


async def test_the_first_error_of_several_is_raised_when_the_others_have_ended() -> None:
    ended: list[str] = []

    async def fail() -> None:
        await asyncio.sleep(0)
        raise OSError("by the test")

    with pytest.raises(OSError, match="by the test"):
        await together([_until_cancelled(ended), fail(), _until_cancelled(ended)])
    assert ended == ["here", "here"]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_who_cancels_several_cancels_each_of_them_once() -> None:
    ended: list[str] = []

    async def nothing() -> None:
        pass

    tasks = Tasks()
    task = tasks.start(
        together([_until_cancelled(ended), nothing(), _until_cancelled(ended, 5)]), "run several"
    )
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await tasks.close()
    assert task.cancelled()
    assert ended == ["here", "here"]


async def test_who_cancels_several_is_obeyed_if_one_fails_at_the_same_time() -> None:
    failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def fail() -> None:
        await failing

    tasks = Tasks()
    task = tasks.start(together([fail(), asyncio.Event().wait()]), "run several")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    failing.set_exception(OSError("told"))
    asyncio.get_running_loop().call_soon(task.cancel)
    await asyncio.wait([task])
    assert task.cancelled()


async def test_several_end_when_all_have_ended() -> None:
    ended: list[int] = []

    async def run(turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        ended.append(turns)

    await together(run(turns) for turns in (3, 1, 2))
    assert ended == [1, 2, 3]
    await together([])
