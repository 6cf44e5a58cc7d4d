"""The places in long work where other work may run. Pure: the caller decides whether it does.

Each operation has one form, a plain function. A loop in it that can be long goes over `pause.each(items)` or
`pause.batches(items)`, which call the pause after a fixed number of items. The caller chooses what a call
does:

- `Pause` does nothing: for a replay, tools and tests.
- `AtOnce` refuses slow reads before they begin, by `TooLong`: for a turn of the event loop.
- `proxy.log.slices.Slices` returns to the event loop when the time of a slice is over.
"""

from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from typing_extensions import override

from codec.constants import ErrorCode

Item = TypeVar("Item")


class TooLong(Exception):
    """This read takes too long to be done at once. Nothing was changed. `steps`: it takes more than these."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps


class TooMuch(Exception):
    """This read takes more steps than it may. `code`: what is answered."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__()
        self.code = code


class Lengths(NamedTuple):
    """Limits of work, in steps. A step is a part of a multi, a node, a watch: one or two microseconds.

    What takes longer counts as more steps (`Pause.spend`).
    """

    #: Steps between two calls of a pause.
    every: int = 512
    #: Steps of the longest read that is done at once.
    at_once: int = 1024
    #: Steps of the longest read for which the log waits; about a second. What takes more is refused.
    longest: int = 1 << 20
    #: A request with more bytes is decoded only when it is applied, if it has parts or a long ACL.
    decoded_at_once: int = 32 << 10


LENGTHS = Lengths()
#: So many bytes are copied, or hashed, in about the time of one step.
BYTES_PER_STEP = 4096


class Pause:
    """Called by work that can take long. This one never interrupts it."""

    def __init__(self, lengths: Lengths = LENGTHS) -> None:
        self.lengths = lengths
        self.every = lengths.every
        self._left = lengths.every  # steps until the next call

    def __call__(self) -> None:
        """Let other work run, if it is time to."""
        self._left = self.every

    def expect(self, steps: int) -> None:
        """Called before anything is changed: so many steps follow. May raise TooLong or TooMuch."""

    @property
    def may_leave(self) -> bool:
        """Whether the state may change while `leaving`: what is used in there has to be copied before.

        So it may for a read that sees NAMES and is the whole request: as a part of another one it sees what
        that one does.
        """
        return False

    @contextmanager
    def leaving(self, when_seen: Callable[[], None]) -> Iterator[None]:
        """Within the block nothing of the state is looked at.

        `when_seen` is called when nothing refuses the read any more, while the state is what the read shows:
        at the end of the block, or before the state may change.
        """
        yield
        when_seen()

    def each(self, items: Collection[Item]) -> Iterable[Item]:
        """The items, one a step, with pauses between them. They must not change meanwhile."""
        self._left -= len(items)
        return items if self._left > 0 else self._with_pauses(items)

    def _with_pauses(self, items: Iterable[Item]) -> Iterator[Item]:
        self()
        for batch in self.batches(items):
            yield from batch

    def spend(self, steps: int) -> None:
        """So many more steps were done than `each` and `batches` know of."""
        self._left -= steps
        if self._left <= 0:
            self()

    def batches(self, items: Iterable[Item], per_step: int = 1) -> Iterator[list[Item]]:
        """The items in lists, with a pause after each list. `per_step`: so many items are one step."""
        remaining = iter(items)
        while batch := list(islice(remaining, self.every * per_step)):
            yield batch
            self()

    def texts(self, texts: Iterable[str], per_step: int = 1) -> Iterator[list[str]]:
        """As `batches`, but the lists of long texts are shorter."""
        some: list[str] = []
        size = 0
        for text in texts:
            some.append(text)
            size += len(text)
            if len(some) == self.every * per_step or size >= self.every * BYTES_PER_STEP:
                yield some
                some, size = [], 0
                self()
        if some:
            yield some
            self()

    def clear(self, items: list[Any]) -> None:
        """Empty a list with pauses: freeing very many objects is slow."""
        while len(items) > self.every:
            del items[-self.every :]
            self()
        items.clear()

    def sorted(self, items: Iterable[Item], key: Callable[[Item], Any] | None = None) -> list[Item]:
        """As `sorted`. Very many items are split at the values of a sample, and sorted part by part."""
        unsorted: list[Any] = list(items)
        size = 4 * self.every
        if len(unsorted) <= size:
            return sorted(unsorted, key=key)
        parts_wanted = min(2 * self.every, len(unsorted) // self.every) + 1
        sample = unsorted[:: len(unsorted) // parts_wanted or 1]
        pivots = sorted(map(key, sample) if key else sample)
        self()
        parts: list[list[Any]] = [[] for _ in range(len(pivots) + 1)]
        for batch in self.batches(unsorted, per_step=4):
            batch.sort(key=key)  # to split it at the pivots is faster than to look up each item
            begin = 0
            for part, pivot in zip(parts, pivots, strict=False):
                end = bisect(batch, pivot, begin, key=key)
                part += batch[begin:end]
                begin = end
            parts[-1] += batch[begin:]
        found: list[Item] = []
        for part in parts:
            part.sort(key=key)
            found += part
            self()
        return found

    def sorted_texts(self, texts: Iterable[str]) -> list[str]:
        """As `sorted`. Long texts, which are slow to compare, are merged one by one."""
        unsorted = list(texts)
        if sum(map(len, unsorted)) <= max(self.every, len(unsorted)) * BYTES_PER_STEP:
            return self.sorted(unsorted)
        parts = [sorted(some) for some in self.texts(unsorted)]
        found: list[str] = []
        for text in merge(*parts):
            found.append(text)
            self.spend(1 + len(text) * len(parts).bit_length() // BYTES_PER_STEP)
        return found


NO_PAUSE = Pause()
"""For work that may block the event loop."""


class AtOnce(Pause):
    """Refuses long work."""

    @override
    def expect(self, steps: int) -> None:
        if steps > self.lengths.at_once:
            raise TooLong(steps)


class Briefly(AtOnce):
    """As AtOnce, and `each` counts as expected. For decoding, which changes nothing before its loops."""

    @override
    def each(self, items: Collection[Item]) -> Iterable[Item]:
        self.expect(len(items))
        return items


BRIEFLY = Briefly(Lengths(at_once=16))
"""For a request of many bytes: only a short ACL is decoded at once."""
