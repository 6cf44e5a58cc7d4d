"""Whose requests are handled when: the time of a turn of the event loop is shared by all clients.

The rules:

1. Reads never see a partially applied state. While a write is partially applied, or some of its watch events
   are not sent, connections with requests wait in `StateGate`. So it is in ZooKeeper, which runs no read
   while it applies a write (CommitProcessor). So they do while this proxy is behind (`log.follow.staleness`):
   what it shows would be too old. Only requests that were taken before that are answered, in their place in
   the log: they see no older state than when they came. Connect requests and four-letter words do not wait:
   a proxy that applies a long entry still answers `ruok`. What words count and list may then be of a request
   that is half applied, as over HTTP.
2. One poll can return bytes of thousands of clients, and libuv reads up to 32 buffers of one client in a row.
   So each connection asks before it takes requests (`Gate.admits`). If the time of the turn is over, it
   waits too. In each turn each of those that wait takes a small piece, until the time is over; the others
   come first in the next.
3. A read that takes long is answered in slices (`slow_reads`).
4. Connections that have packets to send after entries were applied are flushed at the end of the slice that
   applied them (`FlushQueue`). If very many wait, some are flushed in the next turns.
5. Connections handle what they raise. All else that is raised here ends the process (`support.last_resort`).
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable

from typing_extensions import override

from proxy.frontend.client_info import ClientInfo
from proxy.frontend.order import SlowRead
from proxy.frontend.slow_reads import ClientRead, ReadSlices, SlowReads
from proxy.log.slices import SLICE, StateWorker
from proxy.state.operation import Sees
from proxy.state.pause import LENGTHS, Lengths
from proxy.support.environment import HOST, Clock

#: Nanoseconds for which requests are taken in one turn. They are counted from the first request after the
#: previous period has ended, so one turn may contain up to two periods.
PERIOD = int(SLICE * 1e9)
_SOME = 64  # connections between two checks of the clock


class Turn:
    """The time for requests in one turn of the loop, for all clients."""

    __slots__ = ("_deadline", "_is_counted", "_look", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, look: Callable[[], object]) -> None:
        """`look` is called before the first request of a period."""
        self._loop = loop
        self._look = look
        self._deadline = 0
        self._is_counted = False  # the deadline was set in this turn

    def is_over(self, now: int) -> bool:
        """Whether clients must wait for the next turn. `now`: nanoseconds of the clock's perf_counter.

        A comparison most often. The loop is asked for a callback only once in so many milliseconds.
        """
        if now < self._deadline:
            return False
        if self._is_counted:
            return True
        self._look()
        self._is_counted = True
        self._deadline = now + PERIOD
        self._loop.call_soon(self._next)
        return False

    def _next(self) -> None:
        self._is_counted = False


class Gate:
    """Where clients without a session wait for their turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop, turn: Turn, clock: Clock) -> None:
        self._loop = loop
        self._turn = turn
        self._now = clock.perf_counter_ns
        self._parked: OrderedDict[Callable[[], None], None] = OrderedDict()
        self._is_called = False  # `_resume` will be

    @property
    def first_parked(self) -> Callable[[], None] | None:
        """The work that waits longest; None if none does."""
        return next(iter(self._parked), None)

    def admits(self, now: int) -> bool:
        """Whether what clients send may be taken now. `now`: nanoseconds of the clock's perf_counter."""
        return not self._turn.is_over(now)

    def park(self, work: Callable[[], None]) -> None:
        """Do a small piece of a connection's work in another turn of the loop, when the gate is open.

        Work that waits already is done once.
        """
        self._parked[work] = None
        self._resume_soon()

    def _is_open(self) -> bool:
        return True

    def _resume_soon(self) -> None:
        if not self._is_called:
            self._is_called = True
            self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        """Let each of those that wait now do a piece, as far as there is time, and at least one of them."""
        self._is_called = False
        for _ in range(len(self._parked) if self._is_open() else 0):
            self._parked.popitem(last=False)[0]()
            if not self.admits(self._now()):
                break
        if self._parked:
            self._resume_soon()


