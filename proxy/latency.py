"""How long requests take from their receipt to their answer. Pure; times are arguments, in seconds."""


class Latency:
    """Minimum, average and maximum in milliseconds, as ZooKeeper's ServerStats keeps them since the start."""

    __slots__ = ("_count", "_total", "high", "low")

    def __init__(self) -> None:
        self._count = 0
        self._total = 0
        self.low = 0
        self.high = 0

    def note(self, seconds: float) -> None:
        """One write has been answered."""
        milliseconds = int(seconds * 1000)
        self.low = milliseconds if self._count == 0 else min(self.low, milliseconds)
        self.high = max(self.high, milliseconds)
        self._count += 1
        self._total += milliseconds

    def average(self, requests: int) -> float:
        """Over all of `requests` answered; those that were not noted, reads, took less than a millisecond."""
        return round(self._total / requests, 4) if requests else 0.0

    def minimum(self, requests: int) -> int:
        """The shortest of all `requests`: 0 as soon as there was a read."""
        return 0 if requests > self._count else self.low
