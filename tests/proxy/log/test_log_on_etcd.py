"""Whole proxies, without clients, on a real etcd: paused, full, with low limits, under random faults."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from codec.constants import ErrorCode
from lab.servers import EtcdServer
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import Delete, EtcdError, Get, Txn
from proxy.log.settings import LogSettings
from schema.keys import Keyspace
from tests.proxy.etcd.admin import compact, defragment, disarm
from tests.proxy.log.proxies import Proxy, Reply, answered, until

pytestmark = pytest.mark.real


@asynccontextmanager
async def proxies_on(
    server: EtcdServer, prefix: str, count: int, lease: int = 5
) -> AsyncIterator[list[Proxy]]:
    proxies = [
        Proxy(EtcdClient([server.endpoint]), prefix, LogSettings(lease_seconds=lease)) for _ in range(count)
    ]
    try:
        for proxy in proxies:
            await proxy.start()
        yield proxies
    finally:
        for proxy in proxies:
            await proxy.stop()
            await proxy.etcd.close()


async def level(proxies: list[Proxy]) -> None:
    """Everybody has applied everything, and agrees."""
    for proxy in proxies + proxies:
        await proxy.barrier()
    await until(lambda: len({proxy.log.machine.entries for proxy in proxies}) == 1)
    first = proxies[0].log.machine
    for proxy in proxies:
        machine = proxy.log.machine
        assert machine.compute_digest() == first.compute_digest()
        assert (machine.zxid, machine.applied) == (first.zxid, first.applied)


def check(proxies: list[Proxy]) -> None:
    """Each create took effect exactly once and in order, or was refused."""
    nodes = proxies[0].log.machine.tree.nodes
    for proxy in proxies:
        last: dict[int, int] = {}
        for reply in proxy.replies:
            assert reply.times == 1
            if not reply.path:
                continue
            assert (reply.path in nodes) == (reply.error == 0), (reply.path, reply.error)
            if reply.error == 0:
                assert nodes[reply.path].czxid == reply.zxid > last.get(reply.session_id, 0)
                last[reply.session_id] = reply.zxid


async def end_lease(proxy: Proxy, prefix: str) -> None:
    """As if the proxy's lease had run out."""
    key = Keyspace(prefix).proxy(proxy.log.incarnation)
    for pair in (await proxy.etcd.range(Get(key), 5)).kvs:
        try:
            await proxy.etcd.lease_revoke(pair.lease)
        except EtcdError:
            return  # it was gone already


@pytest.mark.parametrize("seed", range(3))
async def test_leases_that_end_at_random_moments(
    etcd_server: EtcdServer, etcd_prefix: str, seed: int
) -> None:
    chance = random.Random(seed)
    async with proxies_on(etcd_server, etcd_prefix, 3) as proxies:
        for index, proxy in enumerate(proxies):
            await answered([proxy.open(index + 1)])
        names = {proxy.log.incarnation for proxy in proxies}
        count = 0
        for _ in range(150):
            for _ in range(chance.randrange(8)):
                count += 1
                index = chance.randrange(3)
                proxies[index].create(index + 1, f"/x{count}")
            if chance.random() < 0.1:
                await end_lease(chance.choice(proxies), etcd_prefix)
            await asyncio.sleep(chance.choice((0, 0, 0.001, 0.005)))
        await answered([reply for proxy in proxies for reply in proxy.replies])
        await level(proxies)
        check(proxies)
        assert all(reply.error == 0 for proxy in proxies for reply in proxy.replies)
        assert names != {proxy.log.incarnation for proxy in proxies}


async def test_etcd_pauses_for_longer_than_the_lease(own_etcd_server: EtcdServer) -> None:
    """Appends time out and are sent again; leases may have run out when etcd comes back."""
    async with proxies_on(own_etcd_server, "/t", 2, lease=2) as proxies:
        one, two = proxies
        await answered([one.open(1), two.open(2)])
        replies: list[Reply] = []
        for number in range(3):
            replies.append(one.create(1, f"/xa{number}"))
            replies.append(two.create(2, f"/xb{number}"))
            await asyncio.sleep(0)
        own_etcd_server.pause()
        for number in range(3, 20):
            replies.append(one.create(1, f"/xa{number}"))
            replies.append(two.create(2, f"/xb{number}"))
            await asyncio.sleep(0.25)
        assert one.log.contact().silence > 3
        own_etcd_server.resume()
        await answered(replies)
        await level(proxies)
        check(proxies)
        assert all(reply.error == 0 for reply in replies)
        await until(lambda: one.log.staleness.serving and two.log.staleness.serving)
        assert one.log.stats.resent


