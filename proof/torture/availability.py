"""How long clients were without an answer around a fault, and how long after its end. Pure.

A *gap* is the longest time without an acknowledged write (or read) from the beginning of a fault until all
clients work again: of all clients together, and of the one that waited the longest. The *recovery* is the
time from the fault's end until each client has had a write acknowledged.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple


def longest_gap(times: Sequence[float], start: float, end: float) -> float:
    """The longest stretch of [start, end] without one of `times`, which are sorted."""
    inside = times[bisect_left(times, start) : bisect_right(times, end)]
    points = [start, *inside, end]
    return max(after - before for before, after in pairwise(points))


class Episode(NamedTuple):
    """One fault. Times are seconds of one clock."""

    fault: str
    what: str
    began: float
    ended: float
    #: When all clients worked again.
    worked: float
    writes: float
    """The longest time in which no client had a write acknowledged, in seconds."""
    reads: float
    """The same of reads."""
    client: float
    """The longest time in which one client had no write acknowledged."""
    stall: float
    """The longest time in which the program that measures stood still itself, for want of a processor."""

    @property
    def recovery(self) -> float:
        """Seconds from the fault's end until all clients worked again."""
        return self.worked - self.ended


def measured(
    fault: str,
    what: str,
    span: tuple[float, float, float],
    writes: Mapping[str, Sequence[float]],
    reads: Mapping[str, Sequence[float]],
    stall: float = 0.0,
) -> Episode:
    """An episode of `span`: began, ended, worked. `writes` and `reads`: sorted times by client."""
    began, ended, worked = span
    return Episode(
        fault,
        what,
        began,
        ended,
        worked,
        longest_gap(sorted(time for each in writes.values() for time in each), began, worked),
        longest_gap(sorted(time for each in reads.values() for time in each), began, worked),
        max((longest_gap(each, began, worked) for each in writes.values()), default=0.0),
        stall,
    )


_COLUMNS = ("no write", "no read", "one client no write", "recovery")


def summary(episodes: Iterable[Episode]) -> list[dict[str, Any]]:
    """By fault: how often, and median and maximum of each measure, in seconds."""
    by_fault: dict[str, list[Episode]] = {}
    for episode in episodes:
        by_fault.setdefault(episode.fault, []).append(episode)
    rows: list[dict[str, Any]] = []
    for fault, found in sorted(by_fault.items()):
        measures = (
            [episode.writes for episode in found],
            [episode.reads for episode in found],
            [episode.client for episode in found],
            [episode.recovery for episode in found],
        )
        row: dict[str, Any] = {"fault": fault, "times": len(found)}
        for name, values in zip(_COLUMNS, measures, strict=True):
            row[name] = {"median": round(median(values), 2), "max": round(max(values), 2)}
        rows.append(row)
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The summary as a Markdown table: median / maximum in seconds."""
    lines = [
        "| fault | times | " + " | ".join(f"{name}, s" for name in _COLUMNS) + " |",
        "|---|--:|" + "--:|" * len(_COLUMNS),
    ]
    for row in rows:
        cells = " | ".join(_cell(row, name) for name in _COLUMNS)
        lines.append(f"| {row['fault']} | {row['times']} | {cells} |")
    return lines


def _cell(row: Mapping[str, Any], measure: str) -> str:
    return f"{row[measure]['median']:.1f} / {row[measure]['max']:.1f}"
