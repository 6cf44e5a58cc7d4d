"""Registering, staying alive, and the end of an incarnation."""

import asyncio
from collections.abc import AsyncIterator
from unittest import mock

import pytest

from lab.fakes import etcd_store
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient, Fate
from proxy.etcd.model import EtcdError, EtcdNoSpace, EtcdRefused, Put, RefusalKind, Txn, TxnResult
from proxy.log import status
from proxy.log.append import registration as module
from proxy.log.append.registration import Incarnation, Registration
from proxy.log.context import Context, LogSettings
from proxy.log.status import Stats
from proxy.state.capture import new_machine
from proxy.support.tasks import Tasks
from schema.keys import Keyspace
from schema.record import decode_proxy
from tests.proxy.log.proxies import until

KEYS = Keyspace("/t")


class World:
    def __init__(self) -> None:
        self.store = FakeEtcd()
        self.etcd = FakeEtcdClient(self.store)
        self.failures: list[EtcdError] = []
        self.tasks = Tasks()
        context = Context(self.etcd, KEYS, self.tasks, new_machine(0), Stats(), LogSettings(version="1"))
        self.record = 0
        self.registration = Registration(context, self.failures.append, lambda: self.record)

    @property
    def current(self) -> Incarnation:
        return self.registration.current

    def proxies(self) -> dict[bytes, int]:
        return {pair.key: pair.lease for pair in self.store.snapshot() if pair.key.startswith(KEYS.proxies)}

    def seconds_left(self) -> float:
        (lease,) = self.proxies().values()
        return self.store.seconds_left(lease)


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(module, "_PAUSE", 0.001)
    monkeypatch.setattr(module, "_FULL_PAUSE", 0.001)
    monkeypatch.setattr(status, "_KEEP_ALIVES", 500)
    world = World()
    yield world
    await world.tasks.close()


@pytest.fixture
async def registered(world: World) -> World:
    await world.registration.register()
    return world


async def test_a_key_on_a_lease(world: World) -> None:
    was_over = world.current.is_over
    incarnation = await world.registration.register()
    assert (was_over, incarnation.is_over) == (True, False)
    assert list(world.proxies()) == [KEYS.proxy(incarnation.name)]
    assert world.seconds_left() == incarnation.granted == 5
    (pair,) = world.store.snapshot()
    value = decode_proxy(pair.value)
    assert (pair.create_revision, value.version, value.lease) == (incarnation.revision, "1", 5)
    assert incarnation.keep_alive_sent > 0


async def test_the_key_names_the_lease_that_etcd_has_granted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can be longer than requested, since etcd's elections take longer."""
    monkeypatch.setattr(etcd_store, "_LEAST_TTL", 8)
    incarnation = await world.registration.register()
    (pair,) = world.store.snapshot()
    assert decode_proxy(pair.value).lease == incarnation.granted == 8


async def test_a_refused_registration_is_told_and_tried_again(world: World) -> None:
    refusal = EtcdRefused(RefusalKind.PERMISSION, "permission denied")
    with mock.patch.object(world.etcd, "txn", side_effect=refusal):
        registering = asyncio.get_running_loop().create_task(world.registration.register())
        await until(lambda: len(world.failures) > 1)
    await registering
    assert set(world.failures) == {refusal}
    assert list(world.proxies()) == [KEYS.proxy(world.current.name)]


async def test_nothing_registers_while_the_record_is_newer_than_what_the_stream_has_passed(
    world: World,
) -> None:
    revision = world.store.txn(Txn((), (Put(KEYS.tree, b"sealed, perhaps"),))).revision
    registering = asyncio.get_running_loop().create_task(world.registration.register())
    for _ in range(50):
        await asyncio.sleep(0.001)
    assert not world.proxies()
    world.record = revision
    await registering
    assert world.proxies()


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.ANSWER_LOST])
async def test_an_unknown_outcome_is_settled_by_sending_the_same_again(world: World, fate: Fate) -> None:
    world.etcd.fates.extend([fate, fate])
    await world.registration.register()
    (pair,) = world.store.snapshot()
    assert pair.key == KEYS.proxy(world.current.name)
    assert pair.create_revision == world.current.revision


async def test_a_lease_that_ran_out_meanwhile_is_replaced(world: World) -> None:
    world.etcd.fates.append(Fate.LOST)
    grant = world.etcd.lease_grant
    grants: list[int] = []

    async def note(lease_id: int, ttl: int, timeout: float = 5.0) -> int:
        granted = await grant(lease_id, ttl, timeout)
        grants.append(lease_id)
        if len(grants) == 1:
            world.store.lease_revoke(lease_id)
        return granted

    world.etcd.lease_grant = note  # type: ignore[method-assign]
    await world.registration.register()
    assert len(grants) == 2
    assert len(world.proxies()) == 1


