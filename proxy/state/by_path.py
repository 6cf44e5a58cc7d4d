"""A dict by path that finds the keys among a path and its ancestors. Pure.

To look up each ancestor takes the square of the path's length: 20 ms for a path of 10,000 steps. Of the keys
that are watched, or have a quota or a budget, only the lengths matter, and they have few. Clients may choose
keys of very many lengths, at all ancestors of a deep path. So the path is hashed once, by a CRC that goes on
from one length to the next, and each length costs a look-up of a number.
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


class ByPath(dict[str, Value]):
    """Values by path. Only `d[path] = value` and `del d[path]` may change it."""

    __slots__ = ("_by_mark", "_counts", "_lengths")

    def __init__(self) -> None:
        super().__init__()
        # The key of each mark. Clients can make keys with the same one: then how many have it, or had it when
        # another was added.
        self._by_mark: dict[int, str | int] = {}
        self._counts: Counter[int] = Counter()  # how many keys have each length, in bytes
        self._lengths: list[int] = []  # sorted

    @override
    def __setitem__(self, path: str, value: Value) -> None:
        if path not in self:
            raw = _encoded(path)
            length = len(raw)
            if not self._counts[length]:
                insort(self._lengths, length)
            self._counts[length] += 1
            mark = _mark(length, crc32(raw))
            known = self._by_mark.get(mark)
            if known is None:
                self._by_mark[mark] = path
            else:
                self._by_mark[mark] = known + 1 if isinstance(known, int) else 2
        super().__setitem__(path, value)

    @override
    def __delitem__(self, path: str) -> None:
        super().__delitem__(path)
        raw = _encoded(path)
        length = len(raw)
        self._counts[length] -= 1
        if not self._counts[length]:
            del self._counts[length]
            del self._lengths[bisect_left(self._lengths, length)]
        mark = _mark(length, crc32(raw))
        known = self._by_mark[mark]
        if isinstance(known, int) and known > 1:
            self._by_mark[mark] = known - 1
        else:
            del self._by_mark[mark]

    def upwards(self, path: str, pause: Pause = NO_PAUSE) -> list[str]:
        """The keys among a path and its ancestors, the longest first. Any text may be the path.

        What was deleted during a pause may be among them.
        """
        raw = _encoded(path)
        size = len(raw)
        by_mark = self._by_mark
        found = [ROOT] if path != ROOT and ROOT in self else []
        crc = begin = 0
        for length in pause.each(self._lengths[: bisect(self._lengths, size)]):
            if length == size or (length > 1 and raw[length] == _SLASH):
                crc = crc32(raw[begin:length], crc)
                begin = length
                key = by_mark.get(_mark(length, crc))
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
        return found


def _encoded(path: str) -> bytes:
    return path.encode("utf-8", "surrogatepass")


def _mark(length: int, crc: int) -> int:
    return length << 32 | crc
