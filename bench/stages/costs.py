"""What requests cost etcd, as a table that a test compares with.

`python -m bench.stages --costs` writes it. The same code gives the same figures on every machine.
"""

from collections.abc import Iterable
from typing import NamedTuple

from bench.stages.cases import ETCD, FANOUT, Case, run
from bench.workloads import WORKLOADS

CASES = (
    *(Case(name, 64, 32) for name in WORKLOADS),
    *(Case(name, 1, 1) for name in WORKLOADS),
    *(Case(name, 64, 1) for name in ("get", "create", "mixed")),
    Case("mixed", 64, 32, watches=10_000),
    Case(FANOUT, 1000, 1),
)
# Requests of each connection to warm up, and to count.
_CROWD = (4, 32)
_LONE = (16, 100)
_CHANGES = (1, 2)


class Cost(NamedTuple):
    """What etcd is asked to do for one request. `pairs` compares CPU times."""

    txns: float
    puts: float
    deletes: float
    compares: float
    bytes: float
    """Of the Txns."""
    ranges: float
    """Other requests, and there should be none."""


def cost_of(case: Case) -> Cost:
    """Run a case and count."""
    warm_up, each = _CHANGES if case.name == FANOUT else _LONE if case.connections == 1 else _CROWD
    figures = run(case, each, warm_up)
    return Cost._make(figures.per_request[name] for name in ETCD)


def table(costs: Iterable[tuple[Case, Cost]]) -> str:
    """The table, to be read by people and by `read`."""
    lines = [[*Case._fields, *Cost._fields]]
    for case, cost in costs:
        lines.append([*map(str, case), *(f"{figure:.4f}" for figure in cost)])
    return "".join("  ".join(f"{cell:>11}" for cell in line).rstrip() + "\n" for line in lines)


def read(text: str) -> dict[Case, Cost]:
    """What `table` has written; raises ValueError for anything else."""
    head, *lines = (line.split() for line in text.splitlines())
    if head != [*Case._fields, *Cost._fields]:
        raise ValueError(f"a table of other columns: {head}")
    found = {}
    for name, connections, depth, watches, *figures in lines:
        case = Case(name, int(connections), int(depth), int(watches))
        found[case] = Cost(*map(float, figures))
    return found
