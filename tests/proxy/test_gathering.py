"""Sessions that come back at once are waited for, as long as that is likely to help, and never for long."""

import asyncio
from typing import Any

import pytest

from proxy.flights import Queue
from proxy.gathering import ENOUGH, GRACE, Gathering

SOON, LATE = GRACE / 4, GRACE * 2


class Around:
    """A gathering with its clock, and how often it has let go."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.let_go = 0
        self.gathering = Gathering(self._go_on, lambda: self.now)

    def _go_on(self) -> None:
        self.let_go += 1

    def write(self, *sessions: int, back_after: float = SOON) -> None:
        """Each session has a write answered, and comes with the next one after so many seconds."""
        for session in sessions:
            self.gathering.left(session)
        self.now += back_after
        for session in sessions:
            self.gathering.came(session)

    def waits(self, *ready: int, requests: int = 1) -> bool:
        queues = []
        for session in ready:
            queue = Queue(session)
            nothing: Any = None
            queue.requests.extend([nothing] * requests)
            queues.append(queue)
        return self.gathering.waits(queues)


@pytest.fixture
def around() -> Around:
    return Around()


async def test_whoever_came_back_at_once_is_waited_for(around: Around) -> None:
    around.write(1, 2)
    around.gathering.left(2)
    assert around.waits(1)
    around.now += SOON
    around.gathering.came(2)
    assert not around.waits(1, 2), "all are here"


async def test_whoever_took_his_time_is_not(around: Around) -> None:
    around.write(1)
    around.write(2, back_after=LATE)
    around.gathering.left(2)
    assert not around.waits(1)
    around.write(2, back_after=SOON)
    around.gathering.left(2)
    assert around.waits(1), "but again, once he has been quick"


async def test_new_sessions_are_not_waited_for(around: Around) -> None:
    for session in (1, 2):
        around.gathering.came(session)
    around.gathering.left(2)
    assert not around.waits(1)


async def test_whoever_stays_away_is_forgotten(around: Around) -> None:
    around.write(1, 2)
    around.gathering.left(2)
    around.now += LATE
    assert not around.waits(1)


async def test_who_has_a_write_in_a_txn_is_waited_for_where_txns_are_soon_over(around: Around) -> None:
    around.write(1, 2)
    assert around.waits(1), "2 has one under way"
    for _ in range(50):
        around.gathering.landed(10 * GRACE)
    assert not around.waits(1)
    around.gathering.left(2)
    assert around.waits(1), "2 was just answered"


async def test_many_do_not_wait_for_few(around: Around) -> None:
    around.write(*range(10))
    around.gathering.left(0)
    assert not around.waits(*range(1, 10))
    around.gathering.left(1)
    around.gathering.left(2)
    assert around.waits(*range(3, 10))


async def test_what_fills_a_txn_well_does_not_wait(around: Around) -> None:
    around.write(*range(50))
    for session in range(40):
        around.gathering.left(session)
    assert around.waits(*range(40, 50))
    assert not around.waits(*range(40, 50), requests=ENOUGH // 10 + 1)


async def test_nobody_waits_longer_than_the_grace(around: Around) -> None:
    around.write(1, 2)
    around.gathering.left(2)
    assert around.waits(1)
    assert around.waits(1), "asked again meanwhile"
    await asyncio.sleep(5 * GRACE)
    assert around.let_go == 1
    assert not around.waits(1)
    around.write(1, 2)
    around.gathering.left(2)
    assert around.waits(1), "the next one may"


async def test_a_txn_formed_meanwhile_ends_the_wait(around: Around) -> None:
    around.write(1, 2)
    around.gathering.left(2)
    assert around.waits(1)
    around.gathering.came(2)
    assert not around.waits(1, 2)
    await asyncio.sleep(5 * GRACE)
    assert around.let_go == 0
