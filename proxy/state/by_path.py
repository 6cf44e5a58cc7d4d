"""A dict by path that finds the keys among a path and its ancestors. Pure.

To look up each ancestor takes the square of the path's length: 20 ms for a path of 10,000 steps. Of the keys
that are watched, or have a quota or a budget, only the lengths matter, and they have few. Clients may choose
keys of very many lengths, at all ancestors of a deep path. So the path is hashed once, by a CRC that goes on
from one length to the next, and each length costs a look-up of a number. Changes often share a parent, so
what was found above the last one is kept.
"""

from bisect import bisect, bisect_left, insort
from collections import Counter
from typing import TypeVar
from zlib import crc32

from typing_extensions import override

from proxy.state.pause import BYTES_PER_STEP, NO_PAUSE, Pause
from schema.paths import ROOT

Value = TypeVar("Value")

_SLASH = ord("/")
_CRC_BITS = 32
_NONE: tuple[str, list[str]] = "", []


class ByPath(dict[str, Value]):
    """Values by path. Only `d[path] = value` and `del d[path]` may change it."""

    __slots__ = ("_by_mark", "_counts", "_last", "_lengths")

    def __init__(self) -> None:
        super().__init__()
        # The key of each mark. Clients can make keys with the same one: then how many have it, or had it when
        # another was added.
        self._by_mark: dict[int, str | int] = {}
        self._counts: Counter[int] = Counter()  # how many keys have each length, in bytes
        self._lengths: list[int] = []  # sorted
        self._last: tuple[str, list[str]] = _NONE  # the last path searched, and what was found

    @override
    def __setitem__(self, path: str, value: Value) -> None:
        if path not in self:
            length, mark = _length_and_mark(path)
            if not self._counts[length]:
                insort(self._lengths, length)
            self._counts[length] += 1
            known = self._by_mark.get(mark)
            if known is None:
                self._by_mark[mark] = path
            else:
                self._by_mark[mark] = known + 1 if isinstance(known, int) else 2
            self._last = _NONE
        super().__setitem__(path, value)

    @override
    def __delitem__(self, path: str) -> None:
        super().__delitem__(path)
        length, mark = _length_and_mark(path)
        self._counts[length] -= 1
        if not self._counts[length]:
            del self._counts[length]
            del self._lengths[bisect_left(self._lengths, length)]
        known = self._by_mark[mark]
        if isinstance(known, int) and known > 1:
            self._by_mark[mark] = known - 1
        else:
            del self._by_mark[mark]
        self._last = _NONE

    def upwards(self, path: str, pause: Pause = NO_PAUSE) -> list[str]:
        """The keys among a path and its ancestors, the longest first. Any text may be the path.

        The list is not to be changed. What was deleted during a pause may be in it.
        """
        if path == ROOT:
            return [ROOT] if ROOT in self else []
        above = self.from_parent(path[: max(path.rfind("/"), 0)] or ROOT, pause)
        return [path, *above] if path in self else above

    def from_parent(self, path: str, pause: Pause) -> list[str]:
        """As `upwards`, for the parent of what changes: the same one often comes again."""
        last, found = self._last
        if last == path:
            return found
        searching: tuple[str, list[str]] = ("", [])
        self._last = searching
        found = [ROOT] if path != ROOT and ROOT in self else []
        raw = path.encode("utf-8", "surrogatepass")
        size = len(raw)
        crc = begin = 0
        for length in pause.each(self._lengths[: bisect(self._lengths, size)]):
            if length == size or (length > 1 and raw[length] == _SLASH):
                crc = crc32(raw[begin:length], crc)
                begin = length
                key = self._by_mark.get(length << _CRC_BITS | crc)
                if key is None:
                    continue
                if length > BYTES_PER_STEP:
                    pause.spend(length // BYTES_PER_STEP)
                if isinstance(key, int):
                    key = raw[:length].decode("utf-8", "surrogatepass")
                    if key not in self:
                        continue
                elif not path.startswith(key):
                    continue
                found.append(key)
        found.reverse()
        if self._last is searching:  # no key came or went meanwhile
            self._last = path, found
        return found


def _length_and_mark(key: str) -> tuple[int, int]:
    raw = key.encode("utf-8", "surrogatepass")
    return len(raw), len(raw) << _CRC_BITS | crc32(raw)
