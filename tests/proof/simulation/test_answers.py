"""Events of a state that was loaded anew break no promise."""

from collections.abc import Set

import pytest

from proof.history import Create, GetData, Reply, check
from proof.history import records as r
from proof.history.records import AddWatch
from proof.simulation.answers import is_of_a_load
from tests.proof.history.stories import MAKES_A, Step, Story, created, told

# A server that has seen zxid 1 loads the state of zxid 3.
_LOADED = [
    MAKES_A,
    (2, AddWatch("/a"), Reply(zxid=1)),
    (1, Create("/a/b"), created("/a/b", 2)),
    (1, Create("/a/c"), created("/a/c", 3)),
    told(2, r.CHILDREN, "/a", 3),
    told(2, r.CHILDREN, "/a", 3),
]


def _rules(steps: list[Step], loaded: Set[int]) -> set[str]:
    history = Story(*steps)
    return {violation.rule for violation in check(history) if not is_of_a_load(violation, history, loaded)}


@pytest.mark.parametrize(("loaded", "rules"), [({3}, set()), ({2}, {"watch lost or late", "watch doubled"})])
def test_a_loaded_state_reports_changes_of_one_node_at_once(loaded: Set[int], rules: set[str]) -> None:
    assert _rules(_LOADED, loaded) == rules


def test_a_change_without_an_event_is_a_broken_promise() -> None:
    read = (2, GetData("/a"), Reply(zxid=3, data=b""))
    assert _rules([*_LOADED[:4], read], {3}) == {"watch lost or late"}
