"""Branches that matter are counted, and a long campaign that never takes one of them fails."""

import pytest

from proof.simulation.campaign import lacking
from proof.simulation.sometimes import (
    BRANCHES,
    CARRY_OVER,
    ENOUGH_HOURS,
    EPHEMERAL,
    FALLBACK,
    GAP_STAYS,
    GIVES_SPACE,
    LENT,
    OVER_BUDGET,
    RELOAD_IN_WRITE,
    WHOLE_AGAIN,
)
from tests.proof.simulation.worlds import small


def test_a_world_counts_what_it_takes() -> None:
    outcome = small(3, 0.03, ("end a lease early", "damage a snapshot")).run()
    assert outcome.violations == []
    assert {CARRY_OVER, FALLBACK, OVER_BUDGET} <= set(outcome.branches)
    assert set(outcome.branches) <= set(BRANCHES)
    assert lacking([outcome]) == []  # it is too short for that
    long = outcome._replace(seconds=ENOUGH_HOURS * 3600)
    assert CARRY_OVER not in lacking([long])
    assert lacking([long]) == [branch for branch in BRANCHES if branch not in outcome.branches]
    assert lacking([long._replace(kind="calm")]) == []


@pytest.mark.parametrize(
    ("fault", "branch"), [("end a proxy in a gap", GAP_STAYS), ("load anew in a long write", RELOAD_IN_WRITE)]
)
def test_a_fault_waits_for_a_moment_that_chance_seldom_meets(fault: str, branch: str) -> None:
    outcome = small(3, 0.015, (fault,)).run()
    assert outcome.violations == []
    assert branch in outcome.branches


def test_a_small_etcd_comes_back_by_what_clients_delete() -> None:
    """Its quota is a knob. The tree meets the reserve again and again, and etcd is never full."""
    world = small(402, 0.08, ("kill a proxy",))
    assert world.knobs.quota < 1_000_000
    outcome = world.run()
    assert outcome.violations == []
    assert {LENT, EPHEMERAL, GIVES_SPACE, WHOLE_AGAIN} <= set(outcome.branches)
    assert not world.cluster.store.full
