"""Reads that take long: which is answered when, and how long the log may wait for it.

The rules:

1. There are two kinds: reads of a single state, and those that see each piece as it is by then (setWatches).
   Of each kind one is answered at a time, in slices, and neither kind waits for the other. Other clients'
   short reads are answered between the slices.
2. The log is not applied while a read of a single state is answered, unless all that is left to do is to pack
   names (`Pause.leaving`). For a read in pieces the log does not wait.
3. A read for which the log waits, and that takes more than `Lengths.longest` steps, is refused: a proxy whose
   log waits for too long serves no client.
4. After a read of more than four slices, all else has as much time as the read has taken. So clients that
   repeat slow reads cannot stop the writes.
5. Every other read that begins is one of a client that had no such read for a minute, if one waits.
6. An urgent read comes before a write of its client that is in the log already. So it is answered next, and
   the log waits at once, whatever kind of read it is. Urgent reads have a quarter of the time together: one
   that takes more is answered by CONNECTIONLOSS, and may be sent again.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from typing_extensions import override

from codec.constants import ErrorCode
from proxy.frontend.client_info import ClientInfo
from proxy.frontend.order import SlowRead
from proxy.log.slices import Slices, StateWorker
from proxy.state.operation import Sees
from proxy.state.pause import Lengths, TooMuch
from proxy.support.addresses import source_of
from proxy.support.environment import Clock

# A slow read of fewer slices does not put off the next: many clients that connect again, each with a thousand
# watches, would wait for each other.
_FEW = 4
_REMEMBERED = 60_000_000_000  # nanoseconds for which a client that had such a read comes after others
_URGENT_SHARE = 4_000_000_000  # nanoseconds in which urgent reads may take as many steps as the longest read


class ClientRead(NamedTuple):
    """A slow read, and how its client gets the answer."""

    slow: SlowRead
    client: ClientInfo
    answer: Callable[["ReadSlices"], None]
    is_wanted: Callable[[], bool]  # not if it is answered, or its connection is closed

    @property
    def whose(self) -> tuple[int, str]:
        """By what its client is known: the session, and the address or its network."""
        return self.client.session_id, source_of(self.client.address)


class _Limit(NamedTuple):
    """How many steps a read may take while the log waits for it, and what answers one that takes more."""

    steps: float
    refusal: ErrorCode = ErrorCode.BAD_ARGUMENTS


class ReadSlices(Slices):
    """One slow read, from its first slice to its last."""

    def __init__(
        self, read: ClientRead, limit: _Limit, clock: Clock, seconds: float, lengths: Lengths
    ) -> None:
        super().__init__(clock, seconds, lengths)
        self.read = read
        self.limit = limit
        #: What it has to see from here on; None: nothing, while it packs names. After that it sees PIECES.
        self.sees: Sees | None = read.slow.sees
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

    @property
    @override
    def may_leave(self) -> bool:
        return self.sees is Sees.NAMES

    @override
    @contextmanager
    def leaving(self, when_seen: Callable[[], None]) -> Iterator[None]:
        if not self.may_leave:
            with super().leaving(when_seen):
                yield
            return
        when_seen()
        self.sees = None
        yield
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

    They are taken in turns: so no client waits for ever, nor for all of the others that always ask.
    """

    def __init__(self) -> None:
        self._by_rank: tuple[deque[tuple[int, ClientRead]], ...] = (deque(), deque(), deque())
        self._count = 0
        self._oldest_next = False
        self._until: OrderedDict[int | str, int] = OrderedDict()  # sessions and addresses; nanoseconds

    def __bool__(self) -> bool:
        return any(self._by_rank)

    @property
    def oldest(self) -> ClientRead | None:
        """What waits longest."""
        heads = [reads[0] for reads in self._by_rank if reads]
        return min(heads)[1] if heads else None

    def add(self, read: ClientRead, now: int) -> None:
        """A read waits. `now`: nanoseconds."""
        rank = sum(self._until.get(each, 0) >= now for each in read.whose)
        self._count += 1
        self._by_rank[rank].append((self._count, read))

    def take(self) -> ClientRead:
        """The read whose turn it is."""
        waiting = [reads for reads in self._by_rank if reads]
        taken = min(waiting, key=lambda reads: reads[0][0]) if self._oldest_next else waiting[0]
        self._oldest_next = not self._oldest_next
        return taken.popleft()[1]

    def took_long(self, read: ClientRead, now: int) -> None:
        """Its client comes after others for a while."""
        while self._until and next(iter(self._until.values())) < now:
            self._until.popitem(last=False)
        for each in read.whose:
            self._until[each] = now + _REMEMBERED
            self._until.move_to_end(each)


class SlowReads:
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
        self._urgent: deque[ClientRead] = deque()
        self._waiting = _WaitingReads()
        #: The one that is being answered.
        self.running: ReadSlices | None = None
        self._began = 0  # nanoseconds: when that one began
        self._others_first = 0  # until then, no slow read begins that could as well begin later
        self._scheduled = False  # the next slice of a slow read is scheduled
        self._is_timed = False  # `_turn_of_reads` will be called

    @property
    def first(self) -> ClientRead | None:
        """The read that is answered, or waits longest; None if there is none."""
        running = self.running
        return running.read if running else self._urgent[0] if self._urgent else self._waiting.oldest

    def add(self, read: ClientRead) -> None:
        """Answer it; an urgent one from the current state: the log waits for it from now on."""
        if read.slow.is_urgent:
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
        if ended.read.slow.is_urgent:
            self._urgent_share.use(ended.taken)
        now = self._now()
        taken = now - self._began
        self._others_first = now + max(0, self._others_first - self._began)  # an urgent read may have come
        if taken > self._few:
            self._others_first += int(taken * self._share)
            self._waiting.took_long(ended.read, now)
