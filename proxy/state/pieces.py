"""Work that takes long, done in pieces. Pure: the caller decides how long to go on at a stretch.

An operation that finds that it would take long raises `Laborious` before it has changed anything. Then its
form in pieces is used: a generator, which yields where others may have their turn. Where no
turns are needed, `whole` does all of it at once.

The form in pieces has the verb's form in -ing: `commit` and `committing`, `decode` and `decoding`.
"""

from bisect import bisect
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

Result = TypeVar("Result")
Item = TypeVar("Item")

#: Some work in pieces, and what comes of it at the end.
Work = Generator[None, None, Result]

#: Parts, nodes or watches that are worked on between two yields: 1 to 2 ms.
PIECE = 512
#: What takes more steps than this is done in pieces.
AT_ONCE = 1024
#: Requests of more bytes than this are done in pieces, where they consist of parts.
AT_ONCE_BYTES = 32 << 10

# Items that are sorted at a stretch, and by how many values others are divided: 1 to 2 ms.
_SORTED = 2048
_PIVOTS = 1024


class Laborious(Exception):
    """This takes too long to be done at a stretch. Nothing was changed."""


class Unfinished(Exception):
    """A request takes long: what was begun of it is taken back, and `work` does all of it, in pieces."""

    def __init__(self, work: Work[Any]) -> None:
        super().__init__("a request takes long")
        self.work = work


def whole(work: Work[Result]) -> Result:
    """Do all of it."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: Result = end.value
            return result


def sorting(items: Iterable[Item], key: Callable[[Item], Any]) -> Work[list[Item]]:
    """As `sorted`, in pieces: what lies between two values of a sample is sorted by itself."""
    unsorted = list(items)
    if len(unsorted) <= _SORTED:
        return sorted(unsorted, key=key)
    pivots = sorted(map(key, unsorted[:: max(1, len(unsorted) // min(_PIVOTS, len(unsorted) // PIECE + 1))]))
    yield
    parts: list[list[Item]] = [[] for _ in range(len(pivots) + 1)]
    for start in range(0, len(unsorted), _SORTED):
        for item in unsorted[start : start + _SORTED]:
            parts[bisect(pivots, key(item))].append(item)
        yield
    found: list[Item] = []
    for part in parts:
        found += sorted(part, key=key)
        yield
    return found
