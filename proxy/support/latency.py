"""How many requests there were and how long they took, by operation and by connection.

Pure; all times are nanoseconds of one monotonic clock, as arguments. Reads are noted once for each chunk of
requests that came together, with the time from the chunk's receipt to its replies, so that a read in a long
chunk pays nothing; writes one by one. Counts only grow: a reset (srst) remembers where they stood.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from codec.constants import OpCode

BUCKETS = 64
"""Bucket n of a histogram counts what took less than 2 ** n nanoseconds, but not less than half of that."""
MILLISECOND = 1_000_000
# What every connection may be noted with, besides the operations of `ops`, and whether it is an update.
OF_SESSIONS: Mapping[int, bool] = {OpCode.CREATE_SESSION: True, OpCode.PING: False}
_NEVER = 1 << 62


class Histogram:
    """Times of one kind of request, or other numbers."""

    __slots__ = ("buckets", "total")

    def __init__(self) -> None:
        self.buckets = [0] * BUCKETS
        self.total = 0

    def note(self, value: int, count: int = 1) -> None:
        """It was `count` times this."""
        self.buckets[value.bit_length()] += count
        self.total += value * count

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.buckets)

    def plus(self, other: "Histogram") -> "Histogram":
        """A histogram of what both have counted."""
        made = Histogram()
        made.buckets = [one + two for one, two in zip(self.buckets, other.buckets, strict=True)]
        made.total = self.total + other.total
        return made

    def since(self, earlier: "Histogram") -> "Histogram":
        """What has come since it was like `earlier`."""
        made = Histogram()
        made.buckets = [now - then for now, then in zip(self.buckets, earlier.buckets, strict=True)]
        made.total = self.total - earlier.total
        return made

    def quantile(self, share: float) -> int:
        """The end of the bucket within which `share` (0 to 1) of the requests ended; 0 for none."""
        wanted = share * self.count
        seen = 0
        for place, count in enumerate(self.buckets):
            seen += count
            if count and seen >= wanted:
                return 1 << place
        return 0


class _Extremes:
    """The shortest and the longest, until forgotten."""

    __slots__ = ("high", "low")

    def __init__(self) -> None:
        self.low = _NEVER
        self.high = 0

    @property
    def minimum(self) -> int:
        """Whole milliseconds; 0 if there was none."""
        return 0 if self.low == _NEVER else self.low // MILLISECOND

    @property
    def maximum(self) -> int:
        """Whole milliseconds."""
        return self.high // MILLISECOND


class Latency(_Extremes):
    """All requests of one server: ZooKeeper's ServerStats and its read and update latency."""

    __slots__ = ("_before", "by_opcode", "refused", "updates")

    def __init__(self, updates: Mapping[int, bool]) -> None:
        """`updates`: all opcodes that will be noted, besides those of sessions, and which are updates."""
        super().__init__()
        self.updates = {**OF_SESSIONS, **updates}
        self.by_opcode = {opcode: Histogram() for opcode in self.updates}
        self.refused: Counter[int] = Counter()  # writes that failed, by opcode: `by_opcode` has them as well
        self._before = (Histogram(), Histogram())

    def reset(self) -> None:
        """Start anew for what ZooKeeper's own words report (srst); `by_opcode` is kept."""
        self._before = (self.total(updates=False), self.total(updates=True))
        self.low = _NEVER
        self.high = 0

    def total(self, *, updates: bool) -> Histogram:
        """All updates, or all reads, since the start."""
        made = Histogram()
        for opcode, histogram in self.by_opcode.items():
            if self.updates[opcode] is updates:
                made = made.plus(histogram)
        return made

    def recent(self, *, updates: bool) -> Histogram:
        """All updates, or all reads, since the last reset."""
        return self.total(updates=updates).since(self._before[updates])

    @property
    def average(self) -> float:
        """The mean of all requests since the last reset, in milliseconds; 0 if there was none."""
        every = self.recent(updates=False).plus(self.recent(updates=True))
        count = every.count
        return round(every.total / count / MILLISECOND, 4) if count else 0.0


class ConnectionLatency(_Extremes):
    """The requests of one connection: what `cons` reports (ServerCnxn.updateStatsForResponse)."""

    __slots__ = ("_by_opcode", "_server", "count", "last", "last_xid", "nanos")

    # Opcode, zxid, duration and end of the last request; a request of the client's own has an xid from 0 up.
    last: tuple[int | None, int, int, int]
    last_xid: int

    def __init__(self, server: Latency) -> None:
        super().__init__()
        self._server = server
        self._by_opcode = server.by_opcode
        self.reset()

    def reset(self) -> None:
        """Forget all (crst). The server's figures stay."""
        self.low = _NEVER
        self.high = self.count = self.nanos = 0
        self.last = (None, -1, 0, 0)
        self.last_xid = -1

    @property
    def average(self) -> int:
        """The mean, in whole milliseconds; 0 if there was none."""
        return self.nanos // self.count // MILLISECOND if self.count else 0

    def note(self, opcode: int, count: int, xid: int, zxid: int, started: int, now: int) -> None:
        """`count` requests of one kind came at `started` and are answered `now`; `xid` is the last one's."""
        nanos = now - started
        histogram = self._by_opcode[opcode]
        histogram.buckets[nanos.bit_length()] += count
        histogram.total += nanos * count
        server = self._server
        if nanos < server.low:
            server.low = nanos
        if nanos > server.high:
            server.high = nanos
        if nanos < self.low:
            self.low = nanos
        if nanos > self.high:
            self.high = nanos
        self.count += count
        self.nanos += nanos * count
        self.last = (opcode, zxid, nanos, now)
        if xid >= 0:
            self.last_xid = xid

    def note_refused(self, opcode: int) -> None:
        """A write that `note` counts, or will count, has failed."""
        self._server.refused[opcode] += 1

    def note_earlier(self, runs: Sequence[tuple[int, int]], nanos: int) -> None:
        """Pairs of opcode and count, of requests of the same chunk before those that `note` has counted."""
        bucket = nanos.bit_length()
        for opcode, count in runs:
            histogram = self._by_opcode[opcode]
            histogram.buckets[bucket] += count
            histogram.total += nanos * count
            self.count += count
            self.nanos += nanos * count


_SAMPLES = 128  # calls after which the smallest round trip is measured anew


class RoundTrip:
    """The smallest time that a call took lately: what the network and etcd take, without our own queues."""

    __slots__ = ("_count", "_current", "_previous")

    def __init__(self) -> None:
        self._previous = self._current = float("inf")
        self._count = 0

    def note(self, seconds: float) -> None:
        """A call took so long."""
        if seconds < self._current:
            self._current = seconds
        self._count += 1
        if self._count == _SAMPLES:
            self._previous, self._current, self._count = self._current, float("inf"), 0

    @property
    def seconds(self) -> float:
        """0 until something was measured."""
        least = min(self._previous, self._current)
        return 0.0 if least == float("inf") else least
