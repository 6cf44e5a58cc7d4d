"""Sessions come over as leases with records that know ZooKeeper's password."""

import asyncio

import pytest

from pipeline.etcd.limits import Limits
from pipeline.etcd.load import begin
from pipeline.etcd.passwords import password_of
from pipeline.etcd.sessions import carry_over, hold, record_of, taken_leases
from pipeline.table import SessionRow
from proxy.etcd.model import EtcdRefused, Lease, Put, RefusalKind, Txn
from proxy.sessions import hash_of
from schema.keys import Keyspace
from schema.values import decode_session
from tests.fakes.etcd import FakeEtcd, FakeEtcdClient

KEYS = Keyspace("/t")
SESSIONS = [SessionRow(0x100000001, 6000), SessionRow(-5, 30000)]


def test_a_record_knows_the_password() -> None:
    value = decode_session(record_of(SESSIONS[1]))
    assert value.password_hash == hash_of(password_of(-5))
    assert value.timeout_ms == 30000


async def test_a_session_hangs_on_a_lease_of_its_id() -> None:
    etcd = FakeEtcdClient(FakeEtcd())
    for _run in range(2):  # a second import finds the leases of the first
        fence = await begin(etcd, KEYS)
        assert await taken_leases(etcd, KEYS, SESSIONS) == []
        await carry_over(etcd, KEYS, fence, SESSIONS, Limits())
    lease = await etcd.lease_time_to_live(-5)
    assert (lease.granted_ttl, lease.keys) == (40, [KEYS.session(-5)])
    etcd.store.advance(10)
    assert [key for key in (pair.key for pair in etcd.store.snapshot()) if b"session" in key] == [
        KEYS.session(-5)
    ]


async def test_a_lease_of_another_tree_is_told() -> None:
    etcd = FakeEtcdClient(FakeEtcd())
    await etcd.lease_grant(-5, 10)
    await etcd.txn(Txn((), (Put(b"/other/session/x", b"", -5),)), 1)
    assert await taken_leases(etcd, KEYS, SESSIONS) == [-5]


async def test_sessions_are_held_until_a_server_comes() -> None:
    etcd = FakeEtcdClient(FakeEtcd())
    fence = await begin(etcd, KEYS)
    await carry_over(etcd, KEYS, fence, SESSIONS, Limits())
    holding = asyncio.get_running_loop().create_task(hold(etcd, KEYS, SESSIONS, 60))
    await asyncio.sleep(0)
    etcd.store.advance(5)
    await etcd.txn(Txn((), (Put(KEYS.proxy("p"), b""),)), 1)
    assert await holding
    assert not await hold(etcd, Keyspace("/u"), SESSIONS, 0)


async def test_a_refusal_comes_as_it_is() -> None:
    """Not in a group of exceptions, which no command tells its user."""

    class Refusing(FakeEtcdClient):
        async def lease_time_to_live(self, lease_id: int, timeout: float = 5.0) -> Lease:
            raise EtcdRefused(RefusalKind.PERMISSION, "etcdserver: permission denied")

        async def lease_grant(self, lease_id: int, ttl: int, timeout: float = 5.0) -> int:
            raise EtcdRefused(RefusalKind.PERMISSION, "etcdserver: permission denied")

    etcd = Refusing(FakeEtcd())
    with pytest.raises(EtcdRefused):
        await taken_leases(etcd, KEYS, SESSIONS)
    with pytest.raises(EtcdRefused):
        await carry_over(etcd, KEYS, await begin(etcd, KEYS), SESSIONS, Limits())
