"""For how long clients cannot write while a member of etcd hangs, compared with etcd itself. Pure.

`proof.torture.gaps` measures it on real processes, `proof.simulation.gaps` in the simulation.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

ALLOWED = 1.0  # seconds that zketcd's gap may exceed etcd's
# Seconds that the gap between watch events may, at a proxy whose clients neither write nor sync: up to a
# second passes until this proxy asks etcd for new entries, and finds that its watch hangs.
ALLOWED_EVENTS = 2.0
WANTED = 0.95  # of the faults of each kind

KINDS = {
    "stop-leader": "etcd's leader stands still, as by SIGSTOP",
    "stop-follower": "a member that does not lead stands still; one with a watch of a proxy",
    "isolate-leader": "the leader and the other members do not reach each other; proxies reach all",
    "isolate-follower": "the same of a follower",
    "one-way": "proxies send to a follower with a watch, and nothing returns",
    "one-way-leader": "the same of the leader",
    "slow-leader": "the leader is slow; real ones stand still for three quarters of the time",
    "slow-follower": "the same of a follower",
}
"""All faults."""


class Gap(NamedTuple):
    """What one fault has cost, in seconds: the longest time without a write."""

    kind: str
    etcd: float
    zketcd: float
    """Of the client that waited the longest."""
    events: float
    """The longest time without a watch event, of a client whose proxy writes nothing."""

    @property
    def excess(self) -> float:
        """By how much zketcd's exceeds etcd's."""
        return self.zketcd - self.etcd

    @property
    def is_within(self) -> bool:
        """Whether clients waited at most as long as is allowed."""
        return self.excess <= ALLOWED and self.events - self.etcd <= ALLOWED_EVENTS


def longest_gap(times: Sequence[float], start: float, end: float) -> float:
    """The longest stretch of [start, end] without one of `times`, which are sorted."""
    inside = times[bisect_left(times, start) : bisect_right(times, end)]
    points = [start, *inside, end]
    return max(after - before for before, after in pairwise(points))


def measured(
    kind: str,
    span: tuple[float, float],
    etcd: Sequence[float],
    clients: Sequence[Sequence[float]],
    events: Sequence[float],
) -> Gap:
    """The gap in a span of time, from the times of all writes to etcd, each client's writes, and events."""
    began, ended = span
    return Gap(
        kind,
        longest_gap(sorted(etcd), began, ended),
        max(longest_gap(times, began, ended) for times in clients),
        longest_gap(events, began, ended),
    )


def line(gap: Gap) -> str:
    """One gap, for people."""
    return (
        f"{gap.kind:16} etcd {gap.etcd:5.2f} s, zketcd {gap.zketcd:5.2f} s,"
        f" excess {gap.excess:+5.2f} s, events {gap.events:5.2f} s"
    )


def within(gaps: Sequence[Gap]) -> int:
    """How many are at most as long as is allowed."""
    return sum(gap.is_within for gap in gaps)


def too_long(gaps: Sequence[Gap]) -> list[str]:
    """The kinds of which too many are longer than is allowed."""
    by_kind = {kind: [gap for gap in gaps if gap.kind == kind] for kind in KINDS}
    return [kind for kind, found in by_kind.items() if within(found) < WANTED * len(found)]


def table(gaps: Sequence[Gap]) -> list[str]:
    """By kind: median and maximum in seconds, as a Markdown table."""
    lines = [
        "| fault | times | etcd, s | zketcd, s | excess, s | events, s | short enough |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for kind in KINDS:
        of_kind = [gap for gap in gaps if gap.kind == kind]
        if of_kind:
            cells = " | ".join(
                f"{median(values):.1f} / {max(values):.1f}"
                for values in (
                    [gap.etcd for gap in of_kind],
                    [gap.zketcd for gap in of_kind],
                    [gap.excess for gap in of_kind],
                    [gap.events for gap in of_kind],
                )
            )
            lines.append(f"| {kind} | {len(of_kind)} | {cells} | {within(of_kind)} of {len(of_kind)} |")
    return lines
