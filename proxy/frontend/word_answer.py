"""The answer to a four-letter word. A long one is made in slices."""

from collections.abc import Iterator
from itertools import islice

from proxy.frontend.request_times import Clock
from proxy.support.slices import SLICE

_LINES = 256  # between two looks at the clock


class WordAnswer:
    """One answer, while it is made."""

    def __init__(self, lines: Iterator[str], clock: Clock) -> None:
        self._lines = lines
        self._clock = clock
        self._made: list[str] = []

    def make(self) -> bytes | None:
        """Make one slice: the whole answer, or None if more is to be made."""
        deadline = self._clock.perf_counter_ns() + int(SLICE * 1e9)
        while some := list(islice(self._lines, _LINES)):
            self._made += some
            if self._clock.perf_counter_ns() >= deadline:
                return None
        return "".join(self._made).encode()
