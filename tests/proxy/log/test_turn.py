"""Whose turn it is to write a snapshot, by the lease that all trees in one etcd know."""

import asyncio
import logging
import math
from contextlib import AsyncExitStack

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

    async def advance(self, seconds: float) -> None:
        self.clock.now += seconds
        self.store.advance(seconds)
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def always_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.etcd.leases._KEEP_ALIVES", math.inf)


async def test_one_at_a_time_however_long_it_takes() -> None:
    world = World()
    first, second = world.turns
    async with first.taken(0) as lost:
        for _ in range(10):
            async with second.taken(0) as of_second:
                assert lost is not None
                assert (lost.done(), of_second) == (False, None)
            await world.advance(10)
    async with second.taken(0) as lost:
        assert lost is not None
    assert not world.store.lease_ids


async def test_the_turn_of_a_proxy_that_has_died_or_does_not_reach_etcd_ends() -> None:
    """All trees in the etcd waited for minutes: as long as the snapshot might have taken."""
    world = World()
    first, second = world.turns
    async with AsyncExitStack() as turn_of_first:
        lost = await turn_of_first.enter_async_context(first.taken(0))
        assert lost is not None
        world.etcds[0].unreachable = True
        await world.advance(10)
        assert not lost.done()
        await world.advance(6)
        assert lost.done()
        async with second.taken(0) as of_second:
            assert of_second is not None
            world.etcds[0].unreachable = False
            await turn_of_first.aclose()  # the lease is that of the second one
            assert world.store.lease_ids == [SNAPSHOT_LEASE]


async def test_a_turn_is_over_as_soon_as_etcd_says_that_the_lease_is_gone() -> None:
    world = World()
    async with world.turns[0].taken(0) as lost:
        assert lost is not None
        world.store.lease_revoke(SNAPSHOT_LEASE)
        await world.advance(1)
        assert lost.done()


async def test_a_full_etcd_grants_nobody_a_lease() -> None:
    world = World()
    world.store.full = True
    for turn in world.turns:
        async with turn.taken(0) as lost:
            assert lost is not None
            assert not lost.done()


async def test_one_that_waits_for_long_says_so(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.store.lease_grant(SNAPSHOT_LEASE, 60)
    for waited in (0, 119, 121, 126):
        async with world.turns[0].taken(waited) as lost:
            assert lost is None
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == 1
    assert warned[0].startswith("a snapshot has been due for 121 s, and waits for its turn")
    assert warned[0].endswith("by the lease 7a6b657463640001: etcdserver: lease already exists")


async def test_an_etcd_out_of_reach() -> None:
    world = World()
    world.etcds[0].unreachable = True
    async with world.turns[0].taken(0) as lost:
        assert lost is None
    world.etcds[0].unreachable = False
    async with world.turns[0].taken(0) as lost:
        assert lost is not None
        world.etcds[0].unreachable = True
    assert world.store.lease_ids == [SNAPSHOT_LEASE]  # until it runs out
