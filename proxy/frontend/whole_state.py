"""Clients that wait while a long write is applied in part, since they ask for what it changes.

As in ZooKeeper, where no read goes on beside a write that is being applied (CommitProcessor); here only those
wait that could see a part of it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from proxy.support.slices import SLICE


class State(Protocol):
    """The state machine, as far as it is needed here."""

    @property
    def midway(self) -> bool:
        """Whether a write is applied in part."""


class Waiting(Protocol):
    """A connection that waits."""

    def state_is_whole(self) -> None:
        """Go on. The connection may have to wait again."""


class WholeStateQueue:
    """The connections of one proxy that wait for the state to be whole."""

    def __init__(
        self, state: State, loop: asyncio.AbstractEventLoop, when_whole: Callable[[Callable[[], None]], None]
    ) -> None:
        """`when_whole` has a function called when the state is not midway any more."""
        self._state = state
        self._loop = loop
        self._when_whole = when_whole
        self._waiting: deque[Waiting] = deque()

    def add(self, connection: Waiting) -> None:
        """Call the connection when the state is whole."""
        if not self._waiting:
            self._when_whole(self._try)
        self._waiting.append(connection)

    def _try(self) -> None:
        if self._state.midway:
            self._when_whole(self._try)  # with the next one already
            return
        deadline = perf_counter() + SLICE
        try:
            while self._waiting:
                self._waiting.popleft().state_is_whole()
                if perf_counter() >= deadline:
                    break
        finally:
            if self._waiting:
                self._loop.call_soon(self._try)
