"""Names, contents and sets of parts."""

import pytest

from examples.invariants import Violation
from examples.replicated_merge_tree.parts import Part, PartSet


def part(text: str) -> Part:
    return Part.parse(text)


@pytest.mark.parametrize(
    ("one", "other", "covers"),
    [
        ("p_0_5_1", "p_0_2_0", True),
        ("p_0_5_1", "p_0_5_1", True),
        ("p_0_5_1_9", "p_0_5_1", True),  # a mutation
        ("p_0_5_1", "p_0_5_1_9", False),
        ("p_0_5_1", "p_0_2_2", False),
        ("p_0_5_1", "p_5_6_0", False),
        ("p_0_5_1", "q_0_2_0", False),
    ],
)
def test_covering(one: str, other: str, covers: bool) -> None:
    assert part(one).covers(part(other)) == covers


def test_parts_that_overlap_are_a_violation() -> None:
    parts = PartSet([part("p_0_2_1")])
    with pytest.raises(Violation, match="parts: p_2_3_1 overlaps p_0_2_1"):
        parts.add(part("p_2_3_1"))
