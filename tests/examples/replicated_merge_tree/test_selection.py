"""What the leader merges and mutates."""

import random

from examples.replicated_merge_tree.parts import Part, PartSet
from examples.replicated_merge_tree.selection import (
    Known,
    choose_merge,
    merge_result,
)


def parts(*texts: str) -> list[Part]:
    return [Part.parse(text) for text in texts]


def test_a_merge_never_hides_a_late_insert() -> None:
    """Inserts commit in any order; who looks in the right order never merges over one that comes later."""
    chance = random.Random(7)
    for _ in range(300):
        taken: set[int] = set()
        log: list[Part] = []
        seen = PartSet()
        for number in range(12):
            taken.add(number)
            while taken and chance.random() < 0.5:
                done = chance.choice(sorted(taken))
                taken.discard(done)
                if chance.random() < 0.8:  # else it was given up
                    log.append(Part("p", done, done, 0))
            first = list(seen)
            at_work = sorted(taken)
            for part in log:
                seen.add(part)
            chosen = choose_merge(Known(first, {"p": at_work}, seen, {}), 4)
            if chosen:
                seen.add(merge_result(chosen))
                log.append(merge_result(chosen))
                assert not any(chosen[0].low < late < chosen[-1].high for late in taken)
