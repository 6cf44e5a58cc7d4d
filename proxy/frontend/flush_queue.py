"""Connections that have packets to send after entries were applied: flushed once a turn of the loop.

If very many wait, some are flushed in the next turns.
"""

import asyncio
from collections import deque
from typing import Protocol

from proxy.log.slices import SLICE
from proxy.support.environment import HOST, Clock

_SOME = 64  # connections between two checks of the clock


class Flushed(Protocol):
    """A connection, as far as the queue uses it."""

    def flush(self) -> None:
        """Send what is ready, and read from the client again if it may send more."""


class FlushQueue:
    """Connections that wait for the end of this turn of the loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, slice_seconds: float = SLICE, clock: Clock = HOST.clock
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._slice = slice_seconds
        self._waiting: deque[Flushed] = deque()
        self._scheduled = False

    def add(self, connection: Flushed) -> None:
        """Flush a connection at the end of this turn of the loop. It is not added again before that."""
        self._waiting.append(connection)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Flush the connections that wait now. Those added meanwhile wait for the next turn."""
        waiting = self._waiting
        left = len(waiting)
        try:
            if left <= _SOME:
                # Without the clock: most often there are few.
                self._flush_some(left)
                return
            deadline = self._clock.perf_counter() + self._slice
            while left:
                some = min(left, _SOME)
                self._flush_some(some)
                left -= some
                if self._clock.perf_counter() >= deadline:
                    return
        finally:
            # An exception in one must not keep the others from sending.
            self._scheduled = bool(waiting)
            if waiting:
                self._loop.call_soon(self._flush)

    def _flush_some(self, count: int) -> None:
        waiting = self._waiting
        for _ in range(count):
            waiting.popleft().flush()
