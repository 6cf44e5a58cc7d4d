"""Windows of large directories: sorted names are kept, so that a page, or a look each second, costs little.

It does no I/O; it only pauses.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from console.walks.listing import first_of, ordered
from console.walks.pacing import Pace, paced
from proxy.state.node import Node

# A directory that is not worth keeping has so many names, and so many characters of paths.
_SMALL = 2048
_SHORT = 1 << 19
_MOST_KEPT = 32 << 20  # bytes of the paths of all directories that are kept
_POINTER = 8
_CHUNK = 4096  # names that are compared between two pauses
_LONG = 1 << 20  # characters of these

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
        self._kept: OrderedDict[str, tuple[_Mark, list[str], int]] = OrderedDict()

    async def names(self, node: Node, window: Window, pace: Pace) -> Names:
        """The names in a window of the directory `node`."""
        known = await self._sorted(node, window.path, pace)  # paths: the tree's own strings
        above = known[0][: known[0].rfind("/") + 1] if known else ""
        low, high = _matching(known, above + window.prefix)
        if window.contains:
            parts = _containing(known[low:high], len(above), window.contains, pace)
            known = [path async for path in parts]
            low, high = 0, len(known)
        if window.offset >= 0:
            first = min(low + window.offset, high)
        elif window.start:
            first = bisect_left(known, above + window.start, low, high)
        else:
            first = bisect_right(known, above + window.after, low, high) if window.after else low
        first = max(low, first - window.lead)
        shown = (path[len(above) :] for path in known[first : min(high, first + window.limit)])
        return Names(first_of(shown), first - low, high - low)

    async def _sorted(self, node: Node, path: str, pace: Pace) -> list[str]:
        children = node.children or ()
        if len(children) <= _SMALL and sum(map(len, children)) <= _SHORT:
            await pace.rest()
            return sorted(node.children or ())
        mark = _mark(node)
        kept = self._kept.get(path)
        if kept is not None and kept[0] == mark:
            self._kept.move_to_end(path)
            return kept[1]
        paths: list[str] = []
        size = 0
        async for child in paced(ordered(lambda: node.children or ()), pace):
            paths.append(child)
            size += len(child) + _POINTER
        self._kept.pop(path, None)
        if _mark(node) == mark:
            self._kept[path] = mark, paths, size
            while sum(each[2] for each in self._kept.values()) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return paths


def _mark(node: Node) -> _Mark:
    """Another one for each set of children that the node has had."""
    return node.czxid, node.pzxid, node.created, len(node.children or ())


def _matching(names: Sequence[str], prefix: str) -> tuple[int, int]:
    """The places of the names that begin with `prefix`."""
    if not prefix:
        return 0, len(names)
    low = bisect_left(names, prefix)
    return low, bisect_left(names, True, low, key=lambda name: not name.startswith(prefix))


async def _containing(paths: Sequence[str], start: int, text: str, pace: Pace) -> AsyncIterator[str]:
    left = 0
    for path in paths:
        if left <= 0:
            await pace.rest()
            left = _LONG
        left -= _LONG // _CHUNK + len(path)
        if path.find(text, start) >= 0:
            yield path
