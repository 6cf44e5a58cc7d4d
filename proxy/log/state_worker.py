"""Runs the work that changes the state, in slices, and says when the state may be read.

Part of the shell: it reads the clock and uses the event loop.
"""

import asyncio
from collections.abc import Callable

from typing_extensions import override

from proxy.log.slices import SLICE, Slices
from proxy.state.pause import LENGTHS, Lengths
from proxy.support.environment import HOST, Clock


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
        #: Whether clients may read the state: no request is partially applied, and no watch event is due.
        self.is_whole = True
        #: The work only reads the state now, so others may read it while the work pauses.
        self.changes_nothing = False

    # -- for the work --------------------------------------------------------------------------------------

    @override
    def __call__(self) -> None:
        self._left = self.every
        if self._now() >= self.deadline:
            self.is_whole = self.is_whole and self.changes_nothing
            self.interrupt()

    def rest(self) -> None:
        """To be called while the state is whole: end the slice if its time is over."""
        if self._now() >= self.deadline:
            self.interrupt()

    def finished_step(self) -> None:
        """The state is whole again. The slice ends at the next `rest`, since readers have waited."""
        if not self.is_whole:
            self.is_whole = True
            self.deadline = 0.0
            waiting, self._when_whole = self._when_whole, []
            for callback in waiting:
                asyncio.get_running_loop().call_soon(callback)

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

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next_slice)

    def _next_slice(self) -> None:
        """Do one slice."""
        self._scheduled = False
        if self._holds:
            return  # `release` calls again
        self.resume()
        if not self.done:
            if not self._holds:
                self._schedule()
            return
        drained, self._drained = self._drained, []
        for waiting in drained:
            if not waiting.done():
                waiting.set_result(None)
