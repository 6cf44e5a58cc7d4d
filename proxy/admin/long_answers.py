"""Long answers: few at once, and one slice of all of them at a time.

Each keeps what it has made until its client has read it: sixty lists of all watches would use up the memory.
And sixty slices in one turn would hold the loop for longer than an etcd lease can wait.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from aiohttp import web

from proxy.admin.connections import waits
from proxy.log.slices import SLICE, in_slices
from proxy.state.pause import Pause
from proxy.support.environment import Clock

_MOST = 4

_Result = TypeVar("_Result")


class LongAnswers:
    """Those of one admin port."""

    def __init__(self, clock: Clock, most: int = _MOST) -> None:
        """`most`: answers at once."""
        self._clock = clock
        self._places = asyncio.Semaphore(most)
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def place(self, request: web.Request) -> AsyncIterator[None]:
        """A place for an answer, until it is sent. Raises ConnectionError if its client goes meanwhile."""
        with waits(request):
            await self._places.acquire()
        try:
            _demand_client(request)
            yield
        finally:
            self._places.release()

    async def make(self, work: Callable[[Pause], _Result], request: web.Request) -> _Result:
        """The result of some work. Raises ConnectionError if the client has gone."""
        return await in_slices(work, self._clock, partial(self._rest, request))

    async def _rest(self, request: web.Request) -> None:
        # Who has had the pause runs on at once, while the next one pauses.
        async with self._turn:
            await asyncio.sleep(SLICE)
        _demand_client(request)


def _demand_client(request: web.Request) -> None:
    if request.transport is None:
        raise ConnectionResetError("the client has gone")
