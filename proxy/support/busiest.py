"""Who or what came most often lately: counts that fade, in a table of bounded size. Pure.

A count is added with a weight that grows with time, so older ones fade without being touched (forward decay).
If a table has twice as many keys as it keeps, the smaller half is dropped: a key with more than its share of
all recent counts is always among those that stay (Misra and Gries).
"""

import heapq
import math
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

_Key = TypeVar("_Key", bound=Hashable)

#: Weights are counted from zero again before they are too large to be added exactly.
_LARGE = 2.0**20


class Rates(NamedTuple):
    """How often something came, a second."""

    reads: float
    writes: float


class Fading:
    """The weight of a count now, and what a sum of weights means as a rate."""

    def __init__(self, window: float, now: float) -> None:
        """`window`: seconds, the mean age of what is counted. `now`: of a monotonic clock."""
        self._window = window
        self._began = self._origin = now
        self._tables: list[Busiest[Hashable]] = []

    def table(self, most: int) -> "Busiest[Hashable]":
        """A table whose counts fade so; it keeps at least so many keys."""
        made: Busiest[Hashable] = Busiest(most)
        self._tables.append(made)
        return made

    def weight(self, now: float) -> float:
        """What one counts now."""
        weight = math.exp(min((now - self._origin) / self._window, 700.0))
        if weight > _LARGE:
            for table in self._tables:
                table.scale(1 / weight)
            self._origin = now
            return 1.0
        return weight

    def per_second(self, now: float) -> float:
        """By what a sum of weights is multiplied to be a rate of the last `window` seconds, about."""
        passed = max(now - self._began, 1.0)
        return 1 / (self.weight(now) * self._window * -math.expm1(-passed / self._window))


class Busiest(Generic[_Key]):
    """Reads and writes of each key, as sums of weights."""

    __slots__ = ("_most", "_sums")

    def __init__(self, most: int) -> None:
        self._most = most
        self._sums: dict[_Key, list[float]] = {}

    def __len__(self) -> int:
        return len(self._sums)

    def add(self, key: _Key, is_write: bool, weight: float) -> None:
        """Count a request."""
        sums = self._sums.get(key)
        if sums is None:
            if len(self._sums) >= 2 * self._most:
                self._sums = dict(self._top(self._most))
            sums = self._sums[key] = [0.0, 0.0]
        sums[is_write] += weight

    def scale(self, factor: float) -> None:
        """Multiply all sums."""
        for sums in self._sums.values():
            sums[0] *= factor
            sums[1] *= factor

    def top(self, most: int, factor: float) -> list[tuple[_Key, Rates]]:
        """The keys with the largest sums, the largest first; each sum multiplied."""
        return [(key, Rates(reads * factor, writes * factor)) for key, (reads, writes) in self._top(most)]

    def _top(self, most: int) -> list[tuple[_Key, list[float]]]:
        return heapq.nlargest(most, self._sums.items(), key=lambda item: item[1][0] + item[1][1])
