"""What ends a task ends the run, by its own error."""

import asyncio

import pytest

from codec.constants import ErrorCode
from examples.invariants import Violation
from examples.runner import background, forever
from lab.client.session import ConnectionLost, ZooKeeperError


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
