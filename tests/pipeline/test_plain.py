"""Asynchronous generators as plain iterators."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from pipeline.plain import plain


def test_a_caller_that_stops_early_closes_what_is_open(caplog: pytest.LogCaptureFixture) -> None:
    """The loop's end closed all generators at once: `export` to a full disk ended with a traceback."""
    events: list[str] = []

    @asynccontextmanager
    async def connection() -> AsyncGenerator[None]:
        events.append("opened")
        try:
            yield
        finally:
            await asyncio.sleep(0)
            events.append("closed")

    async def numbers() -> AsyncGenerator[int]:
        async with connection():
            for number in range(3):
                yield number

    assert list(plain(numbers())) == [0, 1, 2]
    for number in plain(numbers()):
        assert number == 0
        break
    assert events == ["opened", "closed"] * 2
    assert not caplog.records
