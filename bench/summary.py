"""Statistics of runs: percentiles of weighted latencies, medians over rounds. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from statistics import median


def percentiles(samples: Iterable[tuple[int, int]], shares: Sequence[float]) -> list[int]:
    """Nearest-rank percentiles of (value, how often) pairs, one per share in (0, 1].

    Raises ValueError if there are no samples.
    """
    ordered = sorted(samples)
    total = sum(count for _, count in ordered)
    if not total:
        raise ValueError("no samples")
    values = [value for value, _ in ordered]
    ranks = list(accumulate(count for _, count in ordered))
    return [values[bisect_left(ranks, share * total)] for share in shares]


def medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each named figure over the rounds that have it."""
    names = {name: None for figures in rounds for name in figures}
    return {name: median(figures[name] for figures in rounds if name in figures) for name in names}