async def test_etcd_is_killed_and_started_again(own_etcd_server: EtcdServer) -> None:
    async with proxies_on(own_etcd_server, "/t", 2) as proxies:
        one, two = proxies
        await answered([one.open(1), two.open(2)])
        replies: list[Reply] = []

        async def write() -> None:
            for number in range(200):
                replies.append(one.create(1, f"/xa{number}"))
                replies.append(two.create(2, f"/xb{number}"))
                await asyncio.sleep(0.005)

        writing = one.tasks.start(write(), "write")
        await asyncio.sleep(0.2)
        own_etcd_server.kill()
        await asyncio.sleep(0.3)
        await asyncio.to_thread(own_etcd_server.start)
        await writing
        await answered(replies)
        await level(proxies)
        check(proxies)
        assert all(reply.error == 0 for reply in replies)


@pytest.fixture
def small_etcd() -> Iterator[EtcdServer]:
    """An etcd that is soon full."""
    with EtcdServer("--quota-backend-bytes=4194304") as server:
        yield server


async def test_while_etcd_is_full_sessions_end_and_afterwards_all_is_well(small_etcd: EtcdServer) -> None:
    noise = random.Random(1).randbytes
    async with proxies_on(small_etcd, "/t", 2) as proxies:
        one, two = proxies
        await answered([one.open(1), two.open(2), one.open(3)])
        number = 0
        while not (one.log.status().is_full and two.log.status().is_full):
            for proxy, session in ((one, 1), (two, 2)):
                for _ in range(3):
                    number += 1
                    proxy.create(session, f"/x{number}", noise(60_000))
            await answered(one.replies + two.replies)
        ending = one.close(3)
        await answered([ending, one.create(1, "/xrefused")])
        assert ending.error == 0
        assert 3 not in one.log.machine.sessions
        # A lease that runs out cannot be replaced, and nothing is lost by that.
        old = one.log.incarnation
        await end_lease(one, "/t")
        await until(lambda: old in two.gone)
        later = two.close(2)
        await answered([later])
        assert later.error == 0
        status = await one.etcd.status()
        await asyncio.to_thread(compact, small_etcd.endpoint, status.revision)
        # What fills it is what the log holds; as after a truncation.
        await two.etcd.txn(_delete_log("/t", two), 5)
        status = await one.etcd.status()
        await asyncio.to_thread(compact, small_etcd.endpoint, status.revision)
        await asyncio.to_thread(defragment, small_etcd.endpoint)
        await asyncio.to_thread(disarm, small_etcd.endpoint)
        await until(lambda: one.log.incarnation != old)
        deadline = asyncio.get_running_loop().time() + 5
        while True:
            number += 1
            tried = one.create(1, f"/y{number}")
            await answered([tried])
            if tried.error == 0:
                break
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.1)
        await until(lambda: not one.log.status().is_full)
        await level(proxies)
        check(proxies)


def _delete_log(prefix: str, proxy: Proxy) -> Txn:
    keys = Keyspace(prefix)
    applied = proxy.log.machine.applied
    return Txn(
        (),
        [
            Delete(keys.entry(incarnation, 1), keys.entry(incarnation, number + 1))
            for incarnation, number in applied.items()
        ],
    )


async def test_an_etcd_with_a_low_limit_of_requests() -> None:
    noise = random.Random(1).randbytes
    with EtcdServer("--max-request-bytes=100000") as server:
        async with proxies_on(server, "/t", 2) as proxies:
            one, two = proxies
            await answered([one.open(1), two.open(2)])
            large, other = one.create(1, "/xl", noise(200_000)), two.create(2, "/xo", noise(50_000))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            small = one.create(1, "/xs")
            await answered([large, other, small])
            assert (large.error, other.error, small.error) == (ErrorCode.BAD_ARGUMENTS, 0, 0)
            replies = [one.create(1, f"/x{number}", noise(40_000)) for number in range(10)]
            await answered(replies)
            replies += [one.create(1, f"/x{number + 10}", noise(40_000)) for number in range(10)]
            await answered(replies)
            assert replies[-1].error == 0
            await level(proxies)
            check(proxies)
