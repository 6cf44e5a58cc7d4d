"""What connections have received is taken a little in each turn, in order, and all in the end."""

import asyncio
import random
from collections import Counter

from lab.fakes.clock import FakeClock
from proxy.support.inflow import Inflow
from tests.proxy.log.proxies import until


class _Clock(FakeClock):
    def __init__(self) -> None:
        super().__init__()
        self.used = 0.0

    def thread_time(self) -> float:
        return self.used


class _Taker:
    """To take a byte costs it a microsecond."""

    def __init__(self, clock: _Clock, address: str = "a") -> None:
        self.address = address
        self._clock = clock
        self.data = b""
        self.begun = 0.0
        self.waits = False
        self.times_held = 0
        self.is_aborted = False

    def take(self, data: bytes) -> None:
        if not self.data:
            self.begun = self._clock.used
        self.data += data
        self._clock.used += len(data) * 1e-6

    def hold(self) -> None:
        assert not self.waits
        self.waits = True
        self.times_held += 1

    def go_on(self) -> None:
        assert self.waits
        self.waits = False

    def abort(self) -> None:
        self.is_aborted = True


async def test_what_comes_is_taken_a_little_in_each_turn() -> None:
    clock = _Clock()
    inflow = Inflow(clock)
    takers = [_Taker(clock) for _ in range(20)]
    short, lost = _Taker(clock), takers[1]
    in_a_turn = Counter[int]()
    turn, used, answered = 0, 0.0, 0

    def count() -> None:
        nonlocal turn, used, answered
        in_a_turn[turn] = round((clock.used - used) * 1e6)
        turn, used = turn + 1, clock.used
        answered = answered or (turn if short.data else 0)
        asyncio.get_running_loop().call_soon(count)

    count()
    sent = random.Random(1).randbytes(50_000)
    for taker in takers:
        inflow.came(taker, sent[:30_000])
        inflow.came(taker, sent[30_000:])
    inflow.came(short, b"ruok")
    inflow.lost(lost)
    await until(lambda: all(taker.data == sent for taker in takers if taker is not lost))
    assert max(in_a_turn.values()) < 5_000 + 4_096, "microseconds"
    assert answered < turn / 4, "one that has sent little waits for a piece of each other one"
    assert len(lost.data) < len(sent)
    takers.remove(lost)
    assert all((taker.times_held, taker.waits) == (1, False) for taker in (*takers, short))


async def test_one_of_another_address_waits_for_no_more_than_one_connection() -> None:
    clock = _Clock()
    inflow = Inflow(clock)
    takers = [_Taker(clock) for _ in range(20)]
    other = _Taker(clock, "b")
    for taker in takers:
        inflow.came(taker, bytes(50_000))
    before = clock.used
    inflow.came(other, b"ruok")
    await until(lambda: other.data == b"ruok")
    assert other.begun - before < 3 * 4_096e-6
    inflow.lost(takers[0])
    await until(lambda: all(len(taker.data) == 50_000 for taker in takers[1:]))


async def test_what_costs_little_never_waits() -> None:
    taker = _Taker(_Clock())
    inflow = Inflow(_Clock())
    for _ in range(10):
        inflow.came(taker, bytes(64 << 10))
    assert len(taker.data) == 640 << 10
    assert not taker.times_held


async def test_a_connection_for_which_too_much_waits_ends() -> None:
    clock = _Clock()
    taker, inflow = _Taker(clock), Inflow(clock)
    others = [_Taker(clock, "b") for _ in range(2)]
    while not taker.is_aborted:
        inflow.came(taker, bytes(1 << 20))
        assert len(taker.data) < 1 << 20
        for other in others:
            inflow.came(other, bytes(64 << 10))
    assert not any(other.is_aborted for other in others)
    inflow.lost(taker)
