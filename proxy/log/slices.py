"""Long work in slices: a plain function in a greenlet, which returns to the event loop between two slices.

`in_slices` is for work that no client sees. `StateWorker` runs the work that changes the state, and says when
clients may read it.

Part of the shell: it reads the clock. A turn of the loop may contain slices of other work as well, and a
slice ends a millisecond or two after its time is over. So a slice is half of what a turn may take.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from itertools import islice
from typing import TypeVar

from greenlet import getcurrent, greenlet
from typing_extensions import override

from proxy.state.pause import LENGTHS, Lengths, Pause
from proxy.support.environment import HOST, Clock

#: Seconds that one kind of work may hold the loop: half of the 10 ms that a turn of the loop may take.
SLICE = 0.005

_Result = TypeVar("_Result")


def _do_all(work: Callable[[], object]) -> None:
    """One work after another in the same greenlet: a new one costs more than the work of a short request.

    While it waits for the next work it holds nothing, so that its owner can be freed.
    """
    while True:
        work()
        del work
        work = getcurrent().parent.switch(True)  # the result of `resume`


class Slices(Pause):
    """One piece of work at a time, in slices. The work calls this object to pause."""

    def __init__(self, clock: Clock = HOST.clock, seconds: float = SLICE, lengths: Lengths = LENGTHS) -> None:
        super().__init__(lengths)
        self._now = clock.perf_counter
        self._seconds = seconds
        self._work: Callable[[], object] | None = None  # taken, and not begun
        self._greenlet: greenlet | None = None
        #: When the current slice began, and when it is over, by the clock's perf_counter.
        self.began = self.deadline = 0.0
        #: Whether all work that was taken is done.
        self.done = True

    def prepare(self, work: Callable[[], object]) -> None:
        """Take some work; each `resume` does a slice of it."""
        assert self.done, "other work is not done yet"
        self._work = work
        self.done = False
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
        work, self._work = self._work, None
        try:
            self.done = worker.switch(work)
        except BaseException:
            self._forget()
            raise

    def cancel(self) -> None:
        """End the work where it pauses, if it is not done."""
        worker = self._greenlet
        if worker is not None:
            worker.parent = getcurrent()
            worker.throw()
            self._forget()

    def _forget(self) -> None:
        self._greenlet = self._work = None
        self.done = True

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
        back.switch(False)


async def in_slices(
    work: Callable[[Pause], _Result],
    clock: Clock = HOST.clock,
    rest: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0),
) -> _Result:
    """The result of a long function, which calls its argument to pause. Other work runs meanwhile.

    `rest` is awaited between two slices. What it raises ends the work.
    """
    slices = Slices(clock, SLICE)
    results: list[_Result] = []
    try:
        await _do(slices, partial(_keep, results, work, slices), rest)
    finally:
        slices.cancel()
    return results[0]


async def each_in_slices(
    make: Callable[[Pause], Iterable[_Result]],
    clock: Clock = HOST.clock,
    rest: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0),
) -> AsyncIterator[_Result]:
    """The items of an iterable, each of which takes long. What makes them calls its argument to pause."""
    slices = Slices(clock, SLICE)
    items = iter(make(slices))
    found: list[_Result] = []
    try:
        while True:
            await _do(slices, lambda: found.extend(islice(items, 1)), rest)
            if not found:
                return
            yield found.pop()
    finally:
        slices.cancel()


async def _do(slices: Slices, work: Callable[[], object], rest: Callable[[], Awaitable[None]]) -> None:
    slices.prepare(work)
    slices.resume()
    while not slices.done:
        await rest()
        slices.resume()


def _keep(results: list[_Result], work: Callable[[Pause], _Result], pause: Pause) -> None:
    results.append(work(pause))


class StateWorker(Slices):
    """Runs functions that change the state, one after another. They call this object to pause.

    Work that pauses leaves the state partially applied, until it calls `finished_step`. If the state is
    whole, it calls `rest` instead.
    """

    def __init__(self, clock: Clock = HOST.clock, seconds: float = SLICE, lengths: Lengths = LENGTHS) -> None:
        super().__init__(clock, seconds, lengths)
        self._scheduled = False  # the next slice is scheduled
        self._holds = 0
        self._when_whole: list[Callable[[], None]] = []
        self._drained: list[asyncio.Future[None]] = []
        self._is_running = False  # a slice runs now
        self._spent = 0.0  # seconds of the slices that have ended since the state was whole
        self._after_slice: list[Callable[[], None]] = []
        #: Whether clients may read the state: no request is partially applied, and no watch event is due.
        self.is_whole = True
        #: The work only reads the state now, so others may read it while the work pauses.
        self.changes_nothing = False

    # -- for the work --------------------------------------------------------------------------------------

    @override
    def __call__(self) -> None:
        self._left = self.every
        now = self._now()
        if now >= self.deadline:
            self.is_whole = self.is_whole and self.changes_nothing
            if not self.is_whole:
                self._spent += now - self.began
            self.interrupt()

    def rest(self) -> None:
        """To be called while the state is whole: end the slice if its time is over."""
        if self._now() >= self.deadline:
            self.interrupt()

    def finished_step(self) -> float:
        """The state is whole again. The slice ends at the next `rest`, since readers have waited.

        Returns the seconds of the step's slices, which the first one may have begun with other work.
        """
        spent = 0.0
        if not self.is_whole:
            spent, self._spent = self._spent + self._now() - self.began, 0.0
            self.is_whole = True
            self.deadline = 0.0
            waiting, self._when_whole = self._when_whole, []
            for callback in waiting:
                asyncio.get_running_loop().call_soon(callback)
        return spent

    # -- for the event loop --------------------------------------------------------------------------------

    def run(self, work: Callable[[], None]) -> None:
        """Do the first slice of the work at once, unless work is held; the rest in later turns."""
        self.prepare(work)
        self._next_slice()

    async def drained(self) -> None:
        """Wait until there is no work."""
        while not self.done:
            waiting = asyncio.get_running_loop().create_future()
            self._drained.append(waiting)
            await waiting

    # -- for readers of the state --------------------------------------------------------------------------

    def hold(self) -> None:
        """Change nothing more from the next `rest` on, until `release`."""
        self._holds += 1
        self.deadline = 0.0

    def release(self) -> None:
        """Continue, in another turn of the loop, unless there are other holds."""
        self._holds -= 1
        if not self._holds and not self.done:
            self._schedule()

    def when_whole(self, callback: Callable[[], None]) -> None:
        """Called while the state is not whole: call `callback`, in a later turn of the loop, when it is."""
        self._when_whole.append(callback)

    def after_slice(self, callback: Callable[[], None]) -> None:
        """Call `callback`, which raises nothing, at the end of this slice; if none runs, in the next turn."""
        if self._is_running:
            self._after_slice.append(callback)
        else:
            asyncio.get_running_loop().call_soon(callback)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next_slice)

    def _next_slice(self) -> None:
        """Do one slice."""
        self._scheduled = False
        if self._holds:
            return  # `release` calls again
        self._is_running = True
        try:
            self.resume()
        finally:
            self._is_running = False
        if self._after_slice:
            callbacks, self._after_slice = self._after_slice, []
            for callback in callbacks:
                callback()
        if not self.done:
            if not self._holds:
                self._schedule()
            return
        drained, self._drained = self._drained, []
        for waiting in drained:
            if not waiting.done():
                waiting.set_result(None)
