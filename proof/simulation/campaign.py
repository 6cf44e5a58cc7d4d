"""Many worlds: so many hours, so many minutes, or until each planted fault is found."""

import os
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from typing import NamedTuple

from proof.simulation.planted import Planted, planted
from proof.simulation.simulation import Outcome, simulate

WORLD_HOURS = 0.25
"""Simulated hours of one world. Its history is judged as a whole."""
PLANTED_HOURS = 0.06
TRIES = 8
"""Seeds within which a planted fault must be found."""
_TAIL = 40  # lines of the trace that are shown with a violation


class Totals(NamedTuple):
    """What several worlds came to."""

    worlds: int
    hours: float  # simulated
    operations: int
    requests: int
    faults: Counter[str]
    recoveries: list[float]  # seconds, sorted
    snapshots: int
    elections: int
    sessions: int
    expiries: int
    cpu: float  # seconds


def totals(outcomes: list[Outcome], cpu: float) -> Totals:
    """Add worlds up."""
    faults: Counter[str] = Counter()
    for outcome in outcomes:
        faults.update(outcome.faults)
    return Totals(
        len(outcomes),
        sum(outcome.seconds for outcome in outcomes) / 3600,
        sum(outcome.operations for outcome in outcomes),
        sum(outcome.requests for outcome in outcomes),
        faults,
        sorted(seconds for outcome in outcomes for seconds in outcome.recoveries),
        sum(outcome.snapshots for outcome in outcomes),
        sum(outcome.elections for outcome in outcomes),
        sum(outcome.sessions for outcome in outcomes),
        sum(outcome.expiries for outcome in outcomes),
        cpu,
    )


def worlds(seed: int, hours: float, minutes: float | None = None, processes: int = 1) -> Iterator[Outcome]:
    """Worlds from a seed on: of so many hours in all, or as many as begin within `minutes` of real time.

    `processes`: how many at a time, each in a process of its own. The order is that of the seeds in any case.
    """
    plan = _plan(seed, hours, minutes)
    if processes == 1:
        for world in plan:
            yield simulate(*world)
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        # One more for each process waits, since worlds do not take equally long.
        running = deque(pool.submit(simulate, *world) for world in islice(plan, 2 * processes))
        while running:
            yield running.popleft().result()
            running.extend(pool.submit(simulate, *world) for world in islice(plan, 1))


def _plan(seed: int, hours: float, minutes: float | None) -> Iterator[tuple[int, float]]:
    """Seeds of worlds, and their simulated hours."""
    begun = time.monotonic()
    left = hours
    while (time.monotonic() - begun < minutes * 60) if minutes is not None else left > 0:
        of_this = WORLD_HOURS if minutes is not None else min(left, WORLD_HOURS)
        yield seed, of_this
        seed += 1
        left -= of_this


def cpu_seconds() -> float:
    """The CPU time of this process, and of those that it has started and that are over."""
    return sum(os.times()[:4])


class Found(NamedTuple):
    """How a planted fault was found."""

    fault: Planted
    seed: int | None  # None: it was not
    tries: int
    violation: str
    control: list[str]  # violations of the same seed without the fault: none, or nothing was shown


def find(fault: Planted, seed: int, tries: int = TRIES, *, control: bool = True) -> Found:
    """Simulate with a planted fault until something is wrong, at most so many seeds.

    `control`: then simulate the same seed without the fault, in which nothing may be wrong.
    """
    for number in range(tries):
        with planted(fault):
            outcome = simulate(seed + number, PLANTED_HOURS, tuple(fault.kinds))
        if outcome.violations:
            without = simulate(seed + number, PLANTED_HOURS, tuple(fault.kinds)).violations if control else []
            return Found(fault, seed + number, number + 1, outcome.violations[0], without)
    return Found(fault, None, tries, "", [])


def report(total: Totals) -> list[str]:
    """The figures, as lines."""
    recoveries = total.recoveries or [0.0]
    return [
        f"{total.worlds} worlds, {total.hours:.2f} simulated hours in {total.cpu:.0f} s of CPU time"
        f" ({total.hours * 3600 / max(total.cpu, 0.001):.0f} times as fast)",
        f"{total.operations} requests of clients were answered, {total.requests} applied from the log;"
        f" {total.sessions} sessions, {total.expiries} of them expired; {total.snapshots} snapshots,"
        f" {total.elections} elections",
        f"{sum(total.faults.values())} faults: "
        + ", ".join(f"{name} {count}" for name, count in sorted(total.faults.items())),
        f"{len(total.recoveries)} recoveries: median {recoveries[len(recoveries) // 2]:.1f} s, longest"
        f" {recoveries[-1]:.1f} s of simulated time",
    ]


def tail(outcome: Outcome) -> list[str]:
    """What went wrong in a world, and what came before."""
    return [
        f"seed {outcome.seed}: the last {_TAIL} of the trace",
        *outcome.trace[-_TAIL:],
        *(f"seed {outcome.seed}: VIOLATION: {violation}" for violation in outcome.violations),
    ]
