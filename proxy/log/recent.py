"""What requests have changed lately: recorded where they are applied, only while somebody reads it.

It has a bound in bytes. A reader that falls behind finds the rest in the log.
"""

import asyncio
from bisect import bisect_right
from contextlib import suppress

from proxy.log.applier import Applier, Between
from proxy.state.feed import Made, made_by, size_of
from proxy.state.machine import Machine
from proxy.state.recording import Recorded, keep_changes
from proxy.state.transaction import Transaction
from schema.entry import RequestFields

_MOST = 16 << 20  # bytes
_CLEAN = 1024  # places that were dropped, until the lists are made shorter
_DROPPED = Made(0, 0, "", ())


class Recent:
    """The last changes of one proxy's tree, for any number of readers."""

    def __init__(self, machine: Machine, applier: Applier, most: int = _MOST) -> None:
        """`most`: bytes, about; at least the last request's changes are kept."""
        self._machine = machine
        self._applier = applier
        self._most = most
        self._changes: list[Recorded] = []  # of the request that is executed
        self._made: list[Made] = []
        self._zxids: list[int] = []
        self._sizes: list[int] = []
        self._first = 0  # in these lists; those before it are dropped
        self._bytes = 0
        self._waiting: list[asyncio.Future[None]] = []
        #: How many read, and how often a state that was loaded anew has ended their reading.
        self.readers = self.replacements = 0
        #: All changes behind the zxid `floor` are here, and `zxid` is the last one that is applied.
        self.floor = self.zxid = 0

    # -- readers ---------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Record from now on; `close` has to follow, also if this is cancelled."""
        self.readers += 1
        begun = asyncio.get_running_loop().create_future()

        def begin() -> None:
            if self._applier.recorder is None:
                self._changes = keep_changes(self._machine)
                self._applier.recorder = self._take
                self._start()
            if not begun.done():
                begun.set_result(None)

        self._applier.apply([Between(begin)])
        await begun

    def close(self) -> None:
        """A reader ends."""
        self.readers -= 1
        self._applier.apply([Between(self._end)])

    def after(self, zxid: int, most: int) -> list[Made]:
        """What follows a zxid that is not below `floor`: of about so many bytes, or of one request."""
        found = []
        for place in range(bisect_right(self._zxids, zxid, self._first), len(self._made)):
            found.append(self._made[place])
            most -= self._sizes[place]
            if most <= 0:
                break
        return found

    async def news(self, timeout: float) -> None:
        """Wait for a change, for so many seconds at most."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(waiting, timeout)
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def wake(self) -> None:
        """Let readers look again."""
        woken, self._waiting = self._waiting, []
        for waiting in woken:
            if not waiting.done():
                waiting.set_result(None)

    # -- the applier -----------------------------------------------------------------------------------------

    def replaced(self) -> None:
        """The state was loaded anew. What has changed meanwhile is not known here."""
        self.replacements += 1
        self._start()

    def _start(self) -> None:
        """Everything up to now is in the log only."""
        self._made, self._zxids, self._sizes, self._first, self._bytes = [], [], [], 0, 0
        self.floor = self.zxid = self._machine.zxid
        self._changes.clear()
        self.wake()

    def _end(self) -> None:
        if not self.readers and self._applier.recorder is not None:
            self._applier.recorder = None
            self._machine.use_transaction(Transaction)
            self._start()

    def _take(self, request: RequestFields) -> None:
        """A request was executed. One with very many changes is taken with pauses.

        Readers go on meanwhile, so what they see changes at once.
        """
        zxid, pause = self._machine.zxid, self._machine.transaction.pause
        if zxid >> 32 != self.zxid >> 32:  # another epoch
            # A restore, or a copy that goes on without its source. A reader of what is undone finds it in the
            # log.
            self._start()
            return
        if not self._changes:
            self.zxid = zxid
            return
        made = made_by(request, zxid, self._machine.transaction.sender.clock, self._changes, pause)
        size = size_of(made, pause) if made else 0
        pause.clear(self._changes)
        self.zxid = zxid
        if made is None:
            return
        self._made.append(made)
        self._zxids.append(zxid)
        self._sizes.append(size)
        self._bytes += size
        dropped: list[Made] = []
        while self._bytes > self._most and self._first < len(self._made) - 1:
            dropped.append(self._made[self._first])
            self._made[self._first] = _DROPPED
            self._bytes -= self._sizes[self._first]
            self.floor = self._zxids[self._first]
            self._first += 1
        if self._first >= max(_CLEAN, len(self._made) // 2):
            del self._made[: self._first]
            del self._zxids[: self._first]
            del self._sizes[: self._first]
            self._first = 0
        if self._waiting:
            self.wake()
        while dropped:
            pause.clear(list(dropped.pop().changes))
