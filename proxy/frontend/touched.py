"""Connections that have to send something because of other clients: flushed once a turn of the loop.

If there are very many of them, some are flushed only in the next turns.
"""

import asyncio
from collections import deque
from time import perf_counter
from typing import Protocol

_SLICE = 0.01  # seconds that flushing may hold the loop
_SOME = 64  # connections between two looks at the clock


class Settled(Protocol):
    """A connection, as far as it is settled."""

    def settle(self) -> None:
        """Send what is to be sent, and see whether more may come."""


class Touched:
    """Connections that wait for the end of this turn of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, slice_seconds: float = _SLICE) -> None:
        self._loop = loop
        self._slice = slice_seconds
        self._waiting: deque[Settled] = deque()

    def add(self, connection: Settled) -> None:
        """Settle a connection at the end of this turn. It is not added again before that."""
        if not self._waiting:
            self._loop.call_soon(self._settle)
        self._waiting.append(connection)

    def _settle(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        left = len(waiting)
        if left <= _SOME:
            # Without the clock: mostly there are few.
            self._settle_some(waiting, left)
            return
        deadline = perf_counter() + self._slice
        while waiting:
            self._settle_some(waiting, min(len(waiting), _SOME))
            if perf_counter() >= deadline:
                break
        self._add_all(waiting)

    def _settle_some(self, waiting: deque[Settled], count: int) -> None:
        try:
            for _ in range(count):
                waiting.popleft().settle()
        except BaseException:
            # One that fails must not leave the others without their replies.
            self._add_all(waiting)
            raise

    def _add_all(self, waiting: deque[Settled]) -> None:
        for connection in waiting:
            self.add(connection)
