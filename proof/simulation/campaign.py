"""Many worlds: so many hours, so many minutes, or until each planted fault is found."""

import signal
import time
from collections import Counter, deque
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from itertools import cycle, islice
from multiprocessing import active_children, get_context
from types import MappingProxyType
from typing import NamedTuple

from proof.simulation.hunt import Hunt, Violation, hunt, hunt_in, tests_fail_in
from proof.simulation.kinds import SIMULATED, run
from proof.simulation.outcome import Outcome
from proof.simulation.planted import ROOT, Planted, planted
from proof.simulation.record import WorldSpec
from proof.simulation.sometimes import BRANCHES, never_taken

KINDS = ("mixed", *SIMULATED)
STORMY_HOURS = 0.25
"""Simulated hours of one stormy world. Its history is judged as a whole."""
CALM_HOURS = (8.0, 12.0, 24.0)
"""Simulated hours of calm worlds, in turn."""
STORMY_SHARE = 0.04
"""Of the simulated hours of mixed worlds; they cost about as much as the others."""
PLANTED_HOURS = 0.06
PLANTED_CALM_HOURS = 4.0
TRIES = 12
"""Seeds within which a planted fault must be found. Settings are drawn, and some hide some of them."""
_TAIL = 40  # lines of the trace that are shown with a violation


class Totals(NamedTuple):
    """The sums of several worlds of one kind."""

    kind: str
    worlds: int
    hours: float  # simulated
    cpu: float  # seconds
    quiet: float  # hours of those in quiet stretches
    operations: int
    requests: int
    faults: Counter[str]
    recoveries: list[float]  # seconds, sorted
    alone: dict[str, list[float]]  # by kind of fault, those of recoveries from one alone
    set_aside: Counter[str]
    snapshots: int
    elections: int
    sessions: int
    expiries: int
    expired_nodes: int
    deceived: int
    deceived_for: float
    branches: Counter[str]


def totals(kind: str, outcomes: list[Outcome]) -> Totals:
    """Add the worlds of one kind up."""
    outcomes = [outcome for outcome in outcomes if outcome.kind == kind]
    faults: Counter[str] = Counter()
    branches: Counter[str] = Counter()
    set_aside: Counter[str] = Counter()
    alone: dict[str, list[float]] = {}
    for outcome in outcomes:
        faults.update(outcome.faults)
        branches.update(outcome.branches)
        set_aside.update(outcome.set_aside)
        for name, seconds in outcome.alone.items():
            alone.setdefault(name, []).extend(seconds)
    return Totals(
        kind,
        len(outcomes),
        sum(outcome.seconds for outcome in outcomes) / 3600,
        sum(outcome.cpu for outcome in outcomes),
        sum(outcome.quiet for outcome in outcomes) / 3600,
        sum(outcome.operations for outcome in outcomes),
        sum(outcome.requests for outcome in outcomes),
        faults,
        sorted(seconds for outcome in outcomes for seconds in outcome.recoveries),
        alone,
        set_aside,
        sum(outcome.snapshots for outcome in outcomes),
        sum(outcome.elections for outcome in outcomes),
        sum(outcome.sessions for outcome in outcomes),
        sum(outcome.expiries for outcome in outcomes),
        sum(outcome.expired_nodes for outcome in outcomes),
        sum(outcome.deceived for outcome in outcomes),
        max((outcome.deceived_for for outcome in outcomes), default=0.0),
        branches,
    )


def worlds(
    seed: int,
    hours: float,
    minutes: float | None = None,
    processes: int = 1,
    kind: str = "mixed",
    done: Mapping[WorldSpec, Outcome] = MappingProxyType({}),
) -> Generator[tuple[WorldSpec, Outcome], None, None]:
    """Worlds from a seed on: of so many hours in all, or as many as begin within `minutes` of real time.

    `processes`: how many at a time, each in a process of its own. The order is that of the seeds in any case.
    `kind`: one of KINDS. `done`: worlds that need not be simulated again.
    """
    plan = _plan(kind, seed, hours, minutes)
    if processes == 1:
        for world in plan:
            yield world, done.get(world) or run(world)
        return
    others = set(active_children())
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        try:
            # Some more wait, since worlds do not take equally long.
            running = deque((world, _submitted(pool, world, done)) for world in islice(plan, 3 * processes))
            while running:
                world, outcome = running.popleft()
                yield world, outcome.result()
                running.extend((world, _submitted(pool, world, done)) for world in islice(plan, 1))
        except BaseException:  # Ctrl-C, or the caller wants no more
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(active_children()) - others:
                process.terminate()
            raise


def _submitted(pool: Executor, world: WorldSpec, done: Mapping[WorldSpec, Outcome]) -> Future[Outcome]:
    """Start one world. A process that begins for it does not hear Ctrl-C: this one ends it."""
    if world in done:
        known: Future[Outcome] = Future()
        known.set_result(done[world])
        return known
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(run, world)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _plan(kind: str, seed: int, hours: float, minutes: float | None) -> Iterator[WorldSpec]:
    """The worlds to simulate, in their order."""
    begun = time.monotonic()
    calm = cycle(CALM_HOURS)
    left, stormy, total = hours, 0.0, 0.0
    while (time.monotonic() - begun < minutes * 60) if minutes is not None else left > 0:
        is_stormy = stormy <= STORMY_SHARE * total if kind == "mixed" else kind != "calm"
        of_this = STORMY_HOURS if is_stormy else next(calm)
        if minutes is None:
            of_this = min(left, of_this)
        drawn = "stormy" if is_stormy else "calm"
        yield WorldSpec(drawn if kind == "mixed" else kind, seed, of_this)
        seed += 1
        left -= of_this
        total += of_this
        stormy += of_this if is_stormy else 0.0


