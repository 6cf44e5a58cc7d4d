"""A watch that does not show what etcd has answered is given up; one that is only busy is not.

Time is simulated: a machine that is busy changes nothing.
"""

import asyncio
from unittest import mock

import pytest

from proof.simulation.world import Host
from proof.simulation.world import World as Time
from proxy.log.follow.log_order import LogOrder
from proxy.log.follow.watch_guard import WatchGuard
from schema.keys import Keyspace

KEYS = Keyspace("/t")


class World:
    """An order that is fed by hand."""

    def __init__(self, limit: float = 5.0) -> None:
        self._time = Time(1)
        self.order = LogOrder(KEYS)
        self.order.expect("p", 1)
        self.replaced: list[float] = []
        self.suspect = False
        with mock.patch.object(asyncio, "get_running_loop", return_value=Host(self._time, "proxy")):
            self.guard = WatchGuard(self.order, lambda: self.suspect, self._replace, mock.Mock(), limit)

    def _replace(self) -> None:
        self.replaced.append(self.now)

    @property
    def now(self) -> float:
        return self._time.now

    def show(self, number: int) -> None:
        """The stream has delivered entries up to this number."""
        self.order.restart({"p": number})

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._time.run(self.now + seconds)


@pytest.mark.parametrize("shown", [1, 2])
def test_a_watch_that_shows_not_every_entry_is_replaced(shown: int) -> None:
    world = World()
    for number in (1, 2):
        world.guard.appended("p", number, 0.001)
    world.show(shown)
    world.guard.appended("q", 7, 0.001)  # of an incarnation that is over
    world.wait(0.8)
    assert bool(world.replaced) is (shown < 2)


def test_a_watch_at_a_member_that_has_just_left_a_request_unanswered_gets_less_time() -> None:
    world = World()
    pauses: list[float] = []
    for suspect in (False, True):
        world.suspect = suspect
        began, before = world.now, len(world.replaced)
        world.guard.appended("p", 1, 5.0 if suspect else 0.001)
        world.wait(0.5)
        pauses.append(world.replaced[before] - began)
        world.guard.stop()
    assert pauses[1] < pauses[0]


def test_where_round_trips_are_long_the_watch_gets_longer() -> None:
    world = World()
    world.guard.appended("p", 1, 5.0)
    world.wait(1.0)
    assert world.replaced == []


def test_an_answer_that_took_an_election_gives_later_answers_no_more_time() -> None:
    world = World()
    world.guard.appended("p", 1, 5.0)
    world.guard.appended("p", 2, 0.001)
    world.wait(0.8)
    assert world.replaced


def test_a_watch_that_shows_no_more_than_the_last_one_gets_longer_each_time() -> None:
    world = World()
    began = world.now
    world.guard.appended("p", 1, 0.001)
    while len(world.replaced) < 3:
        world.wait(0.1)
    pauses = [after - before for before, after in zip([began, *world.replaced], world.replaced, strict=False)]
    assert pauses == sorted(pauses)
    assert pauses[2] > 2 * pauses[0]
    world.show(1)
    world.wait(20)
    assert len(world.replaced) == 3
