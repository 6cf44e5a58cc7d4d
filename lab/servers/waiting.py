"""Polling with deadlines: the only way in which tests wait for something that sends them no notification."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(probe: Callable[[], T], what: str, timeout: float = 60.0, interval: float = 0.02) -> T:
    """Call `probe` until it returns something true, and return that.

    `timeout` and `interval` are seconds. Raises TimeoutError naming `what` when the time is up.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise TimeoutError(f"not within {timeout} s: {what}; the last answer was {value!r}")
        time.sleep(interval)


async def eventually(
    probe: Callable[[], Awaitable[T]], what: str, timeout: float = 60.0, interval: float = 0.02
) -> T:
    """Like wait_until, for a coroutine function on the event loop."""
    deadline = time.monotonic() + timeout
    while True:
        value = await probe()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise TimeoutError(f"not within {timeout} s: {what}; the last answer was {value!r}")
        await asyncio.sleep(interval)
