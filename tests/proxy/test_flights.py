"""What flights and lanes tell of themselves."""

import pytest

from proxy.flights import Flight, Lane, Outcome
from tests.proxy.naive import Create
from tests.proxy.shell import SESSIONS
from tests.proxy.world import MARKER, Proxy, Store, request_of


def _flight() -> Flight:
    batch = Proxy(Store(SESSIONS)).batch(1)
    assert batch.add(request_of(1, Create("/a")))
    return Flight(batch, Lane(MARKER), [])


def test_no_two_values_of_a_lane_are_the_same() -> None:
    lane = Lane(MARKER)
    whats = ("txn", "fence", "txn", "open", "fence")
    assert len({lane.next_value(what) for what in whats}) == len(whats)


def test_a_flight_knows_what_it_changes() -> None:
    flight = _flight()
    assert sorted(flight.changed) == ["/", "/a"]
    assert flight.marker == MARKER
    assert not flight.over()


@pytest.mark.parametrize("unsteady", ["solo", "lost before", "wide"])
def test_what_is_likely_to_be_evaluated_again_is_not_steady(unsteady: str) -> None:
    flight = _flight()
    assert flight.is_steady
    (request,) = flight.batch.requests
    request.solo = unsteady == "solo"
    request.attempts = int(unsteady == "lost before")
    flight.batch.wide = unsteady == "wide"
    assert not flight.is_steady


@pytest.mark.parametrize(
    ("result", "history", "lost"),
    [
        (None, "restored", False),  # no answer that could be another's
        ((11, [True]), "as ever", False),
        ((11, [True]), "restored", True),
        ((10, [True]), "restored", False),  # not newer than what the mirror had seen: the restored etcd's own
    ],
)
def test_an_answer_of_an_etcd_that_has_been_restored_since_tells_nothing(
    result: Outcome | None, history: str, lost: bool
) -> None:
    flight = _flight()
    flight.history, flight.since, flight.result = "as ever", 10, result
    assert flight.lost_in(history) is lost
