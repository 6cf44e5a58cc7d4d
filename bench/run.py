"""The order of a whole bench: cells, rounds and targets interleaved, each run in the generator's process."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from typing import NamedTuple

from bench import worker
from bench.errors import BenchError
from bench.servers import Target
from bench.worker import Spec

RUN_TIMEOUT_SECONDS = 300.0
WARM_UP_CONNECTIONS = 16

# Requests for which nodes are prepared, per second of the run (only delete uses them up).
LIMIT_PIPELINED = 80_000
LIMIT_ONE_AT_A_TIME = 15_000


class Cell(NamedTuple):
    """One line of the table."""

    workload: str
    connections: int
    depth: int


class Plan(NamedTuple):
    """How much to measure."""

    cells: list[Cell]
    rounds: int
    seconds: float
    """Length of one timed phase."""
    warm_up_seconds: float
    """Length of the untimed run of each workload on each server that comes first; 0 for none."""


class Outcome(NamedTuple):
    """What one server did in one cell."""

    rounds: list[dict[str, float]]
    """The figures of each valid round."""
    errors: list[str]
    """Why the other rounds gave none."""


Results = dict[tuple[Cell, str], Outcome]


def measure(plan: Plan, targets: Sequence[Target], progress: Callable[[str], None]) -> Results:
    """All rounds of all cells on all targets; `progress` gets a line now and then."""
    results: Results = {(cell, target.name): Outcome([], []) for cell in plan.cells for target in targets}
    numbers = count(1)
    # A fresh interpreter: nothing of this process's threads or memory weighs on the generator.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as generator:

        def run(cell: Cell, target: Target, seconds: float) -> dict[str, float] | str:
            try:
                return generator.submit(worker.run, spec(cell, target, seconds), next(numbers)).result(
                    RUN_TIMEOUT_SECONDS
                )
            except BenchError as error:
                return f"{type(error).__name__}: {error}"

        # All of depth 1 comes first: bursts of pipelined writes slow etcd 3.4 down for good (see Etcd),
        # and latencies are to be those of a fresh one.
        for depth in sorted({cell.depth for cell in plan.cells}):
            cells = [cell for cell in plan.cells if cell.depth == depth]
            for cell in warm_up_cells(plan, depth):
                progress(f"warm-up: {cell.workload}")
                for target in targets:
                    error = run(cell, target, plan.warm_up_seconds)
                    if isinstance(error, str):
                        progress(f"  {target.name}: {error}")
            for number in range(plan.rounds):
                for position, cell in enumerate(cells):
                    progress(f"round {number + 1}/{plan.rounds}: {' '.join(map(str, cell))}")
                    for target in rotated(targets, number + position):
                        figures = run(cell, target, plan.seconds)
                        outcome = results[cell, target.name]
                        if isinstance(figures, str):
                            progress(f"  {target.name}: invalid: {figures}")
                            outcome.errors.append(figures)
                        else:
                            outcome.rounds.append(figures)
    return results


def spec(cell: Cell, target: Target, seconds: float) -> Spec:
    """What the generator is told."""
    rate = LIMIT_PIPELINED if cell.depth > 1 else LIMIT_ONE_AT_A_TIME
    return Spec(
        target.protocol,
        target.port,
        cell.workload,
        cell.connections,
        cell.depth,
        seconds,
        int(rate * seconds),
        target.processes,
        target.metrics_url,
    )


def warm_up_cells(plan: Plan, depth: int) -> Iterator[Cell]:
    """Each workload once: the JVM compiles what's hot only after some ten thousand calls."""
    if plan.warm_up_seconds:
        for workload in dict.fromkeys(cell.workload for cell in plan.cells):
            yield Cell(workload, WARM_UP_CONNECTIONS, depth)


def rotated(targets: Sequence[Target], turn: int) -> list[Target]:
    """The targets from another one on each turn, so that none always follows the same one."""
    turn %= len(targets)
    return [*targets[turn:], *targets[:turn]]
