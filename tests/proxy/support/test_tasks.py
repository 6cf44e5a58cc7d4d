"""The registry of tasks: none is lost, none fails in silence."""

import asyncio
import logging

import pytest

from proxy.support.tasks import Tasks


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
