"""Clocks that a test sets."""

from typing_extensions import override

from proxy.support.environment import Clock


class FakeClock(Clock):
    """One time, in seconds, for all clocks of a host. It advances by `step` at each look."""

    def __init__(self, now: float = 0.0, step: float = 0.0) -> None:
        self.now = now
        self.step = step
        self.looks = 0

    def _look(self) -> float:
        self.looks += 1
        self.now += self.step
        return self.now

    @override
    def time(self) -> float:
        return self._look()

    @override
    def time_ns(self) -> int:
        return int(self._look() * 1e9)

    @override
    def monotonic(self) -> float:
        return self._look()

    @override
    def perf_counter(self) -> float:
        return self._look()

    @override
    def perf_counter_ns(self) -> int:
        return int(self._look() * 1e9)
