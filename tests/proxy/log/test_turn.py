"""Whose turn it is to write a snapshot, by the lease that all trees in one etcd know."""

import pytest

from lab.fakes.clock import FakeClock
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.log.context import Context
from proxy.log.status import Stats
from proxy.log.upkeep.turn import Turn
from proxy.state.capture import new_machine
from proxy.support.environment import Environment
from proxy.support.tasks import Tasks
from schema.keys import SNAPSHOT_LEASE, Keyspace


class World:
    def __init__(self) -> None:
        self.store = FakeEtcd()
        self.clock = FakeClock(1000.0)
        self.etcds = [FakeEtcdClient(self.store) for _ in range(2)]
        self.turns = [
            Turn(
                Context(
                    *(etcd, Keyspace(prefix), Tasks(), new_machine(1), Stats()),
                    environment=Environment(clock=self.clock),
                )
            )
            for etcd, prefix in zip(self.etcds, ("/a", "/b"), strict=True)
        ]

    def advance(self, seconds: float) -> None:
        self.clock.now += seconds
        self.store.advance(seconds)


async def test_one_at_a_time() -> None:
    first, second = World().turns
    assert await first.begin(60)
    assert not await second.begin(60)
    await second.end()  # it has none
    assert not await second.begin(60)
    await first.end()
    assert await second.begin(60)


async def test_the_turn_of_a_proxy_that_has_died_or_is_slow_ends() -> None:
    world = World()
    first, second = world.turns
    assert await first.begin(60)
    world.advance(61)
    assert await second.begin(60)
    await first.end()  # the lease is that of the second one
    assert world.store.lease_ids == [SNAPSHOT_LEASE]


async def test_a_full_etcd_grants_nobody_a_lease() -> None:
    world = World()
    world.store.full = True
    assert [await turn.begin(60) for turn in world.turns] == [True, True]


async def test_an_etcd_out_of_reach(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    first, _ = world.turns
    world.etcds[0].unreachable = True
    assert not await first.begin(60)
    world.etcds[0].unreachable = False
    assert await first.begin(60)
    world.etcds[0].unreachable = True
    await first.end()
    assert "wait until a lease of this proxy runs out" in caplog.text
