"""A dict by path that finds the keys among a path and its ancestors. Pure.

To look up each ancestor takes the square of the path's length: 20 ms for a path of 10,000 steps. Of the keys
that are watched, or have a quota or a budget, only the lengths matter, and they have few. Clients may choose
keys of very many lengths, at all ancestors of a deep path. So the path is hashed once, by a CRC that goes on
from one length to the next, and each length costs a look-up of a number. Neighbours in the tree share most of
their ancestors, so what was found above the last path is kept, and a search goes on where its path differs.
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
# To look up fewer lengths again is as fast as to compare the paths.
_WORTH_COMPARING = 32


class _Search:
    """What was found above one path, at each length where a step of it ends and a key may end."""

    __slots__ = ("counts", "crcs", "keys", "lengths", "raw")

    def __init__(self) -> None:
        self.raw = b""
        self.lengths: list[int] = []
        self.crcs: list[int] = []  # of so many bytes
        self.counts: list[int] = []  # how many keys were found up to there
        self.keys: list[str] = []  # the shortest first

    def go_to(self, raw: bytes) -> int:
        """Keep what was found up to where another path differs; returns how many bytes both have."""
        former = self.raw
        common = bisect_left(
            range(min(len(raw), len(former))), True, key=lambda place: not raw.startswith(former[: place + 1])
        )
        kept = bisect_left(self.lengths, common)  # at `common` a step may end in only one of them
        for some in (self.lengths, self.crcs, self.counts):
            del some[kept:]
        del self.keys[self.counts[-1] if kept else 0 :]
        self.raw = raw
        return common


class ByPath(dict[str, Value]):
    """Values by path. Only `d[path] = value` and `del d[path]` may change it."""

    __slots__ = ("_above", "_by_mark", "_changes", "_counts", "_last", "_lengths", "_search")

    def __init__(self) -> None:
        super().__init__()
        # The key of each mark. Clients can make keys with the same one: then how many have it, or had it when
        # another was added.
        self._by_mark: dict[int, str | int] = {}
        self._counts: Counter[int] = Counter()  # how many keys have each length, in bytes
        self._lengths: list[int] = []  # sorted
        self._last: tuple[str, list[str]] = _NONE  # the last path searched, and what was found
        self._search: _Search | None = None  # the last one among many lengths
        self._changes = 0  # how often a key has come or gone
        # Another key above a key, as it was last found: to compare long keys from the beginning is slow.
        self._above: dict[str, str] = {}

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
            self._forget()
        super().__setitem__(path, value)

    @override
    def __delitem__(self, path: str) -> None:
        super().__delitem__(path)
        self._above.pop(path, None)
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
        self._forget()

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
        former, self._search = self._search, None
        search: _Search | None = None
        changes = self._changes
        raw = path.encode("utf-8", "surrogatepass")
        size = len(raw)
        end = bisect(self._lengths, size)
        begin = done = crc = 0
        if end >= _WORTH_COMPARING:
            search = former or _Search()
            begin = bisect_left(self._lengths, search.go_to(raw))
            if search.lengths:
                done, crc = search.lengths[-1], search.crcs[-1]
        keys = [] if search is None else search.keys
        if not keys and path != ROOT and ROOT in self:
            keys.append(ROOT)
        for length in pause.each(self._lengths[begin:end]):
            if length == size or (length > 1 and raw[length] == _SLASH):
                crc = crc32(raw[done:length], crc)
                done = length
                key = self._by_mark.get(length << _CRC_BITS | crc)
                if isinstance(key, int):
                    some = raw[:length].decode("utf-8", "surrogatepass")
                    if length > BYTES_PER_STEP:
                        pause.spend(length // BYTES_PER_STEP)
                    if some in self:
                        keys.append(some)
                elif key is not None and self._is_above(key, path, keys[-1] if keys else "", pause):
                    keys.append(key)
                if search is not None:
                    search.lengths.append(length)
                    search.crcs.append(crc)
                    search.counts.append(len(keys))
        found = keys[::-1]
        if self._changes == changes:  # no key came or went meanwhile
            self._last = path, found
            self._search = search or former
        return found

    def _forget(self) -> None:
        self._last = _NONE
        self._search = None
        self._changes += 1

    def _is_above(self, key: str, path: str, other: str, pause: Pause) -> bool:
        """Whether a path begins with a key; it begins with another one, which is shorter."""
        if other and self._above.get(key) is other:
            return path.startswith(key[len(other) :], len(other))
        begins = path.startswith(key)
        if begins:
            self._above[key] = other
        if len(key) > BYTES_PER_STEP:
            pause.spend(len(key) // BYTES_PER_STEP)
        return begins


def _length_and_mark(key: str) -> tuple[int, int]:
    raw = key.encode("utf-8", "surrogatepass")
    return len(raw), len(raw) << _CRC_BITS | crc32(raw)
