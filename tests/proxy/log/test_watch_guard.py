"""A watch that does not show what etcd has answered is given up; one that is only busy is not."""

import asyncio

import pytest

from proxy.log.follower import Follower
from proxy.log.watch_guard import WatchGuard
from schema.keys import Keyspace
from tests.proxy.log.proxies import until

KEYS = Keyspace("/t")


class World:
    """A follower that delivers by hand."""

    def __init__(self, limit: float = 5.0) -> None:
        self.follower = Follower(KEYS)
        self.follower.expect("p", 1)
        self.replaced: list[float] = []
        self.suspect = False
        self._loop = asyncio.get_running_loop()
        replaced = lambda: self.replaced.append(self._loop.time())  # noqa: E731
        self.guard = WatchGuard(self.follower, lambda: self.suspect, replaced, limit)

    def show(self, number: int) -> None:
        """The stream has delivered entries up to this number."""
        self.follower.restart({"p": number})

    async def replacements(self, count: int) -> None:
        """Wait until the watch was replaced so often."""
        await until(lambda: len(self.replaced) >= count)


@pytest.mark.parametrize("shown", [1, 2])
async def test_a_watch_that_shows_not_every_entry_is_replaced(shown: int) -> None:
    world = World()
    for number in (1, 2):
        world.guard.landed("p", number, 0.001)
    world.show(shown)
    world.guard.landed("q", 7, 0.001)  # of an incarnation that is over
    await asyncio.sleep(0.8)
    assert bool(world.replaced) is (shown < 2)
    world.guard.stop()


async def test_a_watch_at_a_member_that_has_just_left_a_request_unanswered_gets_less_time() -> None:
    world = World()
    pauses: list[float] = []
    for suspect in (False, True):
        world.suspect = suspect
        began = asyncio.get_running_loop().time()
        world.guard.landed("p", 1, 5.0 if suspect else 0.001)
        await world.replacements(len(pauses) + 1)
        pauses.append(world.replaced[-1] - began)
        world.guard.stop()
    assert pauses[1] < pauses[0]


async def test_where_round_trips_are_long_the_watch_gets_longer() -> None:
    world = World()
    world.guard.landed("p", 1, 5.0)
    await asyncio.sleep(1.0)
    assert world.replaced == []
    world.guard.stop()


async def test_a_watch_that_shows_no_more_than_the_last_one_gets_longer_each_time() -> None:
    world = World()
    began = asyncio.get_running_loop().time()
    world.guard.landed("p", 1, 0.001)
    await world.replacements(3)
    pauses = [after - before for before, after in zip([began, *world.replaced], world.replaced, strict=False)]
    assert pauses == sorted(pauses)
    assert pauses[2] > 2 * pauses[0]
    world.show(1)
    await asyncio.sleep(0.3)
    assert len(world.replaced) == 3
