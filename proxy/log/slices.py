"""Long work in slices: a plain function in a greenlet, which returns to the event loop between two slices.

Part of the shell: it reads the clock. A turn of the loop may contain slices of other work as well, and a
slice ends a millisecond or two after its time is over. So a slice is half of what a turn may take.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from greenlet import getcurrent, greenlet
from typing_extensions import override

from proxy.state.pause import LENGTHS, Lengths, Pause
from proxy.support.environment import HOST, Clock

#: Seconds that one kind of work may hold the loop: half of the 10 ms that a turn of the loop may take.
SLICE = 0.005

_Result = TypeVar("_Result")


class _Place:
    """Where a greenlet finds its next work. It holds nothing else, so that it can be freed while it waits."""

    __slots__ = ("work",)

    def __init__(self) -> None:
        self.work: Callable[[], object] | None = None


def _do_all(place: _Place) -> None:
    """One work after another in the same greenlet: a new one costs more than the work of a short request."""
    while place.work is not None:
        place.work()
        place.work = None
        Slices.interrupt()


class Slices(Pause):
    """One piece of work at a time, in slices. The work calls this object to pause."""

    def __init__(self, clock: Clock = HOST.clock, seconds: float = SLICE, lengths: Lengths = LENGTHS) -> None:
        super().__init__(lengths)
        self._now = clock.perf_counter
        self._seconds = seconds
        self._place = _Place()
        self._greenlet: greenlet | None = None
        #: When the current slice began, and when it is over, by the clock's perf_counter.
        self.began = self.deadline = 0.0

    @property
    def done(self) -> bool:
        """Whether there is no work that was begun and is not done."""
        return self._place.work is None

    def prepare(self, work: Callable[[], object]) -> None:
        """Take some work; each `resume` does a slice of it."""
        assert self.done, "other work is not done yet"
        self._place.work = work
        if self._greenlet is None:
            self._greenlet = greenlet(_do_all)

    def resume(self) -> None:
        """Do the next slice. Raises what the work raises, which is over then."""
        worker = self._greenlet
        assert worker is not None, "there is no work"
        worker.parent = getcurrent()
        self.began = self._now()
        self.deadline = self.began + self._seconds
        self._left = self.every
        try:
            worker.switch(self._place)  # which is `_do_all`'s argument at the first time
        finally:
            if worker.dead:
                self._forget()

    def cancel(self) -> None:
        """End the work where it pauses, if it is not done."""
        worker = self._greenlet
        if worker is not None:
            worker.parent = getcurrent()
            worker.throw()
            self._forget()

    def _forget(self) -> None:
        self._greenlet = None
        self._place.work = None

    @override
    def __call__(self) -> None:
        self._left = self.every
        if self._now() >= self.deadline:
            self.interrupt()

    @staticmethod
    def interrupt() -> None:
        """End the slice: return from `resume`. To be called by the work."""
        back = getcurrent().parent
        assert back is not None, "this is no work in slices"
        back.switch()


async def in_slices(work: Callable[[Pause], _Result], clock: Clock = HOST.clock) -> _Result:
    """The result of a long function, which calls its argument to pause. Other work runs meanwhile."""
    slices = Slices(clock, SLICE)
    results: list[_Result] = []
    try:
        slices.prepare(partial(_keep, results, work, slices))
        slices.resume()
        while not slices.done:
            await asyncio.sleep(0)
            slices.resume()
    finally:
        slices.cancel()
    return results[0]


def _keep(results: list[_Result], work: Callable[[Pause], _Result], pause: Pause) -> None:
    results.append(work(pause))
