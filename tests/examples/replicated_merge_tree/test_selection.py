"""What the leader merges and mutates."""

import random

from examples.replicated_merge_tree.parts import Part, PartSet
from examples.replicated_merge_tree.selection import (
    Known,
    choose_merge,
    choose_mutation,
    merge_result,
    missing_mutations,
)


def parts(*texts: str) -> list[Part]:
    return [Part.parse(text) for text in texts]


def known(
    texts: list[str],
    *,
    taken: tuple[int, ...] = (),
    future: list[str] | None = None,
    mutations: tuple[int, ...] = (),
    waiting: tuple[str, ...] = (),
) -> Known:
    ours = parts(*texts)
    return Known(
        ours,
        {"p": taken},
        PartSet(parts(*future) if future is not None else ours),
        {"p": mutations},
        parts(*waiting),
    )


def names(chosen: tuple[Part, ...]) -> list[str]:
    return [part.text for part in chosen]


def test_neighbours_are_merged() -> None:
    chosen = choose_merge(known(["p_0_0_0", "p_1_1_0", "p_4_4_0"]), 10)
    assert names(chosen) == ["p_0_0_0", "p_1_1_0", "p_4_4_0"]  # the numbers 2 and 3 will never come
    assert merge_result(chosen).text == "p_0_4_1"


def test_not_what_waits_for_its_quorum() -> None:
    assert choose_merge(known(["p_0_0_0", "p_1_1_0"], waiting=("p_1_1_0",)), 10) == ()


def test_not_parts_with_different_mutations() -> None:
    assert choose_merge(known(["p_0_0_0", "p_2_2_0"], mutations=(1,)), 10) == ()
    chosen = choose_merge(known(["p_0_0_0_1", "p_2_2_0"], mutations=(1,)), 10)
    assert merge_result(chosen).text == "p_0_2_1_1"


def test_not_more_than_asked_for_and_low_levels_first() -> None:
    assert names(choose_merge(known(["p_0_5_3", "p_6_6_0", "p_7_7_0", "p_8_8_0"]), 2)) == [
        "p_6_6_0",
        "p_7_7_0",
    ]


def test_a_mutation_of_what_lacks_it() -> None:
    assert choose_mutation(known(["p_0_0_0_1", "p_2_2_0", "p_9_9_0"], mutations=(1, 4, 7))) == (
        Part("p", 0, 0, 0, 1),
        Part("p", 0, 0, 0, 7),
    )
    assert choose_mutation(known(["p_9_9_0"], mutations=(1, 4, 7))) is None
    assert missing_mutations(Part("p", 2, 2, 0), [7, 1, 4]) == [4, 7]


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
