"""The order of a whole bench: cells, rounds and targets interleaved, each run in the generator's process."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from multiprocessing.pool import Pool
from typing import NamedTuple, Self, TypeVar

from bench import worker
from bench.errors import BenchError, Stalled
from bench.etcd_load import APPEND
from bench.servers import Target
from bench.worker import Spec
from bench.workloads import Cell

T = TypeVar("T")

RUN_TIMEOUT_SECONDS = 300.0
WARM_UP_CONNECTIONS = 16


ON_ETCD_ALONE = (APPEND,)
"""Workloads that only raw etcd has."""


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


class Generator:
    """The process that executes the runs: a fresh interpreter, on which nothing of this one's weighs."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._pool = self._new_pool()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.terminate()

    def run(self, spec: Spec) -> dict[str, float]:
        """The run's figures. Raises BenchError if it's invalid; a process that hangs is replaced."""
        try:
            return self._pool.apply_async(worker.run, (spec, next(self._numbers))).get(RUN_TIMEOUT_SECONDS)
        except multiprocessing.TimeoutError:
            self._pool.terminate()
            self._pool = self._new_pool()
            raise Stalled(f"the run took longer than {RUN_TIMEOUT_SECONDS:.0f} s") from None

    @staticmethod
    def _new_pool() -> Pool:
        return multiprocessing.get_context("spawn").Pool(1)


def measure(plan: Plan, targets: Sequence[Target], progress: Callable[[str], None]) -> Results:
    """All rounds of all cells on all targets; `progress` gets a line now and then."""
    results: Results = {
        (cell, target.name): Outcome([], []) for cell in plan.cells for target in able(cell, targets)
    }
    with Generator() as generator:
        # All of depth 1 comes first: bursts of pipelined writes slow etcd 3.4 down for good (see Etcd),
        # and latencies are to be those of a fresh one.
        for depth in sorted({cell.depth for cell in plan.cells}):
            cells = [cell for cell in plan.cells if cell.depth == depth]
            if plan.warm_up_seconds:
                for cell in warm_up_cells(cells):
                    progress(f"warm-up: {cell.workload}")
                    for target in able(cell, targets):
                        _run(generator, cell, target, plan.warm_up_seconds, progress)
            for number in range(plan.rounds):
                for position, cell in enumerate(cells):
                    progress(f"round {number + 1}/{plan.rounds}: {described(cell)}")
                    for target in rotated(able(cell, targets), number + position):
                        outcome = results[cell, target.name]
                        figures = _run(generator, cell, target, plan.seconds, progress)
                        if isinstance(figures, str):
                            outcome.errors.append(figures)
                        else:
                            outcome.rounds.append(figures)
    return results


def _run(
    generator: Generator, cell: Cell, target: Target, seconds: float, progress: Callable[[str], None]
) -> dict[str, float] | str:
    """The figures of one run, or why there are none."""
    try:
        return generator.run(Spec(target, cell, seconds))
    except BenchError as error:
        message = f"{type(error).__name__}: {error}"
        progress(f"  {target.name}: invalid: {message}")
        return message


def warm_up_cells(cells: Sequence[Cell]) -> Iterator[Cell]:
    """Each workload once at its depth: the JVM compiles what's hot only after some ten thousand calls."""
    for workload, depth in dict.fromkeys((cell.workload, cell.depth) for cell in cells):
        yield Cell(workload, WARM_UP_CONNECTIONS, depth)


def described(cell: Cell) -> str:
    """The cell in a line of progress."""
    return f"{cell.workload}, {cell.connections} connections x {cell.depth}"


def able(cell: Cell, targets: Sequence[Target]) -> list[Target]:
    """The targets that have a cell's workload."""
    return [target for target in targets if (cell.workload in ON_ETCD_ALONE) == (target.protocol == "etcd")]


def rotated(targets: Sequence[T], turn: int) -> list[T]:
    """The targets from another one on each turn, so that none always follows the same one."""
    if not targets:
        return []
    turn %= len(targets)
    return [*targets[turn:], *targets[:turn]]
