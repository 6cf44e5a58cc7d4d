"""Windows of large directories: sorted names are kept, so that a page, or a look each second, costs little.

It does no I/O; it only pauses.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from console.walks.listing import ordered
from console.walks.pacing import Pace, paced
from proxy.state.node import Node, child_names

_SMALL = 2048  # names of a directory that is not worth keeping
_MOST_KEPT = 400_000  # names of all directories that are kept
_CHUNK = 4096  # names that are compared between two pauses

_Mark = tuple[int, int, int, int]


class Window(NamedTuple):
    """Which children are wanted: `limit` of those that match, in order."""

    path: str
    prefix: str = ""  # their names begin with it
    contains: str = ""  # their names contain it
    after: str = ""  # behind this name
    start: str = ""  # from this name on, or the next one
    offset: int = -1  # from this place on; -1: as the names above say
    lead: int = 0  # so many more before that
    limit: int = 100


class Names(NamedTuple):
    """The names in a window."""

    names: Sequence[str]
    before: int  # matching names before them
    matching: int  # names that match in all


class Directories:
    """The sorted names of large directories that were asked for lately."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[_Mark, list[str]]] = OrderedDict()

    async def names(self, node: Node, window: Window, pace: Pace) -> Names:
        """The names in a window of the directory `node`."""
        known = await self._sorted(node, window.path, pace)
        low, high = _matching(known, window.prefix)
        if window.contains:
            known = [name async for name in _containing(known, low, high, window.contains, pace)]
            low, high = 0, len(known)
        if window.offset >= 0:
            first = min(low + window.offset, high)
        elif window.start:
            first = bisect_left(known, window.start, low, high)
        else:
            first = bisect_right(known, window.after, low, high) if window.after else low
        first = max(low, first - window.lead)
        return Names(known[first : min(high, first + window.limit)], first - low, high - low)

    async def _sorted(self, node: Node, path: str, pace: Pace) -> list[str]:
        if len(node.children or ()) <= _SMALL:
            await pace.rest()
            return sorted(child_names(node))
        mark = _mark(node)
        kept = self._kept.get(path)
        if kept is not None and kept[0] == mark:
            self._kept.move_to_end(path)
            return kept[1]
        names = [name async for name in paced(ordered(lambda: child_names(node)), pace)]
        self._kept.pop(path, None)
        if _mark(node) == mark:
            self._keep(path, mark, names)
        return names

    def _keep(self, path: str, mark: _Mark, names: list[str]) -> None:
        self._kept[path] = (mark, names)
        while sum(len(each) for _, each in self._kept.values()) > _MOST_KEPT:
            self._kept.popitem(last=False)


def _mark(node: Node) -> _Mark:
    """Another one for each set of children that the node has had."""
    return node.czxid, node.pzxid, node.created, len(node.children or ())


def _matching(names: Sequence[str], prefix: str) -> tuple[int, int]:
    """The places of the names that begin with `prefix`."""
    if not prefix:
        return 0, len(names)
    low = bisect_left(names, prefix)
    return low, bisect_left(names, True, low, key=lambda name: not name.startswith(prefix))


async def _containing(names: Sequence[str], low: int, high: int, text: str, pace: Pace) -> AsyncIterator[str]:
    for first in range(low, high, _CHUNK):
        await pace.rest()
        for name in names[first : min(high, first + _CHUNK)]:
            if text in name:
                yield name
