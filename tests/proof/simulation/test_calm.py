"""Calm worlds: many hours, few requests, a fault now and then, and nothing left over at their end."""

import os

import pytest

from proof.simulation.calm import simulate_calm
from proof.simulation.campaign import find
from proof.simulation.planted import Planted, read_planted

_HOURS = 1.0
_QUICK, _QUICK_HOURS = ("leases are kept",), 0.3  # those that show in so short a world
_ALL = os.environ.get("SIMULATION_PLANTED") == "all"


@pytest.mark.timeout(1500)
def test_nothing_is_wrong_after_hours() -> None:
    """One world; `make simulate ARGS="--worlds calm --hours 44"` has one of each length."""
    outcome = simulate_calm(1, _HOURS)
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
    assert outcome.seconds >= _HOURS * 3600
    assert outcome.faults
    assert outcome.sessions > outcome.seconds / 1200
    assert outcome.quiet > 0.5 * outcome.seconds


def test_a_seed_gives_the_same_calm_world_again() -> None:
    first, second = (simulate_calm(3, 0.1).fingerprint for _ in range(2))
    assert first == second


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    "fault",
    [fault for fault in read_planted() if fault.world == "calm" and (_ALL or fault.name in _QUICK)],
    ids=lambda fault: fault.name,
)
def test_a_fault_that_only_time_shows_is_found(fault: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONSAFEPATH", "1")  # as a session of Spark in this process does
    found = find(fault, seed=1, control=_ALL, hours=None if _ALL else _QUICK_HOURS)
    assert found.violation is not None, f"not found: {fault.what}"
    assert found.control is None
