"""Sessions that come back at once, time and again, are waited for: where that helps, and never for long."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from proxy.flights import Queue
from proxy.gathering import GRACE, Gathering, is_quick

SOON, LATER = GRACE / 4, GRACE * 3 / 4
OFTEN = 4


class Around:
    """A gathering with its clock, and how often it has let go."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.let_go = 0
        self.round_trip = GRACE / 2
        self.gathering = Gathering(self._go_on, lambda: self.now)

    def _go_on(self) -> None:
        self.let_go += 1

    def writers(self, *sessions: int, times: int = OFTEN, back_after: float = SOON) -> list[Queue]:
        """Sessions that had so many writes answered, and came with the next one after so many seconds."""
        queues = [self.gathering.came(session) for session in sessions]
        for _ in range(times):
            for queue in queues:
                self.gathering.left(queue)
            self.now += back_after
            queues = [self.gathering.came(session) for session in sessions]
        return queues

    def waits(self, ready: Sequence[Queue], in_flight: int = 0, requests: int = 1) -> bool:
        """Whether what these sessions have waits, so many requests each."""
        nothing: Any = None
        for queue in ready:
            queue.requests.clear()
            queue.requests.extend([nothing] * requests)
        return self.gathering.waits(ready, in_flight, self.round_trip)


@pytest.fixture
def around() -> Around:
    return Around()


async def test_whoever_comes_back_at_once_again_and_again_is_waited_for(around: Around) -> None:
    one, other = around.writers(1, 2)
    assert is_quick(other)
    around.gathering.left(other)
    assert around.waits([one])
    around.now += SOON
    assert around.gathering.came(2) is other
    assert not around.waits([one, other]), "all are here"


@pytest.mark.parametrize(("times", "back_after"), [(0, SOON), (1, SOON), (2, SOON), (OFTEN, LATER)])
async def test_whoever_came_back_seldom_or_later_is_not(
    around: Around, times: int, back_after: float
) -> None:
    one, other = around.writers(1, 2, times=times, back_after=back_after)
    around.gathering.left(other)
    assert not is_quick(other)
    assert not around.waits([one])


async def test_one_break_and_it_has_to_show_again(around: Around) -> None:
    one, other = around.writers(1, 2)
    around.gathering.left(other)
    around.now += LATER
    other = around.gathering.came(2)
    around.gathering.left(other)
    assert not around.waits([one])


async def test_whoever_stays_away_is_forgotten(around: Around) -> None:
    one, other = around.writers(1, 2)
    around.gathering.left(other)
    around.now += 2 * GRACE
    assert not around.waits([one])
    assert around.gathering.came(2) is not other


async def test_nobody_is_remembered_for_long(around: Around) -> None:
    for session in range(1000):
        around.gathering.left(around.gathering.came(session))
        around.now += GRACE
    assert len(around.gathering._left) <= 2


async def test_who_is_in_a_txn_is_waited_for_too(around: Around) -> None:
    (one,) = around.writers(1)
    assert around.waits([one], in_flight=1)


async def test_where_txns_take_long_nobody_waits(around: Around) -> None:
    one, other = around.writers(1, 2)
    around.gathering.left(other)
    around.round_trip = 10 * GRACE
    assert not around.waits([one], in_flight=1)
    around.round_trip = GRACE / 2
    assert around.waits([one], in_flight=1)


async def test_many_do_not_wait_for_few(around: Around) -> None:
    queues = around.writers(*range(10))
    around.gathering.left(queues[0])
    assert not around.waits(queues[1:])
    around.gathering.left(queues[1])
    around.gathering.left(queues[2])
    assert around.waits(queues[3:])


async def test_what_fills_a_txn_well_does_not_wait(around: Around) -> None:
    queues = around.writers(*range(50))
    for queue in queues[10:]:
        around.gathering.left(queue)
    assert around.waits(queues[:10])
    assert not around.waits(queues[:10], requests=4)


async def test_nobody_waits_longer_than_the_grace(around: Around) -> None:
    one, other = around.writers(1, 2)
    around.gathering.left(other)
    assert around.waits([one])
    assert around.waits([one]), "asked again meanwhile"
    await asyncio.sleep(5 * GRACE)
    assert around.let_go == 1
    assert not around.waits([one])
    assert around.waits([one]), "the next Txn may"


async def test_a_txn_formed_meanwhile_ends_the_wait(around: Around) -> None:
    one, other = around.writers(1, 2)
    around.gathering.left(other)
    assert around.waits([one])
    around.gathering.came(2)
    assert not around.waits([one, other])
    await asyncio.sleep(5 * GRACE)
    assert around.let_go == 0
