"""What requests cost etcd is compared with costs.txt.

Nothing here is a time, so nothing depends on the machine. A figure that has grown needs a
repair, or a reason in the commit message. This command records new figures:

    python -m bench.stages --costs > tests/bench/stages/costs.txt
"""

from pathlib import Path

import pytest

from bench.stages.cases import Case, run
from bench.stages.costs import CASES, Cost, cost_of, read

COSTS = read((Path(__file__).parent / "costs.txt").read_text())
# Bytes depend on how well the random ids of sessions compress: by up to a hundredth from run to run.
_ROOM = Cost(txns=1.005, puts=1.005, deletes=1.005, compares=1.005, bytes=1.03, ranges=1.005)
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
    assert COSTS[case] == (0,) * len(Cost._fields)


@pytest.mark.parametrize("case", CASES, ids=_id)
def test_etcd_gets_one_put_a_txn_and_is_asked_nothing_else(case: Case) -> None:
    assert COSTS[case].puts == COSTS[case].txns <= 1
    assert COSTS[case].ranges == 0


@pytest.mark.parametrize("case", [case for case in CASES if case.depth > 1], ids=_id)
def test_pipelined_requests_share_their_txns(case: Case) -> None:
    assert COSTS[case].txns < 0.005


def test_watches_that_do_not_fire_cost_next_to_nothing() -> None:
    """Compared in calls of functions, of which the same code makes the same number."""
    cases = (Case("mixed", 64, 32), Case("mixed", 64, 32, 10_000))
    without, watched = (sum(run(case, 16, 4, counting=True).calls()) for case in cases)
    assert watched < 1.1 * without
