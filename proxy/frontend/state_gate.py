"""The gate between clients and the state: reads never see a partially applied state, nor slow reads a change.

While a write is partially applied, or some of its watch events are not sent, connections with requests wait
here. So it is in ZooKeeper, which runs no read while it applies a write (CommitProcessor).

It is also the queue of connections whose requests have to wait for another turn of the loop (`turn`). In each
turn each of them takes a small piece, until the time for requests is over. The others come first in the next.

A read that takes long is answered in slices, one such read at a time, and the log is not applied meanwhile.
Other clients' short reads are answered between its slices. Between two slow reads the log gets a slice of its
own, so that a client that repeats slow reads cannot stop the writes.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from proxy.frontend.turn import Turn
from proxy.log.slices import SLICE, Slices
from proxy.state.pause import LENGTHS, Lengths, Pause
from proxy.support.environment import HOST, Clock

log = logging.getLogger(__name__)


class AppliedState(Protocol):
    """The worker that changes the state (proxy.log.slices), as far as the gate uses it."""

    is_whole: bool

    def hold(self) -> None:
        """Stop changing the state, until `release`."""

    def release(self) -> None:
        """Continue."""

    def when_whole(self, callback: Callable[[], None]) -> None:
        """While the state is not whole: call `callback` when it is."""


class SlowReader(Protocol):
    """The requests of a client, the first of which is a slow read."""

    @property
    def wants_slow_read(self) -> bool:
        """Whether the read is not answered yet; false if the connection is closed."""

    def answer_slow_read(self, pause: Pause) -> None:
        """Answer the read, with this pause."""


class StateGate:
    """The gate of one proxy."""

    def __init__(
        self,
        state: AppliedState,
        loop: asyncio.AbstractEventLoop,
        slice_seconds: float = SLICE,
        clock: Clock = HOST.clock,
        lengths: Lengths = LENGTHS,
    ) -> None:
        self._state = state
        self._loop = loop
        self._now = clock.perf_counter_ns
        self._turn = Turn(loop)
        self._parked: deque[Callable[[], None]] = deque()
        self._is_called = False  # `_resume` will be
        self._urgent: deque[SlowReader] = deque()
        self._waiting: deque[SlowReader] = deque()
        self._slices = Slices(clock, slice_seconds, lengths)
        self._reader: SlowReader | None = None  # the slow read that is being answered
        self._scheduled = False  # the next slice of a slow read is scheduled

    def admits(self, now: int) -> bool:
        """Whether clients' requests may be taken now. `now`: nanoseconds of the clock's perf_counter."""
        return self._state.is_whole and not self._turn.is_over(now)

    def park(self, work: Callable[[], None]) -> None:
        """Do a small piece of a connection's work in another turn of the loop, when the gate is open."""
        self._parked.append(work)
        self._resume_soon()

    def read_slowly(self, reader: SlowReader, *, now: bool) -> None:
        """Answer a slow read, after those that wait already. `now`: from the current state.

        The log is applied no further before a read that is answered `now`.
        """
        if now:
            self._state.hold()
            self._urgent.append(reader)
        else:
            self._waiting.append(reader)
        self._schedule()

    def _resume_soon(self) -> None:
        if self._is_called:
            return
        self._is_called = True
        if self._state.is_whole:
            self._loop.call_soon(self._resume)
        else:
            self._state.when_whole(self._resume)

    def _resume(self) -> None:
        """Let each of those that wait now do a piece, as far as there is time, and at least one of them."""
        self._is_called = False
        try:
            for _ in range(len(self._parked) if self._state.is_whole else 0):
                self._parked.popleft()()
                if not self.admits(self._now()):
                    break
        finally:
            if self._parked:
                self._resume_soon()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._next_slice)

    def _next_slice(self) -> None:
        """Do one slice of a slow read."""
        if not self._state.is_whole:
            self._state.when_whole(self._next_slice)
            return
        self._scheduled = False
        if self._reader is None:
            self._begin()
        elif self._reader.wants_slow_read:
            self._slice()
        else:
            self._slices.cancel()
        if self._reader is not None and self._slices.done:
            self._reader = None
            self._state.release()
        if self._reader is not None or self._urgent or self._waiting:
            self._schedule()

    def _begin(self) -> None:
        if self._urgent:
            self._reader = self._urgent.popleft()
        elif self._waiting:
            self._state.hold()
            self._reader = self._waiting.popleft()
        if self._reader is not None and self._reader.wants_slow_read:
            self._slices.prepare(partial(self._reader.answer_slow_read, self._slices))
            self._slice()

    def _slice(self) -> None:
        try:
            self._slices.resume()
        except Exception:
            log.exception("a slow read cannot be answered")