async def test_a_key_that_went_while_it_was_put_is_the_end_of_the_incarnation(world: World) -> None:
    """The stream may show its deletion before etcd's answer to the Txn arrives."""
    registration = world.registration

    async def put_and_gone(txn: Txn, timeout: float) -> TxnResult:
        answer = await FakeEtcdClient.txn(world.etcd, txn, timeout)
        registration.key_gone(registration.current.name)
        return answer

    with mock.patch.object(world.etcd, "txn", put_and_gone):
        await registration.register()
    assert registration.current.is_over
    await asyncio.wait_for(registration.current.gone(), 1)
    await registration.register()
    assert not registration.current.is_over


async def test_a_full_etcd_is_reported_and_asked_again(world: World) -> None:
    world.store.full = True
    registering = world.tasks.start(world.registration.register(), "register")
    await until(lambda: sum(isinstance(error, EtcdNoSpace) for error in world.failures) > 1)
    with pytest.raises(EtcdNoSpace):
        world.store.lease_grant(1, 5)
    world.store.disarm()
    await registering
    assert len(world.proxies()) == 1


async def test_the_lease_is_kept_alive(registered: World) -> None:
    world = registered
    first = world.current.keep_alive_sent
    world.tasks.start(world.registration.keep_alive(bool), "keep alive")
    for _ in range(5):
        world.store.advance(4)
        await until(lambda: world.seconds_left() == 5)
    assert world.current.keep_alive_sent > first
    assert not world.current.is_over


async def test_a_proxy_that_is_cut_off_gives_up_its_lease(registered: World) -> None:
    """It cannot end its sessions: another proxy has to."""
    world = registered
    first = world.current.keep_alive_sent
    world.tasks.start(world.registration.keep_alive(lambda: True), "keep alive")
    for _ in range(2):
        await asyncio.sleep(0.05)
        world.store.advance(4)
    assert not world.proxies()
    assert world.current.keep_alive_sent == first


async def test_unanswered_keep_alives_do_not_count(registered: World) -> None:
    world = registered
    world.etcd.disconnect()
    first = world.current.keep_alive_sent
    world.tasks.start(world.registration.keep_alive(bool), "keep alive")
    await asyncio.sleep(0.1)
    assert world.current.keep_alive_sent == first


async def test_a_lease_that_is_gone_ends_the_incarnation(registered: World) -> None:
    registration, first = registered.registration, registered.current.name
    registration.key_gone("another")
    assert not registration.current.is_over, "the end of another incarnation says nothing"
    registered.tasks.start(registration.keep_alive(bool), "keep alive")
    registered.store.advance(10)
    await asyncio.wait_for(registration.current.until_over(), 5)
    await registration.revoke()
    await registration.register()
    assert registration.current.name != first
    assert not registration.current.is_over


async def test_while_it_registers_anew_the_keep_alives_of_the_former_incarnation_count(
    registered: World,
) -> None:
    former = registered.current
    registered.etcd.unreachable = True
    registered.tasks.start(registered.registration.register(), "register")
    await until(lambda: registered.current is not former)
    assert registered.current.keep_alive_sent == former.keep_alive_sent > 0
    assert registered.current.is_over


async def test_revoking_is_repeated_until_the_key_is_gone(registered: World) -> None:
    registered.etcd.unreachable = True
    revoking = registered.tasks.start(registered.registration.revoke(), "revoke")
    await asyncio.sleep(0.02)
    assert registered.proxies()
    assert not revoking.done()
    registered.etcd.unreachable = False
    await revoking
    assert not registered.proxies()
    with mock.patch.object(registered.etcd, "lease_revoke") as again:
        await registered.registration.retire()
    again.assert_not_called()


async def test_retiring_takes_the_key_away_if_etcd_answers(registered: World) -> None:
    for unreachable in (True, False):
        registered.etcd.unreachable = unreachable
        await registered.registration.retire()
        assert bool(registered.proxies()) is unreachable


async def test_a_late_answer_about_an_earlier_lease_ends_nothing() -> None:
    with mock.patch.object(FakeEtcdClient, "lease_keeper") as keeper:
        world = World()
    await world.registration.register()
    (answered, _), _ = keeper.call_args
    answered(1, 0)
    assert not world.current.is_over
