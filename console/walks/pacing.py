"""Slices of long work: the loop serves clients between them, and gets at least as much time as all work."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from time import perf_counter
from typing import TypeVar

_SLICE = 0.004  # seconds
_PAUSE = 0.004  # seconds

Item = TypeVar("Item")


class Pace:
    """The slices of one request. Those that share a lock have one slice at a time, with pauses between."""

    def __init__(self, turn: asyncio.Lock, is_gone: Callable[[], bool]) -> None:
        """`turn`: that of all requests together: else a hundred of them would hold the loop for 0.4 s.

        `is_gone`: whether nobody waits for the answer any more.
        """
        self._turn = turn
        self._is_gone = is_gone
        self._end = 0.0

    async def rest(self) -> None:
        """Let others have the loop if the slice is over, or has not begun.

        Raises ConnectionError if nobody waits for the answer any more: who closes at once could leave minutes
        of work with each request.
        """
        if perf_counter() >= self._end:
            # Who has had the pause runs on at once, while the next one pauses.
            async with self._turn:
                if self._is_gone():
                    raise ConnectionAbortedError("nobody waits for the answer")
                await asyncio.sleep(_PAUSE)
            self._end = perf_counter() + _SLICE


async def paced(items: Iterator[Item | None], pace: Pace) -> AsyncIterator[Item]:
    """What an iterator yields besides None, with pauses."""
    await pace.rest()
    for item in items:
        await pace.rest()
        if item is not None:
            yield item