class StateGate(Gate):
    """Where clients with a session wait for their turn, and for a state that they may read."""

    def __init__(
        self,
        state: StateWorker,
        loop: asyncio.AbstractEventLoop,
        slice_seconds: float = SLICE,
        clock: Clock = HOST.clock,
        lengths: Lengths = LENGTHS,
        share: float = 1.0,
        look: Callable[[], object] = lambda: None,
    ) -> None:
        """`share`: the time without slow reads after one, as a part of what it has taken.

        `look`: finds out whether the state is too old, and calls `fell_behind` then. It closes no connection.
        """
        super().__init__(loop, Turn(loop, look), clock)
        self._state = state
        self._look = look
        self._is_behind = False
        #: For clients without a session. They share the time of each turn with the others.
        self.openings = Gate(loop, self._turn, clock)
        self._whole, self._in_pieces = (
            SlowReads(state, loop, slice_seconds, clock, lengths, share) for _ in range(2)
        )

    @property
    def reads(self) -> list[ReadSlices]:
        """The slow reads that have begun."""
        return [read for reads in (self._whole, self._in_pieces) if (read := reads.running)]

    @property
    def first_slow_read(self) -> object:
        """A slow read that is answered, or has waited longest; None if there is none."""
        return self._whole.first or self._in_pieces.first

    @override
    def admits(self, now: int) -> bool:
        # The turn may find that the state is too old, so that is asked last.
        return self._state.is_whole and not self._turn.is_over(now) and not self._is_behind

    def fell_behind(self, is_behind: bool) -> None:
        """The state is too old to be read from now on, or is not any more."""
        self._is_behind = is_behind
        if self._parked:
            self._resume_soon()

    def read_slowly(
        self,
        slow: SlowRead,
        client: ClientInfo,
        answer: Callable[[ReadSlices], None],
        is_wanted: Callable[[], bool],
    ) -> None:
        """Answer a slow read, after those that wait already.

        The log is applied no further before an urgent one, and while any other one is answered as long as it
        has to be for what the read `sees`. `is_wanted`: false if it is answered, or its connection is closed.
        """
        if slow.is_urgent:
            slow = SlowRead(is_urgent=True)
        reads = self._in_pieces if slow.sees is Sees.PIECES else self._whole
        reads.add(ClientRead(slow, client, answer, is_wanted))

    @override
    def _is_open(self) -> bool:
        self._look()
        return self._state.is_whole and not self._is_behind

    @override
    def _resume_soon(self) -> None:
        if self._is_called or self._is_behind:
            return
        self._is_called = True
        if self._state.is_whole:
            self._loop.call_soon(self._resume)
        else:
            self._state.when_whole(self._resume)


class FlushQueue:
    """Connections that wait for the end of this slice."""

    def __init__(
        self,
        after_slice: Callable[[Callable[[], None]], None],
        slice_seconds: float = SLICE,
        clock: Clock = HOST.clock,
        before: Callable[[], None] | None = None,
    ) -> None:
        """`after_slice`: as that of `StateWorker`. `before`: called before connections are flushed."""
        self._before = before
        self._after_slice = after_slice
        self._clock = clock
        self._slice = slice_seconds
        self._waiting: deque[Callable[[], None]] = deque()
        self._scheduled = False

    @property
    def first(self) -> Callable[[], None] | None:
        """The connection that waits longest; None if none does."""
        return self._waiting[0] if self._waiting else None

    def add(self, flush: Callable[[], None]) -> None:
        """Flush a connection at the end of this slice. It is not added again before that."""
        self._waiting.append(flush)
        if not self._scheduled:
            self._scheduled = True
            self._after_slice(self._flush)

    def _flush(self) -> None:
        """Flush the connections that wait now. Those added meanwhile wait for the next turn."""
        if self._before is not None:
            self._before()
        waiting = self._waiting
        left = len(waiting)
        # The clock is read only if there are many.
        deadline = self._clock.perf_counter() + self._slice if left > _SOME else 0.0
        while left:
            left -= 1
            waiting.popleft()()
            if not left % _SOME and deadline and self._clock.perf_counter() >= deadline:
                break
        self._scheduled = bool(waiting)
        if waiting:
            self._after_slice(self._flush)