class Found(NamedTuple):
    """The result of the search for one planted fault."""

    fault: Planted
    violation: Violation | None  # None: it was not found
    control: Violation | None  # of the same seed without the fault: if there is one, nothing was shown


def find(
    fault: Planted, seed: int, tries: int = TRIES, *, control: bool = True, hours: float | None = None
) -> Found:
    """Simulate with a planted fault until something is wrong, at most so many seeds; or run its tests.

    `control`: then do the same without the fault, and for that seed: nothing may be wrong. `hours`: of each
    seed, if not as many as its kind of worlds needs for any fault.
    """
    if fault.tests:
        with planted(fault) as source:
            failed = tests_fail_in(source, fault.tests)
        return Found(fault, failed, tests_fail_in(ROOT, fault.tests) if failed and control else None)
    if hours is None:
        hours = PLANTED_CALM_HOURS if fault.world == "calm" else PLANTED_HOURS
    wanted = Hunt(fault.world, seed, tries, hours, fault.faults)
    with planted(fault) as source:
        found = hunt_in(source, wanted)
    if found is None or not control:
        return Found(fault, found, None)
    return Found(fault, found, hunt(wanted._replace(seed=found.seed, tries=1)))


def report(outcomes: list[Outcome]) -> list[str]:
    """The figures, as lines: of each kind of worlds, and what they took together."""
    kinds = [totals(kind, outcomes) for kind in dict.fromkeys(outcome.kind for outcome in outcomes)]
    hours, cpu = sum(total.hours for total in kinds), sum(total.cpu for total in kinds)
    return [
        *(line for total in kinds for line in _figures(total)),
        f"in all {hours:.2f} simulated hours in {cpu:.0f} s of CPU time"
        f" ({hours * 3600 / max(cpu, 0.001):.0f} times as fast)",
    ]


def _figures(total: Totals) -> Iterator[str]:
    quiet = f", {total.quiet:.2f} of them in quiet stretches" if total.quiet else ""
    yield f"{total.kind}: {total.worlds} worlds, {total.hours:.2f} simulated hours{quiet}"
    due = f" {total.expired_nodes} TTL nodes and containers were due;" if total.expired_nodes else ""
    yield (
        f"  {total.operations} requests of clients were answered, {total.requests} applied from the log;"
        f" {total.sessions} sessions, {total.expiries} of them expired;{due} {total.snapshots} snapshots,"
        f" {total.elections} elections"
    )
    taken = ", ".join(f"{branch} {total.branches[branch]}" for branch in BRANCHES)
    yield f"  branches that matter: {taken}"
    if total.deceived:
        yield (
            f"  {total.deceived} times a bug of etcd's made a server's state wrong; wrong answers came for at"
            f" most {total.deceived_for:.1f} s"
        )
    aside = ", ".join(f"{reason} {count}" for reason, count in sorted(total.set_aside.items()))
    yield f"  {sum(total.set_aside.values())} findings set aside{': ' if aside else ''}{aside}"
    median, longest = _spread(total.recoveries or [0.0])
    yield f"  {len(total.recoveries)} recoveries: median {median}, longest {longest} of simulated time"
    yield f"  {sum(total.faults.values())} faults of {len(total.faults)} kinds:"
    yield from _by_kind(total)


def _by_kind(total: Totals) -> Iterator[str]:
    """A table: how often each fault came, and recoveries from it alone."""
    yield "| fault | times | alone | recoveries, median | longest |"
    yield "|---|--:|--:|--:|--:|"
    for name, count in sorted(total.faults.items()):
        alone = total.alone.get(name, [])
        median, longest = _spread(alone) if alone else ("", "")
        yield f"| {name} | {count} | {len(alone)} | {median} | {longest} |"


def _spread(seconds: list[float]) -> tuple[str, str]:
    """Median and longest, for people."""
    return f"{sorted(seconds)[len(seconds) // 2]:.1f} s", f"{max(seconds):.1f} s"


def lacking(outcomes: list[Outcome]) -> list[str]:
    """Branches that matter and that the stormy worlds never took, though they were long enough for that."""
    stormy = [outcome for outcome in outcomes if outcome.kind != "calm"]
    counts: Counter[str] = Counter()
    for outcome in stormy:
        counts.update(outcome.branches)
    return never_taken(counts, sum(outcome.seconds for outcome in stormy) / 3600)


def tail(outcome: Outcome) -> list[str]:
    """What went wrong in a world, and what came before."""
    return [
        f"{outcome.kind} seed {outcome.seed}: the last {_TAIL} of the trace",
        *outcome.trace[-_TAIL:],
        *(f"{outcome.kind} seed {outcome.seed}: VIOLATION: {violation}" for violation in outcome.violations),
    ]
