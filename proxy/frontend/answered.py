"""Requests of one client that are answered but not noted yet: those of a chunk are noted together.

Pure. A pipelined write takes some microseconds, of which noting it by itself would be a good part.
"""

from collections.abc import Callable

from proxy.support.latency import ConnectionLatency


class Answered:
    """The requests of one chunk that were answered since the last `note`. `Order` counts them in here."""

    __slots__ = ("_clock", "_latency", "counts", "opcode", "received", "xid")

    def __init__(self, latency: ConnectionLatency, clock: Callable[[], int]) -> None:
        """`clock` gives nanoseconds."""
        self._latency = latency
        self._clock = clock
        #: How many of each opcode; always the same dict.
        self.counts: dict[int, int] = {}
        self.opcode = 0  # the last one's, and its xid
        self.xid = 0
        self.received = 0  # when the chunk came, by the clock

    def note(self, zxid: int) -> None:
        """Note them as answered now, with the state at `zxid`."""
        counts = self.counts
        if counts:
            now, received, opcode = self._clock(), self.received, self.opcode
            self._latency.note(opcode, counts.pop(opcode), self.xid, zxid, received, now)
            if counts:
                self._latency.note_earlier(list(counts.items()), now - received)
                counts.clear()

    def note_runs(self, runs: list[tuple[int, int]], received: int, zxid: int) -> None:
        """Note reads of a chunk that ends with something else: pairs of an opcode and a count."""
        now = self._clock()
        opcode, count = runs.pop()
        self._latency.note(opcode, count, -1, zxid, received, now)
        self._latency.note_earlier(runs, now - received)
