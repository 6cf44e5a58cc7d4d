"""An offered rate: when requests are due."""

import pytest

from bench.paced import Schedule

MS = 1_000_000


def test_many_requests_are_due_each_millisecond() -> None:
    schedule = Schedule(0, 2_500)
    assert schedule.until(0) == [(0, 2)]
    assert schedule.next == MS
    assert schedule.until(MS - 1) == []
    assert schedule.until(3 * MS) == [(MS, 3), (2 * MS, 3), (3 * MS, 2)]


def test_few_requests_have_moments_of_their_own() -> None:
    schedule = Schedule(7, 300)
    found = schedule.until(7 + 1_000 * MS)
    assert found[:2] == [(7, 1), (7 + 3_333_333, 1)]
    # The one at the start and 300 after it.
    assert sum(count for _, count in found) == 301


@pytest.mark.parametrize("rate", [1, 999, 1_000, 1_001, 123_457])
def test_no_request_is_lost_in_rounding(rate: int) -> None:
    schedule = Schedule(0, rate)
    total = sum(count for now in range(0, 1_000 * MS, 7 * MS) for _, count in schedule.until(now))
    total += sum(count for _, count in schedule.until(1_000 * MS - 100))
    assert total == rate
