"""Whose requests are handled when: the time of a turn of the event loop is shared by all clients.

The rules:

1. Reads never see a partially applied state. While a write is partially applied, or some of its watch events
   are not sent, connections with requests wait in `StateGate`. So it is in ZooKeeper, which runs no read
   while it applies a write (CommitProcessor).
2. One poll can return bytes of thousands of clients, and libuv reads up to 32 buffers of one client in a row.
   So each connection asks before it takes requests (`StateGate.admits`). If the time of the turn is over, it
   waits too. In each turn each of those that wait takes a small piece, until the time is over; the others
   come first in the next.
3. A read that takes long is answered in slices, one such read at a time, and the log is not applied
   meanwhile, unless all that is left to do is to pack names (`Pause.leaving`). Other clients' short reads are
   answered between its slices. After a read of more than four
   slices, all else has as much time as the read has taken, so that clients that repeat slow reads cannot stop
   the writes; and every other read that begins is one of a client that had no such read for a minute, if one
   waits. A read of more than `Lengths.longest` steps is refused: a proxy whose log waits for too long serves
   nobody.
   An urgent read comes before a write of its client that is in the log already, so the log waits at once.
   These have a quarter of the time together: what takes more is answered by CONNECTIONLOSS, and may be sent
   again. A read that needs no single state (setWatches) holds nothing, and waits for no other kind of read.
4. Connections that have packets to send after entries were applied are flushed at the end of the slice that
   applied them (`FlushQueue`). If very many wait, some are flushed in the next turns.
5. Connections handle what they raise. All else that is raised here ends the process (`support.last_resort`).
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from typing_extensions import override

from codec.constants import ErrorCode
from proxy.log.slices import SLICE, Slices, StateWorker
from proxy.state.operation import Sees
from proxy.state.pause import LENGTHS, Item, Lengths, TooMuch
from proxy.support.environment import HOST, Clock

#: Nanoseconds for which requests are taken in one turn. They are counted from the first request after the
#: previous period has ended, so one turn may contain up to two periods.
NANOSECONDS = int(SLICE * 1e9)
_COPIED_PER_STEP = 16  # names in about the time of one step: they lie anywhere in memory
_SOME = 64  # connections between two checks of the clock
# A slow read of fewer slices does not put off the next: many clients that connect again, each with a thousand
# watches, would wait for each other.
_FEW = 4
_REMEMBERED = 60_000_000_000  # nanoseconds for which a client that had such a read comes after others
_URGENT_SHARE = 4_000_000_000  # nanoseconds in which urgent reads may take as many steps as the longest read


class Turn:
    """The time for requests in one turn of the loop, for all clients."""

    __slots__ = ("_deadline", "_is_counted", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
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
        self._is_counted = True
        self._deadline = now + NANOSECONDS
        self._loop.call_soon(self._next)
        return False

    def _next(self) -> None:
        self._is_counted = False


class Asker(NamedTuple):
    """Who sent a slow read."""

    session_id: int
    address: str


class _SlowRead(NamedTuple):
    """A slow read of a client."""

    asker: Asker
    answer: Callable[["ReadSlices"], None]
    is_wanted: Callable[[], bool]  # not if it is answered, or its connection is closed
    is_urgent: bool  # the log waits for it at once
    sees: Sees


class _Limit(NamedTuple):
    """How many steps a read may take while the log waits for it, and what answers one that takes more."""

    steps: float
    refusal: ErrorCode = ErrorCode.BAD_ARGUMENTS


class ReadSlices(Slices):
    """One slow read, from its first slice to its last."""

    def __init__(
        self, read: _SlowRead, limit: _Limit, clock: Clock, seconds: float, lengths: Lengths
    ) -> None:
        super().__init__(clock, seconds, lengths)
        self.read = read
        self.limit = limit
        #: What it has to see from here on; None: nothing, while it packs names. After that it sees PIECES.
        self.sees: Sees | None = read.sees
        #: How many steps it has taken, and whether it was refused, since they were too many.
        self.taken = 0
        self.is_refused = False
        self.prepare(partial(read.answer, self))

    @property
    def holds(self) -> bool:
        """Whether the log waits for it."""
        return self.sees in (Sees.ONE_STATE, Sees.NAMES) and not self.done

    @override
    def __call__(self) -> None:
        self.taken += self.every
        self.expect(self.taken)
        super().__call__()

    @override
    def expect(self, steps: int) -> None:
        if self.holds and steps > self.limit.steps:
            self.is_refused = True
            raise TooMuch(self.limit.refusal)

    @override
    @contextmanager
    def leaving(self, items: Collection[Item], then: Callable[[], None]) -> Iterator[Collection[Item]]:
        if self.sees is not Sees.NAMES:
            with super().leaving(items, then) as shown:
                yield shown
            return
        copied: list[Item] = []
        for some in self.batches(items, _COPIED_PER_STEP):
            copied += some
        then()
        self.sees = None
        yield copied
        self.clear(copied)
        self.sees = Sees.PIECES
        self.interrupt()  # until the state is whole


class _UrgentShare:
    """The steps that urgent reads may take together: the log waits for all of those that come in a row."""

    def __init__(self, lengths: Lengths) -> None:
        self._lengths = lengths
        self._left = float(lengths.longest)
        self._as_of = 0  # nanoseconds

    def limit(self, now: int) -> _Limit:
        """The limit of the next one. `now`: nanoseconds."""
        longest = self._lengths.longest
        regained = (now - self._as_of) * longest / _URGENT_SHARE
        self._left, self._as_of = min(self._left + regained, longest), now
        if self._left < longest:
            # The same request may have an answer later.
            return _Limit(max(self._left, self._lengths.at_once), ErrorCode.CONNECTION_LOSS)
        return _Limit(longest)

    def use(self, steps: int) -> None:
        """One has taken so many."""
        self._left -= steps


class _WaitingReads:
    """Slow reads that wait: in their order, and in that of how much their clients have had.

    They are taken in turns: so no one waits for ever, nor for all of those who always ask.
    """

    def __init__(self) -> None:
        self._by_rank: tuple[deque[tuple[int, _SlowRead]], ...] = (deque(), deque(), deque())
        self._count = 0
        self._oldest_next = False
        self._until: OrderedDict[int | str, int] = OrderedDict()  # sessions and addresses; nanoseconds

    def __bool__(self) -> bool:
        return any(self._by_rank)

    @property
    def oldest(self) -> _SlowRead | None:
        """What waits longest."""
        heads = [reads[0] for reads in self._by_rank if reads]
        return min(heads)[1] if heads else None

    def add(self, read: _SlowRead, now: int) -> None:
        """A read waits. `now`: nanoseconds."""
        rank = sum(self._until.get(each, 0) >= now for each in read.asker)
        self._count += 1
        self._by_rank[rank].append((self._count, read))

    def take(self) -> _SlowRead:
        """The read whose turn it is."""
        waiting = [reads for reads in self._by_rank if reads]
        taken = min(waiting, key=lambda reads: reads[0][0]) if self._oldest_next else waiting[0]
        self._oldest_next = not self._oldest_next
        return taken.popleft()[1]

    def took_long(self, read: _SlowRead, now: int) -> None:
        """Its client comes after others for a while."""
        while self._until and next(iter(self._until.values())) < now:
            self._until.popitem(last=False)
        for each in read.asker:
            self._until[each] = now + _REMEMBERED
            self._until.move_to_end(each)


class _SlowReads:
    """Slow reads of one kind: one at a time, in slices."""

    def __init__(
        self,
        state: StateWorker,
        loop: asyncio.AbstractEventLoop,
        slice_seconds: float,
        clock: Clock,
        lengths: Lengths,
        share: float,
    ) -> None:
        self._state = state
        self._loop = loop
        self._now = clock.perf_counter_ns
        self._begin = partial(ReadSlices, clock=clock, seconds=slice_seconds, lengths=lengths)
        self._limit = _Limit(lengths.longest)  # of a read that is not urgent
        self._urgent_share = _UrgentShare(lengths)
        self._few = int(_FEW * slice_seconds * 1e9)
        self._share = share
        self._urgent: deque[_SlowRead] = deque()
        self._waiting = _WaitingReads()
        #: The one that is being answered.
        self.running: ReadSlices | None = None
        self._began = 0  # nanoseconds: when that one began
        self._others_first = 0  # until then, no slow read begins that could as well begin later
        self._scheduled = False  # the next slice of a slow read is scheduled
        self._is_timed = False  # `_turn_of_reads` will be called

    @property
    def first(self) -> _SlowRead | None:
        """The read that is answered, or waits longest; None if there is none."""
        running = self.running
        return running.read if running else self._urgent[0] if self._urgent else self._waiting.oldest

    def add(self, read: _SlowRead) -> None:
        """Answer it; an urgent one from the current state: the log waits for it from now on."""
        if read.is_urgent:
            self._state.hold()
            self._urgent.append(read)
        else:
            self._waiting.add(read, self._now())
        self._continue()

    def _continue(self) -> None:
        """Begin or continue a slow read, if there is one, and if it is its turn."""
        if self.running is not None or self._urgent:
            self._schedule()
        elif self._waiting and not self._is_timed:
            wait = self._others_first - self._now()
            if wait > 0:
                self._is_timed = True
                self._loop.call_later(wait / 1e9, self._turn_of_reads)
            else:
                self._schedule()

    def _turn_of_reads(self) -> None:
        self._is_timed = False
        self._continue()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._next_slice)

    def _next_slice(self) -> None:
        """Do one slice of a slow read: of the next one, if none has begun."""
        running = self.running
        if not (self._state.is_whole or (running and running.sees is None)):
            self._state.when_whole(self._next_slice)
            return
        self._scheduled = False
        if running is None:
            running = self.running = self._next()
        held = running.holds
        if running.read.is_wanted():
            running.resume()
        else:
            running.cancel()
        if held and not running.holds:
            self._state.release()
        if running.done:
            self._end(running)
        self._continue()

    def _next(self) -> ReadSlices:
        """Begin the read whose turn it is."""
        now = self._began = self._now()
        if self._urgent:
            return self._begin(self._urgent.popleft(), self._urgent_share.limit(now))
        begun = self._begin(self._waiting.take(), self._limit)
        if begun.holds:
            self._state.hold()
        return begun

    def _end(self, ended: ReadSlices) -> None:
        self.running = None
        if ended.read.is_urgent:
            self._urgent_share.use(ended.taken)
        now = self._now()
        taken = now - self._began
        self._others_first = now + max(0, self._others_first - self._began)  # an urgent read may have come
        if taken > self._few:
            self._others_first += int(taken * self._share)
            self._waiting.took_long(ended.read, now)


class StateGate:
    """The gate of one proxy."""

    def __init__(
        self,
        state: StateWorker,
        loop: asyncio.AbstractEventLoop,
        slice_seconds: float = SLICE,
        clock: Clock = HOST.clock,
        lengths: Lengths = LENGTHS,
        share: float = 1.0,
    ) -> None:
        """`share`: the time without slow reads after one, as a part of what it has taken."""
        self._state = state
        self._loop = loop
        self._now = clock.perf_counter_ns
        self._turn = Turn(loop)
        self._parked: OrderedDict[Callable[[], None], None] = OrderedDict()
        self._is_called = False  # `_resume` will be
        self._whole, self._in_pieces = (
            _SlowReads(state, loop, slice_seconds, clock, lengths, share) for _ in range(2)
        )

    @property
    def first_parked(self) -> Callable[[], None] | None:
        """The work that waits longest; None if none does."""
        return next(iter(self._parked), None)

    @property
    def reads(self) -> list[ReadSlices]:
        """The slow reads that have begun."""
        return [read for reads in (self._whole, self._in_pieces) if (read := reads.running)]

    @property
    def first_slow_read(self) -> object:
        """A slow read that is answered, or has waited longest; None if there is none."""
        return self._whole.first or self._in_pieces.first

    def admits(self, now: int) -> bool:
        """Whether clients' requests may be taken now. `now`: nanoseconds of the clock's perf_counter."""
        return self._state.is_whole and not self._turn.is_over(now)

    def park(self, work: Callable[[], None]) -> None:
        """Do a small piece of a connection's work in another turn of the loop, when the gate is open.

        Work that waits already is done once.
        """
        self._parked[work] = None
        self._resume_soon()

    def read_slowly(
        self,
        asker: Asker,
        answer: Callable[[ReadSlices], None],
        is_wanted: Callable[[], bool],
        now: bool,
        sees: Sees,
    ) -> None:
        """Answer a slow read, after those that wait already. `now`: from the current state.

        The log is applied no further before a read that is answered `now`, and while any other one is
        answered as long as it has to be for what the read `sees`. `is_wanted`: false if it is answered, or
        its connection is closed.
        """
        if now:
            sees = Sees.ONE_STATE
        reads = self._in_pieces if sees is Sees.PIECES else self._whole
        reads.add(_SlowRead(asker, answer, is_wanted, now, sees))

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
        for _ in range(len(self._parked) if self._state.is_whole else 0):
            self._parked.popitem(last=False)[0]()
            if not self.admits(self._now()):
                break
        if self._parked:
            self._resume_soon()


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
