"""Which parts to merge or to mutate next, so that no insert that comes late is left out. Pure.

Block numbers are given in order, but inserts commit in any order. Two parts may be merged only if no insert
between them can still come: whoever asks must have looked in this order: at its parts, at the block numbers
that are taken (`taken`), at the log (`future`) and the mutations. An insert between two parts was then either
among the taken numbers, or in the log, or it will never come.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from examples.replicated_merge_tree.parts import Part, PartSet


class Known(NamedTuple):
    """What a merge is chosen from."""

    parts: Collection[Part]  # that the replica had first
    taken: Mapping[str, Collection[int]]  # partition -> block numbers whose inserts may still commit
    future: PartSet  # what the replica will have, after the log was read
    mutations: Mapping[str, Collection[int]]  # partition -> block numbers of its mutations
    waiting: Collection[Part] = ()  # parts that wait for their quorum


def _free(known: Known) -> PartSet:
    """Parts that nothing in the queue takes away."""
    return PartSet(part for part in known.parts if part in known.future and part not in known.waiting)


def _last_mutation(part: Part, known: Known) -> int:
    """The last mutation that is in a part, 0 for none."""
    return max((n for n in known.mutations.get(part.partition, ()) if n <= part.version), default=0)


def _adjacent(left: Part, right: Part, known: Known) -> bool:
    """Whether nothing is or can come between two parts, and both contain the same mutations."""
    return (
        not any(left.high < number < right.low for number in known.taken.get(left.partition, ()))
        and not any(left.high < other.low < right.low for other in known.future.of(left.partition))
        and _last_mutation(left, known) == _last_mutation(right, known)
    )


def choose_merge(known: Known, most: int) -> tuple[Part, ...]:
    """The longest run of two to `most` parts that may be merged, of low levels; () if there is none."""
    best: tuple[Part, ...] = ()
    free = _free(known)
    for partition in free.partitions():
        run: tuple[Part, ...] = ()
        for part in free.of(partition):
            run = (*run[-most + 1 :], part) if run and _adjacent(run[-1], part, known) else (part,)
            if len(run) > 1 and _rank(run) > _rank(best):
                best = run
    return best


def _rank(run: tuple[Part, ...]) -> tuple[int, int]:
    return len(run), -sum(part.level for part in run)


def merge_result(sources: Collection[Part]) -> Part:
    """The name of the part that a merge makes."""
    return Part(
        min(sources).partition,
        min(part.low for part in sources),
        max(part.high for part in sources),
        max(part.level for part in sources) + 1,
        max(part.mutation for part in sources),
    )


def choose_mutation(known: Known) -> tuple[Part, Part] | None:
    """A part that lacks mutations, and what it becomes by them; None if no part lacks any."""
    free = _free(known)
    for partition, numbers in sorted(known.mutations.items()):
        for part in free.of(partition):
            if missing := missing_mutations(part, numbers):
                return part, part._replace(mutation=missing[-1])
    return None


def missing_mutations(part: Part, numbers: Iterable[int]) -> list[int]:
    """The numbers of the mutations of its partition that a part lacks, in order."""
    return sorted(number for number in numbers if number > part.version)
