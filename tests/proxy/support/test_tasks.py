"""The registry of tasks: none is lost, none fails in silence."""

import asyncio
import logging

import pytest

from proxy.support.tasks import Tasks


async def test_a_task_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("on purpose")

    tasks = Tasks()
    task = tasks.start(fail(), "do something")
    with pytest.raises(ValueError, match="on purpose"):
        await task
    await asyncio.sleep(0)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == "failed to do something"
    assert "on purpose" in caplog.text


async def test_closing_cancels_what_runs_and_waits_for_it(caplog: pytest.LogCaptureFixture) -> None:
    ended: list[str] = []

    async def run() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("here")

    tasks = Tasks()
    tasks.start(run(), "run for ever")
    await asyncio.sleep(0)
    await tasks.close()
    assert ended == ["here"]
    assert caplog.records == []


async def test_a_task_gives_its_result() -> None:
    async def give() -> int:
        return 5

    tasks = Tasks()
    assert await tasks.start(give(), "give") == 5
    await tasks.close()
