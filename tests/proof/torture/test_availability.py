"""Gaps and recovery times of made-up answers."""

import pytest

from proof.torture.availability import longest_gap, measured, summary, table


@pytest.mark.parametrize(
    ("times", "gap"),
    [([], 10.0), ([5.0], 5.0), ([1.0, 2.0, 9.5], 7.5), ([-3.0, 4.0, 30.0], 6.0), ([0.0, 10.0], 10.0)],
)
def test_a_gap_is_the_longest_stretch_without_an_answer_also_at_the_edges(
    times: list[float], gap: float
) -> None:
    assert longest_gap(times, 0.0, 10.0) == gap


def test_one_client_may_wait_while_others_go_on() -> None:
    writes = {"a": [1.0, 2.0, 3.0, 4.0], "b": [0.5, 4.5]}
    episode = measured("kill-proxy", "proxy1", (0.0, 3.0, 5.0), writes, {"a": [2.5]})
    assert episode.writes == 1.0
    assert episode.client == 4.0
    assert episode.reads == 2.5
    assert episode.recovery == 2.0


def test_the_table_has_a_row_for_each_fault_with_medians_and_maxima() -> None:
    episodes = [
        measured("b", "", (0.0, 1.0, 1.0 + recovery), {"a": []}, {"a": []}) for recovery in (1.0, 2.0, 6.0)
    ]
    episodes.append(measured("a", "", (0.0, 1.0, 1.5), {"a": [1.0]}, {"a": []}))
    rows = summary(episodes)
    assert [(row["fault"], row["times"]) for row in rows] == [("a", 1), ("b", 3)]
    assert rows[1]["recovery"] == {"median": 2.0, "max": 6.0}
    assert rows[0]["no write"] == {"median": 1.0, "max": 1.0}
    lines = table(rows)
    assert len(lines) == 4
    assert lines[3].startswith("| b | 3 |")
    assert lines[3].endswith("2.0 / 6.0 |")
