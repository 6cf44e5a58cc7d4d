"""Percentiles and medians."""

import pytest

from bench.summary import medians, percentiles


def test_percentiles_are_nearest_rank() -> None:
    samples = [(value, 1) for value in range(100, 0, -1)]
    assert percentiles(samples, [0.5, 0.99, 1.0, 0.001]) == [50, 99, 100, 1]


def test_percentiles_weigh_the_samples() -> None:
    assert percentiles([(10, 98), (500, 2)], [0.5, 0.98, 0.99]) == [10, 10, 500]


def test_percentiles_of_one_sample() -> None:
    assert percentiles([(7, 1)], [0.01, 0.5, 1.0]) == [7, 7, 7]


def test_percentiles_of_nothing() -> None:
    with pytest.raises(ValueError, match="no samples"):
        percentiles([], [0.5])


def test_medians_by_name() -> None:
    rounds = [{"rate": 5.0, "cpu": 1.0}, {"rate": 1.0}, {"rate": 3.0, "cpu": 2.0}]
    assert medians(rounds) == {"rate": 3.0, "cpu": 1.5}
