"""Where work that can take long lets other work have its turn. Pure: the caller decides when.

Each operation has one form, a plain function. A loop in it that can be long goes over `pause.each(items)` or
`pause.batches(items)`, which call the pause every so many items. What a call does is the caller's choice:

- `Pause` does nothing: for a replay, tools and tests.
- `AtOnce` refuses slow reads before they begin, by `TooLong`: for a turn of the event loop.
- `proxy.log.slices.Slices` returns to the event loop when the time of a slice is over.
"""

from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from typing_extensions import override

Item = TypeVar("Item")


class TooLong(Exception):
    """This read takes too long to be done at once. Nothing was changed."""


class Lengths(NamedTuple):
    """How long work may be. A step is a part of a multi, a node, a watch: one or two microseconds."""

    #: Steps between two calls of a pause.
    every: int = 512
    #: Steps of a read that is done at once.
    at_once: int = 1024
    #: A request that consists of parts is decoded only when it is applied if it has more bytes.
    decoded_at_once: int = 32 << 10


LENGTHS = Lengths()


class Pause:
    """Called by work that can take long. This one never interrupts it."""

    def __init__(self, lengths: Lengths = LENGTHS) -> None:
        self.lengths = lengths
        self.every = lengths.every
        self._left = lengths.every  # steps until the next call

    def __call__(self) -> None:
        """Let other work have its turn, perhaps."""
        self._left = self.every

    def expect(self, steps: int) -> None:
        """So many steps follow, before anything is changed. May raise TooLong."""

    def each(self, items: Collection[Item]) -> Iterable[Item]:
        """The items, one a step, with pauses between them. They must not change meanwhile."""
        self._left -= len(items)
        return items if self._left > 0 else self._with_pauses(items)

    def _with_pauses(self, items: Iterable[Item]) -> Iterator[Item]:
        self()
        for batch in self.batches(items):
            yield from batch

    def batches(self, items: Iterable[Item], per_step: int = 1) -> Iterator[list[Item]]:
        """The items in lists, with a pause after each list. `per_step`: so many items are one step."""
        remaining = iter(items)
        while batch := list(islice(remaining, self.every * per_step)):
            yield batch
            self()

    def clear(self, items: list[Any]) -> None:
        """Empty a list: to free very many objects takes long."""
        while len(items) > self.every:
            del items[-self.every :]
            self()
        items.clear()

    def sorted(self, items: Iterable[Item], key: Callable[[Item], Any]) -> list[Item]:
        """As `sorted`. Of very many, what lies between two values of a sample is sorted by itself."""
        unsorted = list(items)
        size = 4 * self.every
        if len(unsorted) <= size:
            return sorted(unsorted, key=key)
        parts_wanted = min(2 * self.every, len(unsorted) // self.every) + 1
        pivots = sorted(map(key, unsorted[:: len(unsorted) // parts_wanted or 1]))
        self()
        parts: list[list[Item]] = [[] for _ in range(len(pivots) + 1)]
        for batch in self.batches(unsorted, per_step=4):
            for item in batch:
                parts[bisect(pivots, key(item))].append(item)
        found: list[Item] = []
        for part in parts:
            found += sorted(part, key=key)
            self()
        return found


NO_PAUSE = Pause()
"""For work that may take as long as it takes."""


class AtOnce(Pause):
    """Refuses what takes long."""

    @override
    def expect(self, steps: int) -> None:
        if steps > self.lengths.at_once:
            raise TooLong
