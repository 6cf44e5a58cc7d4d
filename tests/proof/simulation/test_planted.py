"""Faults that are planted in the code are found; all of them by `make simulate ARGS=--planted`."""

import os

import pytest

from proof.simulation.campaign import find
from proof.simulation.planted import PLANTED, Planted

# Those that show soonest. SIMULATION_PLANTED=all runs the others as well, for some minutes.
_QUICK = (
    "append without the proxy's guard",
    "a zxid skipped",
    "no rollback",
    "sequence by children",
    "events after replies",
)
_ALL = os.environ.get("SIMULATION_PLANTED") == "all"


def test_there_are_enough_of_them_with_names_of_their_own() -> None:
    names = [fault.name for fault in PLANTED]
    assert len(set(names)) == len(names) >= 20
    assert set(_QUICK) <= set(names)


@pytest.mark.parametrize(
    "fault",
    [fault for fault in PLANTED if not fault.calm and (_ALL or fault.name in _QUICK)],
    ids=lambda f: f.name,
)
def test_a_planted_fault_is_found(fault: Planted) -> None:
    found = find(fault, seed=1, control=_ALL)
    assert found.seed is not None, f"{found.tries} seeds have not found: {fault.what}"
    assert found.control == []
