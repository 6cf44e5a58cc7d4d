"""The clock of the sessions, on a fake etcd and with times that the test gives."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from codec.jute import Acl
from proxy.etcd.model import Delete, EtcdRefused, EtcdUnknown, Put, Txn
from proxy.leases import Leases, grant
from proxy.sessions import Session, Sessions
from proxy.tasks import Tasks
from tests.fakes.etcd import FakeEtcdClient
from tests.proxy.world import INCARNATION, KEYS, Proxy, Store


class Connection:
    session_id = 1

    def __init__(self) -> None:
        self._closed = False
        self.is_held_up = False

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True

    def notify(self, kind: int, path: str, zxid: int, acl: Sequence[Acl]) -> None:
        raise AssertionError("nobody watches here")


class Clock:
    """Leases over one session with a 4 s timeout and a connection."""

    def __init__(self) -> None:
        self.store = Store([1])
        self.proxy = Proxy(self.store)
        self.client = FakeEtcdClient(self.store)
        self.sessions = Sessions(1000, 10000)
        self.session = Session(1, 4000, 0.0)
        self.connection = Connection()
        self.session.connection = self.connection
        self.sessions.add(self.session)
        self.expired: list[int] = []
        self.tasks = Tasks()
        self.leases = Leases(
            self.client,
            KEYS,
            self.proxy.mirror,
            self.sessions,
            INCARNATION,
            2000,
            lambda session: self.expired.append(session.id),
            self.tasks,
        )

    async def tick(self, now: float, *, heard_of_etcd: bool = True, stalled: bool = False) -> None:
        """One look at the sessions; etcd has answered just now, or not since the start."""
        if heard_of_etcd:
            self.client.last_contact = now
        self.leases._look(now, stalled=stalled)
        await asyncio.sleep(0)


@pytest.fixture
async def clock() -> AsyncIterator[Clock]:
    clock = Clock()
    yield clock
    await clock.tasks.close()


async def test_a_silent_client_expires_once(clock: Clock) -> None:
    await clock.tick(3.9)
    assert clock.expired == []
    await clock.tick(4.0)
    await clock.tick(4.5)
    assert clock.expired == [1]
    assert clock.session.ending


async def test_a_client_that_is_not_listened_to_does_not_expire(clock: Clock) -> None:
    clock.connection.is_held_up = True
    await clock.tick(9.0)
    assert clock.expired == []
    clock.connection.is_held_up = False
    await clock.tick(9.5)
    assert clock.expired == [1]


async def test_a_client_that_is_heard_does_not_expire(clock: Clock) -> None:
    for now in (1.0, 3.0, 5.0, 7.0, 9.0):
        clock.session.heard = now
        await clock.tick(now + 1.5)
    assert clock.expired == []


async def test_the_lease_of_a_living_client_is_renewed(clock: Clock) -> None:
    lease = clock.store._leases[1]
    for second in range(1, 30):
        clock.store.advance(1)
        clock.session.heard = float(second)
        await clock.tick(float(second))
    assert lease.expires > clock.store.now + 900


async def test_the_lease_of_a_silent_client_is_not_renewed_for_ever(clock: Clock) -> None:
    await clock.tick(4.0)
    kept = clock.session.kept_alive
    await clock.tick(50.0)
    assert clock.session.kept_alive == kept


async def test_after_a_pause_of_the_process_clients_are_heard_first(clock: Clock) -> None:
    await clock.tick(10.0, stalled=True)
    assert clock.expired == []
    await clock.tick(10.5)
    assert clock.expired == [1]


async def test_while_etcd_is_out_of_reach_no_session_expires_but_its_connection_closes(clock: Clock) -> None:
    await clock.tick(3.5, heard_of_etcd=False)
    assert not clock.connection.is_closed()
    await clock.tick(4.5, heard_of_etcd=False)
    assert clock.expired == []
    assert clock.connection.is_closed()
    # When it is back, every client has its whole timeout to return.
    await clock.tick(60.0)
    assert clock.expired == []
    await clock.tick(63.9)
    assert clock.expired == []
    await clock.tick(64.0)
    assert clock.expired == [1]


async def test_registering_makes_the_proxy_known_under_a_lease(clock: Clock) -> None:
    await clock.leases.register()
    (found,) = (kv for kv in clock.store.snapshot() if kv.key == KEYS.proxy(INCARNATION))
    assert found.lease != 0
    for second in range(1, 60):
        clock.store.advance(1)
        clock.session.heard = float(second)
        await clock.tick(float(second))
    assert clock.store.range_now(KEYS.proxy(INCARNATION)) == found.mod_revision


async def test_a_proxy_whose_lease_ran_out_registers_again(clock: Clock) -> None:
    await clock.leases.register()
    clock.store.advance(100)
    assert not clock.store.range_now(KEYS.proxy(INCARNATION))
    await clock.tick(2.0)
    async with asyncio.timeout(10):
        while not clock.store.range_now(KEYS.proxy(INCARNATION)):  # noqa: ASYNC110 - etcd in memory has no event
            await asyncio.sleep(0.001)


async def test_sweeping_takes_the_markers_of_the_dead_alone(clock: Clock) -> None:
    markers = [KEYS.marker(name, 1) for name in (INCARNATION, "living", "dead")]
    clock.store.txn(Txn((), [Put(key, b"") for key in markers] + [Put(KEYS.proxy("living"), b"")]))
    clock.proxy.catch_up()
    await clock.leases.sweep()
    assert [bool(clock.store.range_now(key)) for key in markers] == [True, True, False]


async def test_retiring_takes_all_that_is_the_proxys_own(clock: Clock) -> None:
    await clock.leases.register()
    clock.store.txn(Txn((), (Put(KEYS.marker("other", 1), b""),)))
    clock.proxy.catch_up()
    await clock.leases.retire()
    left = {kv.key for kv in clock.store.snapshot()}
    assert KEYS.proxy(INCARNATION) not in left
    assert KEYS.marker(INCARNATION, 1) not in left
    assert KEYS.marker("other", 1) in left
    assert KEYS.session(1) in left


async def test_a_lease_is_granted_or_taken(clock: Clock) -> None:
    assert await grant(clock.client, 5, 10)
    assert not await grant(clock.client, 5, 10)
    assert not await grant(clock.client, 1, 10)
    clock.client.unreachable = True
    with pytest.raises(EtcdUnknown):
        await grant(clock.client, 6, 10)


async def test_retiring_with_a_lease_that_is_gone_says_so(clock: Clock) -> None:
    await clock.leases.register()
    clock.store.advance(100)
    clock.store.txn(Txn((), (Delete(KEYS.marker(INCARNATION, 1)),)))
    with pytest.raises(EtcdRefused):
        await clock.leases.retire()
