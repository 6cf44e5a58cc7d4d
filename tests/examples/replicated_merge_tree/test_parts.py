"""Names, contents and sets of parts."""

import pytest

from examples.invariants import Violation
from examples.replicated_merge_tree.parts import Part, PartSet, dropped_range


def part(text: str) -> Part:
    return Part.parse(text)


@pytest.mark.parametrize("text", ["202401_0_0_0", "p_3_17_2", "p_3_17_2_19"])
def test_a_name_is_written_as_it_was_read(text: str) -> None:
    assert part(text).text == text


@pytest.mark.parametrize("text", ["", "p", "p_1_2", "p_1_2_3_4_5", "p_1_x_3"])
def test_what_is_not_a_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"not the name of a part|invalid literal"):
        part(text)


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


def test_a_set_keeps_what_nothing_covers() -> None:
    parts = PartSet(map(part, ["p_0_0_0", "p_1_1_0", "p_2_2_0", "q_0_0_0"]))
    assert sorted(each.text for each in parts.add(part("p_0_1_1"))) == ["p_0_0_0", "p_1_1_0"]
    assert parts.add(part("p_1_1_0")) == []
    assert [each.text for each in parts.of("p")] == ["p_0_1_1", "p_2_2_0"]
    assert parts.covering(part("p_1_1_0")) == part("p_0_1_1")
    assert parts.partitions() == ["p", "q"]
    assert parts.remove_inside(dropped_range("p", 1)) == [part("p_0_1_1")]
    assert sorted(each.text for each in parts) == ["p_2_2_0", "q_0_0_0"]
    assert part("p_2_2_0") in parts


def test_parts_that_overlap_are_a_violation() -> None:
    parts = PartSet([part("p_0_2_1")])
    with pytest.raises(Violation, match="parts: p_2_3_1 overlaps p_0_2_1"):
        parts.add(part("p_2_3_1"))
