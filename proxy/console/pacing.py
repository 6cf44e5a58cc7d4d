"""Slices of long work: the loop serves clients meanwhile, and gets at least as much time as the work."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from time import perf_counter
from typing import TypeVar

_SLICE = 0.004  # seconds
_PAUSE = 0.004  # seconds

Item = TypeVar("Item")


class Pace:
    """The slices of one request."""

    def __init__(self) -> None:
        self._end = perf_counter() + _SLICE

    async def rest(self) -> None:
        """Let others have the loop if the slice is over."""
        if perf_counter() >= self._end:
            await asyncio.sleep(_PAUSE)
            self._end = perf_counter() + _SLICE


async def paced(items: Iterator[Item | None], pace: Pace) -> AsyncIterator[Item]:
    """What an iterator yields besides None, with pauses."""
    for item in items:
        await pace.rest()
        if item is not None:
            yield item
