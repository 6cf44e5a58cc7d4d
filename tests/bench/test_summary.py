"""Percentiles and medians."""

from bench.summary import percentiles


def test_percentiles_are_nearest_rank() -> None:
    samples = [(value, 1) for value in range(100, 0, -1)]
    assert percentiles(samples, [0.5, 0.99, 1.0, 0.001]) == [50, 99, 100, 1]


def test_percentiles_weigh_the_samples() -> None:
    assert percentiles([(10, 98), (500, 2)], [0.5, 0.98, 0.99]) == [10, 10, 500]
