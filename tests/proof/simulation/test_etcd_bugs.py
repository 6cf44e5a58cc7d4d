"""etcd's known bugs in the simulation: the servers find what they can find, and all else does no harm.

That each bug happens is shown by the planted faults that it alone makes visible, and for events that are left
out by the servers that are deceived.
"""

import pytest

from proof.simulation.kinds import run
from proof.simulation.record import WorldSpec
from proof.simulation.wrong_servers import FOUND_WITHIN
from tests.proof.simulation.worlds import small

_LEFT_OUT = (("leave out events",), ("compaction loses events",))
_HARMLESS = ("repeat events", "begin watches early", "old reads", "a stale member", "load anew")


@pytest.mark.parametrize("faults", [*_LEFT_OUT, _HARMLESS])
def test_what_is_left_out_is_found_and_all_else_does_no_harm(faults: tuple[str, ...]) -> None:
    outcome = small(2, 0.01, faults).run()  # a seed in which each of the two deceives a server
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
    assert bool(outcome.deceived) == (faults in _LEFT_OUT)
    assert outcome.deceived_for < FOUND_WITHIN


def test_a_storm_with_bugs_of_etcd() -> None:
    outcome = run(WorldSpec("etcd-bugs", 3, 0.01))
    assert outcome.kind == "etcd-bugs"
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
