"""Events of a state that was loaded anew break no promise; that state itself may break one."""

from collections.abc import Set

import pytest

from proof.history import Create, Delete, Exists, GetData, Reply, check
from proof.history import records as r
from proof.history.records import AddWatch
from proof.history.watches import Skipped
from proof.simulation.loads import Home, Loads
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
_HERE = Home(0, "proxy1")


def _rules(steps: list[Step], loaded: Set[int], *homes: Home) -> set[str]:
    """What is found if the server of session 2 has loaded these states."""
    records = Story(*steps).records
    loads = Loads({"proxy1": loaded, "proxy2": {7}}, {1: [Home(0, "proxy2")], 2: homes or [_HERE]})
    return {violation.rule for violation in check(Story(*steps)) if not loads.explain(violation, records)}


@pytest.mark.parametrize(("loaded", "rules"), [({3}, set()), ({2}, {"watch lost or late", "watch doubled"})])
def test_a_loaded_state_reports_changes_of_one_node_at_once(loaded: Set[int], rules: set[str]) -> None:
    assert _rules(_LOADED, loaded) == rules


def test_a_change_without_an_event_is_a_broken_promise() -> None:
    read = (2, GetData("/a"), Reply(zxid=3, data=b""))
    assert _rules([*_LOADED[:4], read], {3}) == {"watch lost or late"}


_CAME_AND_WENT = [
    MAKES_A,
    (2, Exists("/b", True), Reply(r.NO_NODE, 1)),
    (1, Create("/b"), created("/b", 2)),
    (1, Delete("/b"), Reply(zxid=3)),
    (2, GetData("/a"), Reply(zxid=4, data=b"")),
    (1, Create("/b"), created("/b", 5)),
    told(2, r.CREATED, "/b", 5),
    (2, GetData("/a"), Reply(zxid=5, data=b"")),
]


@pytest.mark.parametrize(
    ("skipped", "rules"),
    [
        ({2: [(1, 4)]}, set()),
        ({2: [(1, 2)]}, {"watch lost or late", "watch doubled"}),  # it was there in the loaded state
        ({2: [(3, 4)]}, {"watch lost or late", "watch doubled"}),
        ({1: [(1, 4)]}, {"watch lost or late", "watch doubled"}),
    ],
)
def test_a_node_that_came_and_went_in_what_was_skipped_has_no_event(
    skipped: Skipped, rules: set[str]
) -> None:
    """Found by a campaign: a multi that creates and deletes a node, while etcd is restored."""
    assert {violation.rule for violation in check(Story(*_CAME_AND_WENT), skipped=skipped)} == rules


@pytest.mark.parametrize(
    "homes",
    [
        [Home(0, "proxy2")],  # which has loaded another state
        [_HERE, Home(1, "proxy2")],  # it has moved
        [Home(1_000_000_000, "proxy1")],  # it came later
    ],
)
def test_a_state_that_another_server_has_loaded_explains_nothing(homes: list[Home]) -> None:
    assert _rules(_LOADED, {3}, *homes) == {"watch lost or late", "watch doubled"}


def test_a_loaded_state_that_is_older_is_a_broken_promise() -> None:
    """The session of the server has seen zxid 2, and then sees the loaded state of zxid 1."""
    older: list[Step] = [
        MAKES_A,
        (1, Create("/b"), created("/b", 2)),
        (2, GetData("/a"), Reply(zxid=2, data=b"")),
        (2, GetData("/a"), Reply(zxid=1, data=b"")),
    ]
    assert "session order" in _rules(older, {1, 2})


def test_an_event_of_a_loaded_state_that_is_older_is_a_broken_promise() -> None:
    """The session of the server has seen zxid 3, and gets an event of the loaded state of zxid 2."""
    steps: list[Step] = [
        MAKES_A,
        (2, AddWatch("/a"), Reply(zxid=1)),
        (1, Create("/b"), created("/b", 2)),
        (1, Create("/c"), created("/c", 3)),
        (2, GetData("/b"), Reply(zxid=3, data=b"")),
        told(2, r.CHANGED, "/a", 2),
    ]
    assert _rules(steps, {2}) == {"session order"}
    assert _rules(steps, {1}) == {"session order", "watch without change"}
