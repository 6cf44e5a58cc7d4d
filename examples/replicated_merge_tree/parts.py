"""Names of data parts, what a part holds, and sets of parts that do not overlap. Pure.

A name is PARTITION_LOW_HIGH_LEVEL, and one more number after a mutation. LOW and HIGH are block numbers, each
number an insert. A part *covers* another one if it holds all of it in a newer form: after a merge (a higher
level) or a mutation (a higher last number).
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self

from examples.invariants import Violation

DROP_LEVEL = 999_999_999
"""The level (and mutation) of the name that stands for a dropped range: it covers every part inside."""


class Part(NamedTuple):
    """A part's name."""

    partition: str
    low: int
    high: int
    level: int
    mutation: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError for anything but a part's name."""
        partition, *numbers = text.split("_")
        if len(numbers) not in (3, 4):
            raise ValueError(f"not the name of a part: {text!r}")
        return cls(partition, *map(int, numbers))

    @property
    def text(self) -> str:
        """The name as it is written."""
        mutation = f"_{self.mutation}" if self.mutation else ""
        return f"{self.partition}_{self.low}_{self.high}_{self.level}{mutation}"

    @property
    def version(self) -> int:
        """Mutations with a number up to this one are in the part already."""
        return self.mutation or self.low

    def covers(self, other: "Part") -> bool:
        """Whether all of `other` is in this part, in the same form or a newer one."""
        return (
            self.partition == other.partition
            and self.low <= other.low
            and other.high <= self.high
            and self.level >= other.level
            and self.mutation >= other.mutation
        )

    def overlaps(self, other: "Part") -> bool:
        """Whether both hold a common block number."""
        return self.partition == other.partition and self.low <= other.high and other.low <= self.high


def dropped_range(partition: str, high: int) -> Part:
    """The name that stands for all parts of a partition up to the block number `high`."""
    return Part(partition, 0, high, DROP_LEVEL, DROP_LEVEL)


class Block(NamedTuple):
    """The rows of one insert, as a part holds them."""

    token: str  # of the insert; its rows are known by it
    rows: int
    mutations: tuple[int, ...] = ()  # that were applied, in this order


Content = dict[int, Block]
"""What is in a part: block number -> rows."""


def digest(content: Content) -> str:
    """What replicas compare in place of a part's checksums."""
    return hashlib.sha1(repr(sorted(content.items())).encode(), usedforsecurity=False).hexdigest()


def merged(contents: Iterable[Content]) -> Content:
    """The content of the part that a merge makes."""
    return {number: block for content in contents for number, block in content.items()}


def mutated(content: Content, mutations: Iterable[int]) -> Content:
    """The content after mutations."""
    more = tuple(mutations)
    return {
        number: block._replace(mutations=block.mutations + more) for number, block in sorted(content.items())
    }


class PartSet:
    """Parts of which none covers another."""

    def __init__(self, parts: Iterable[Part] = ()) -> None:
        self._parts: dict[str, set[Part]] = {}
        for part in parts:
            self.add(part)

    def __iter__(self) -> Iterator[Part]:
        return iter([part for parts in self._parts.values() for part in parts])

    def __contains__(self, part: Part) -> bool:
        return part in self._parts.get(part.partition, ())

    def add(self, part: Part) -> list[Part]:
        """Add a part, and take out those that it covers; returns these.

        A part that is covered itself is not added. Raises Violation if two parts overlap and neither covers
        the other: a replica would have rows twice.
        """
        ours = self._parts.setdefault(part.partition, set())
        touched = [other for other in ours if part.overlaps(other)]
        if any(other.covers(part) for other in touched):
            return []
        if strangers := [other for other in touched if not part.covers(other)]:
            raise Violation("parts", f"{part.text} overlaps {strangers[0].text}")
        ours.difference_update(touched)
        ours.add(part)
        return touched

    def discard(self, part: Part) -> None:
        """Take one part out, if it is there."""
        self._parts.get(part.partition, set()).discard(part)

    def remove_inside(self, dropped: Part) -> list[Part]:
        """Take out the parts inside a dropped range; returns these."""
        inside = [part for part in self._parts.get(dropped.partition, ()) if dropped.covers(part)]
        self._parts.get(dropped.partition, set()).difference_update(inside)
        return inside

    def covering(self, part: Part) -> Part | None:
        """The part that covers `part`, if there is one."""
        return next((other for other in self._parts.get(part.partition, ()) if other.covers(part)), None)

    def of(self, partition: str) -> list[Part]:
        """The parts of a partition in the order of their block numbers."""
        return sorted(self._parts.get(partition, ()))

    def partitions(self) -> list[str]:
        """The partitions that have parts."""
        return sorted(partition for partition, parts in self._parts.items() if parts)
