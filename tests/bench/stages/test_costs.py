"""The guard against regressions: what requests cost, counted and held against costs.txt.

Nothing here is a time, so nothing depends on the machine: a figure that has grown has grown by a change of
the code. If a case fails, look at where the calls go, before and after the change:

    python -m bench.stages --workloads NAME --connections N --depth N --calls     (or --profile)

Raise a figure only with a reason, which the commit tells. Figures that fell are taken over in the same way,
so that they stay down:

    python -m bench.stages --costs > tests/bench/stages/costs.txt
"""

from pathlib import Path

import pytest

from bench.stages.cases import Case
from bench.stages.costs import CASES, Cost, cost_of, read, table

COSTS = read((Path(__file__).parent / "costs.txt").read_text())
# The same code gives the same figures, so there is next to no headroom; the calls get what a line or two more
# in a request of a hundred calls take, lest every mended bug has to touch the table. Bytes depend on how well
# the random ids of sessions compress: by up to a hundredth from run to run.
_ROOM = Cost._make([1.005, 1.005, 1.03, 1.005, 1.03, 1.03])
_ROUNDING = 0.0001
_READS = ("get", "exists", "children")


def _id(case: Case) -> str:
    return f"{case.name}-{case.connections}x{case.depth}" + ("-watched" if case.watches else "")


@pytest.mark.parametrize("case", CASES, ids=_id)
def test_a_request_costs_no_more_than_it_did(case: Case) -> None:
    found = cost_of(case)
    allowed = COSTS[case]
    grown = [
        f"{name}: {cost:.4f} a request, was {known:.4f}"
        for name, cost, known, room in zip(Cost._fields, found, allowed, _ROOM, strict=True)
        if cost > known * room + _ROUNDING
    ]
    assert not grown, f"{'; '.join(grown)} ({__doc__})"


def test_the_table_has_each_case() -> None:
    assert list(COSTS) == list(CASES)


@pytest.mark.parametrize("case", [case for case in CASES if case.name in _READS], ids=_id)
def test_reads_ask_etcd_for_nothing(case: Case) -> None:
    assert COSTS[case][:4] == (0, 0, 0, 0)


@pytest.mark.parametrize("case", CASES, ids=_id)
def test_etcd_gets_one_put_a_txn_and_is_asked_nothing_else(case: Case) -> None:
    assert COSTS[case].puts == COSTS[case].txns <= 1
    assert COSTS[case].ranges == 0


@pytest.mark.parametrize("case", [case for case in CASES if case.depth > 1], ids=_id)
def test_pipelined_requests_share_their_txns(case: Case) -> None:
    assert COSTS[case].txns < 0.005


def test_watches_that_do_not_fire_cost_next_to_nothing() -> None:
    without, watched = COSTS[Case("mixed", 64, 32)], COSTS[Case("mixed", 64, 32, 10_000)]
    assert watched.python + watched.c < 1.05 * (without.python + without.c)


def test_a_table_is_read_as_it_was_written() -> None:
    costs = {case: Cost(*(number / 8 for number in range(len(Cost._fields)))) for case in CASES}
    assert read(table(costs.items())) == costs
    with pytest.raises(ValueError, match="other columns"):
        read("name  txns\n")
