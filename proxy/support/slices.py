"""For how long work may hold the event loop at a stretch, and how a coroutine does long work in slices.

Part of the shell: it reads the clock. In the same turn of the loop there may be slices of other work, and a
piece of work ends a millisecond or two after the time is up. So a slice is half of what a turn may take.
"""

import asyncio
from collections.abc import Generator
from typing import TypeVar

from proxy.support.environment import HOST, Clock

#: Seconds that one kind of work may hold the loop: half of the 10 ms that a turn of the loop may take.
SLICE = 0.005

_Result = TypeVar("_Result")


async def in_slices(work: Generator[None, None, _Result], clock: Clock = HOST.clock) -> _Result:
    """Do all of some work that yields between its pieces; others have the loop between two slices."""
    deadline = clock.perf_counter() + SLICE
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: _Result = end.value
            return result
        if clock.perf_counter() >= deadline:
            await asyncio.sleep(0)
            deadline = clock.perf_counter() + SLICE
