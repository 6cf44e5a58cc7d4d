"""For how long clients cannot write while a member of etcd hangs, compared with etcd itself. Pure.

`proof.torture.gaps` measures it on real processes, `proof.simulation.gaps` in the simulation.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

ALLOWED = 1.0  # seconds that zketcd's gap may exceed etcd's
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
    """Of all clients together."""
    client: float
    """Of the client that waited the longest."""

    @property
    def excess(self) -> float:
        """By how much zketcd's exceeds etcd's; that of the client that waited the longest."""
        return self.client - self.etcd


def longest_gap(times: Sequence[float], start: float, end: float) -> float:
    """The longest stretch of [start, end] without one of `times`, which are sorted."""
    inside = times[bisect_left(times, start) : bisect_right(times, end)]
    points = [start, *inside, end]
    return max(after - before for before, after in pairwise(points))


def measured(
    kind: str, span: tuple[float, float], etcd: Sequence[float], clients: Sequence[Sequence[float]]
) -> Gap:
    """The gap in a span of time, from the times of all writes to etcd, and of each client's."""
    began, ended = span
    together = sorted(time for times in clients for time in times)
    return Gap(
        kind,
        longest_gap(sorted(etcd), began, ended),
        longest_gap(together, began, ended),
        max(longest_gap(times, began, ended) for times in clients),
    )


def line(gap: Gap) -> str:
    """One gap, for people."""
    return (
        f"{gap.kind:16} etcd {gap.etcd:5.2f} s, zketcd {gap.zketcd:5.2f} s,"
        f" one client {gap.client:5.2f} s, excess {gap.excess:+5.2f} s"
    )


def within(gaps: Sequence[Gap]) -> int:
    """How many are at most ALLOWED above etcd's."""
    return sum(gap.excess <= ALLOWED for gap in gaps)


def too_long(gaps: Sequence[Gap]) -> list[str]:
    """The kinds of which too many exceed etcd's gap by more than ALLOWED."""
    by_kind = {kind: [gap for gap in gaps if gap.kind == kind] for kind in KINDS}
    return [kind for kind, found in by_kind.items() if within(found) < WANTED * len(found)]


def table(gaps: Sequence[Gap]) -> list[str]:
    """By kind: median and maximum in seconds, as a Markdown table."""
    lines = [
        f"| fault | times | etcd, s | zketcd, s | excess, s | at most {ALLOWED:.0f} s |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for kind in KINDS:
        of_kind = [gap for gap in gaps if gap.kind == kind]
        if of_kind:
            cells = " | ".join(
                f"{median(values):.1f} / {max(values):.1f}"
                for values in (
                    [gap.etcd for gap in of_kind],
                    [gap.client for gap in of_kind],
                    [gap.excess for gap in of_kind],
                )
            )
            lines.append(f"| {kind} | {len(of_kind)} | {cells} | {within(of_kind)} of {len(of_kind)} |")
    return lines
