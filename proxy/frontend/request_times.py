"""Records how long the requests of one client take: those of a chunk that are answered together, together.

Pure. A pipelined write takes some microseconds; recording each one alone would add a large part.
"""

from typing import Protocol

from codec.constants import OpCode, Xid
from proxy.frontend.replies import Machine
from proxy.support.latency import ConnectionLatency

_PING = int(OpCode.PING)


class Clock(Protocol):
    """A clock that measures durations."""

    def perf_counter_ns(self) -> int:
        """Nanoseconds from an arbitrary origin."""


class RequestTimes:
    """Counts requests as they are answered, and records how long they took."""

    __slots__ = ("_clock", "_counts", "_latency", "_machine", "_opcode", "_received", "_xid")

    def __init__(self, latency: ConnectionLatency, machine: Machine, clock: Clock) -> None:
        self._latency = latency
        self._machine = machine
        self._clock = clock
        self._counts: dict[int, int] = {}  # of each opcode, since the last `note`
        self._opcode = 0  # of the last one
        self._received = 0  # when the chunk of all of them was received
        self._xid = 0  # of the last one

    def now(self) -> int:
        """Nanoseconds."""
        return self._clock.perf_counter_ns()

    def count(self, opcode: int, count: int, xid: int, received: int) -> None:
        """So many requests of a chunk that was received then are answered; `xid` is the last one's."""
        if received != self._received:
            self.note()
            self._received = received
        self._opcode = opcode
        self._xid = xid
        counts = self._counts
        counts[opcode] = counts.get(opcode, 0) + count

    def refuse(self, opcode: int) -> None:
        """A write has failed; `count` counts it as well."""
        self._latency.note_refused(opcode)

    def note(self) -> None:
        """Record the counted requests as answered now."""
        counts = self._counts
        if counts:
            now, received, opcode = self._clock.perf_counter_ns(), self._received, self._opcode
            self._latency.note(opcode, counts.pop(opcode), self._xid, self._machine.zxid, received, now)
            if counts:
                self._latency.note_earlier(list(counts.items()), now - received)
                counts.clear()

    def note_run(self, opcode: int, count: int, xid: int, received: int) -> None:
        """As `count`, and `note` at once."""
        if self._counts:
            self.count(opcode, count, xid, received)
            self.note()
        else:
            now = self._clock.perf_counter_ns()
            self._latency.note(opcode, count, xid, self._machine.zxid, received, now)

    def note_single(self, opcode: int, xid: int, received: int) -> None:
        """Record a request that is answered alone."""
        self.note()
        self._latency.note(opcode, 1, xid, self._machine.zxid, received, self._clock.perf_counter_ns())

    def note_ping(self) -> None:
        """Record a ping, with no duration."""
        self.note_single(_PING, Xid.PING, self._clock.perf_counter_ns())
