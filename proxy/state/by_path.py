"""A dict by path that finds the keys among a path and its ancestors. Pure.

To look up each ancestor takes the square of the path's length: 20 ms for a path of 10,000 steps. Of the keys
that are watched, or have a quota or a budget, only the lengths matter, and they have few. Clients may choose
keys of very many lengths, but only those that are not longer than the path cost anything. Of a deep path with
keys at all ancestors that is the square again, as in ZooKeeper: hence the pause.
"""

from bisect import bisect, bisect_left, insort
from collections import Counter
from collections.abc import Iterator
from typing import TypeVar

from typing_extensions import override

from proxy.state.pause import BYTES_PER_STEP, NO_PAUSE, Pause
from schema.paths import ROOT

Value = TypeVar("Value")


class ByPath(dict[str, Value]):
    """Values by path. Only `d[path] = value` and `del d[path]` may change it."""

    __slots__ = ("_counts", "_lengths")

    def __init__(self) -> None:
        super().__init__()
        self._counts: Counter[int] = Counter()  # how many keys have each length
        self._lengths: list[int] = []  # sorted

    @override
    def __setitem__(self, path: str, value: Value) -> None:
        if path not in self:
            length = len(path)
            if not self._counts[length]:
                insort(self._lengths, length)
            self._counts[length] += 1
        super().__setitem__(path, value)

    @override
    def __delitem__(self, path: str) -> None:
        super().__delitem__(path)
        length = len(path)
        self._counts[length] -= 1
        if not self._counts[length]:
            del self._counts[length]
            del self._lengths[bisect_left(self._lengths, length)]

    def upwards(self, path: str, pause: Pause = NO_PAUSE) -> Iterator[str]:
        """The keys among a path and its ancestors, the longest first. Any text may be the path."""
        size = len(path)
        for length in reversed(self._lengths[: bisect(self._lengths, size)]):
            if length == size or (length > 1 and path[length] == "/"):
                step = path[:length]
                pause.spend(1 + length // BYTES_PER_STEP)
                if step in self:
                    yield step
        if path != ROOT and ROOT in self:
            yield ROOT
