"""Reads that take long: in slices, one at a time, on a state that stays as it is meanwhile.

Part of the shell: it reads the clock. While such a read goes on, the log is not applied, and other clients'
short reads are answered between its slices. Between two long reads the log gets a slice of its own.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from proxy.support.slices import SLICE

log = logging.getLogger(__name__)


class Reader(Protocol):
    """Whose turn it is to be answered with a long read."""

    def read_on(self, is_over: Callable[[], bool]) -> bool:
        """Go on until the slice is over; whether the read is answered, or not wanted any more."""


class State(Protocol):
    """The state machine, as far as it is needed here."""

    @property
    def midway(self) -> bool:
        """Whether a write is applied in part, so that nothing can be read yet."""


class LongReads:
    """The long reads of all clients of one proxy."""

    def __init__(
        self,
        state: State,
        loop: asyncio.AbstractEventLoop,
        hold: Callable[[], None],
        release: Callable[[], None],
        when_whole: Callable[[Callable[[], None]], None],
        slice_seconds: float = SLICE,
    ) -> None:
        """`hold` and `release` let the state stay as it is from one to the other.

        `when_whole` has a function called when the state is not midway any more.
        """
        self._state = state
        self._loop = loop
        self._hold = hold
        self._release = release
        self._when_whole = when_whole
        self._slice = slice_seconds
        self._deadline = 0.0
        self._waiting: deque[Reader] = deque()
        self._urgent: deque[Reader] = deque()
        self._current: Reader | None = None
        self._scheduled = False

    def begin(self, reader: Reader, *, now: bool) -> None:
        """Have a client answered as soon as others that wait are. `now`: it has to see the state as it is."""
        if now:
            self._hold()
            self._urgent.append(reader)
        else:
            self._waiting.append(reader)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """One slice."""
        self._scheduled = False
        if self._state.midway:
            self._scheduled = True
            self._when_whole(self._go_on)
            return
        if self._current is None:
            if self._urgent:
                self._current = self._urgent.popleft()
            elif self._waiting:
                self._hold()
                self._current = self._waiting.popleft()
        reader = self._current
        if reader is not None:
            self._deadline = perf_counter() + self._slice
            is_done = True
            try:
                is_done = reader.read_on(self._is_over)
            except Exception:
                log.exception("a long read cannot be answered")
            if is_done:
                self._current = None
                self._release()
        if self._current is not None or self._urgent or self._waiting:
            self._schedule()

    def _is_over(self) -> bool:
        return perf_counter() >= self._deadline
