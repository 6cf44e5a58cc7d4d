"""Gaps of made-up writes."""

import pytest

from proof.gaps import Gap, line, longest_gap, measured, table, too_long, within


@pytest.mark.parametrize(
    ("times", "gap"),
    [([], 10.0), ([5.0], 5.0), ([1.0, 2.0, 9.5], 7.5), ([-3.0, 4.0, 30.0], 6.0), ([0.0, 10.0], 10.0)],
)
def test_a_gap_is_the_longest_stretch_without_an_answer_also_at_the_edges(
    times: list[float], gap: float
) -> None:
    assert longest_gap(times, 0.0, 10.0) == gap


def test_the_client_that_waited_the_longest_counts() -> None:
    written = [[2.0, 5.0, 9.0], [1.0, 8.0]]
    gap = measured("stop-leader", (0.0, 10.0), [4.0, 1.0, 8.0], written, [1.0, 3.0, 6.0, 9.5])
    assert (gap.etcd, gap.zketcd, gap.events, gap.excess) == (4.0, 7.0, 3.5, 3.0)
    assert "excess +3.00 s, events  3.50 s" in line(gap)


@pytest.mark.parametrize("bad", [Gap("one-way", 1.0, 2.5, 1.0), Gap("one-way", 1.0, 1.0, 3.5)])
def test_one_of_twenty_may_be_longer_and_two_may_not(bad: Gap) -> None:
    good = Gap("one-way", 1.0, 2.0, 3.0)
    gaps = [*[good] * 19, bad]
    assert within(gaps) == 19
    assert too_long(gaps) == []
    assert too_long([*gaps[1:], bad]) == ["one-way"]
    assert too_long([*[good._replace(kind="stop-leader")] * 100, bad]) == ["one-way"]


def test_the_table_has_a_row_for_each_fault_with_medians_and_maxima() -> None:
    gaps = [Gap("slow-leader", 0.5, zketcd, 1.0) for zketcd in (0.6, 1.0, 2.5)]
    assert table([*gaps, Gap("stop-leader", 2.0, 2.0, 2.0)])[2:] == [
        "| stop-leader | 1 | 2.0 / 2.0 | 2.0 / 2.0 | 0.0 / 0.0 | 2.0 / 2.0 | 1 of 1 |",
        "| slow-leader | 3 | 0.5 / 0.5 | 1.0 / 2.5 | 0.5 / 2.0 | 1.0 / 1.0 | 2 of 3 |",
    ]
