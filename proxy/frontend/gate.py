"""Clients that wait while a long write is applied in part, since they ask for what it changes.

As in ZooKeeper, where no read goes on beside a write that is being applied (CommitProcessor); here only those
wait that could see a part of it.
"""

import asyncio
from collections import deque
from time import perf_counter
from typing import Protocol

_SLICE = 0.01  # seconds that clients may be let in at a stretch


class State(Protocol):
    """The state machine, as far as it is needed here."""

    @property
    def midway(self) -> bool:
        """Whether a write is applied in part."""


class Waiting(Protocol):
    """A connection that waits."""

    def state_is_whole(self) -> None:
        """Go on; it may be told to wait again."""


class Gate:
    """The connections of one proxy that wait for the state to be whole."""

    def __init__(self, state: State, loop: asyncio.AbstractEventLoop) -> None:
        self._state = state
        self._loop = loop
        self._waiting: deque[Waiting] = deque()

    def wait(self, connection: Waiting) -> None:
        """Call the connection when the state is whole."""
        if not self._waiting:
            self._loop.call_soon(self._look)
        self._waiting.append(connection)

    def _look(self) -> None:
        # Meanwhile the loop is busy with the write: to look once a turn costs nothing.
        deadline = perf_counter() + _SLICE
        waiting, self._waiting = self._waiting, deque()
        try:
            while waiting and not self._state.midway:
                waiting.popleft().state_is_whole()
                if perf_counter() >= deadline:
                    break
        finally:
            late, self._waiting = self._waiting, waiting
            self._waiting.extend(late)
            if self._waiting and not late:
                self._loop.call_soon(self._look)
