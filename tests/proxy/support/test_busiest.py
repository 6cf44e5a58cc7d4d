"""The busiest keys are found among many, and counts fade."""

import pytest

from proxy.support.busiest import Busiest, Fading, Rates


def test_the_busiest_keys_stay_and_the_table_is_bounded() -> None:
    table: Busiest[object] = Busiest(10)
    for number in range(20_000):
        table.add(number, False, 1.0)  # each comes once
        if number % 5 == 0:
            table.add("often", number % 2 == 0, 1.0)
    assert len(table) <= 20
    (first, rates), *_ = table.top(3, 0.5)
    assert first == "often"
    assert rates == Rates(1000.0, 1000.0)
    assert len(table.top(3, 1.0)) == 3


def test_counts_fade() -> None:
    fading = Fading(10.0, 0.0)
    table = fading.table(4)
    for tenth in range(1000):  # ten a second
        table.add("a", True, fading.weight(tenth / 10))
    ((_, rates),) = table.top(1, fading.per_second(100.0))
    assert rates.reads == 0
    assert rates.writes == pytest.approx(10, rel=0.02)
    ((_, rates),) = table.top(1, fading.per_second(110.0))
    assert rates.writes == pytest.approx(10 / 2.718, rel=0.02)


def test_a_rate_is_right_soon_after_the_start() -> None:
    fading = Fading(60.0, 50.0)
    table = fading.table(4)
    for second in range(5):
        table.add("a", False, fading.weight(50.5 + second))
    ((_, rates),) = table.top(1, fading.per_second(55.0))
    assert rates.reads == pytest.approx(1, rel=0.01)


def test_weights_begin_again_before_they_are_too_large() -> None:
    fading = Fading(1.0, 0.0)
    table = fading.table(4)
    table.add("old", False, fading.weight(0.0))
    for now in (13.0, 14.0, 100.0, 1e9):
        table.add("new", False, fading.weight(now))
        assert fading.weight(now) < 1 << 20
    (new, old) = table.top(2, fading.per_second(1e9))
    assert (new[0], old[0]) == ("new", "old")
    assert new[1].reads == pytest.approx(1)
    assert old[1].reads == pytest.approx(0)
