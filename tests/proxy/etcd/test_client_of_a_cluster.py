"""The client on three real etcds, by each transport: members that stop, end, or are alone."""

import asyncio
import itertools
from collections.abc import Sequence

import pytest

from lab.servers import EtcdServer, eventually
from lab.servers.clusters import running_cluster
from proxy.etcd.interface import Etcd
from proxy.etcd.model import Compare, EtcdUnknown, Get, Put, Txn
from tests.proxy.etcd.clients import KEY, LONG, connected, put, try_until_it_works, until_broken
from tests.proxy.etcd.watching import watching

pytestmark = [pytest.mark.usefixtures("transport"), pytest.mark.real]


async def _leader_first(servers: Sequence[EtcdServer]) -> list[str]:
    """The endpoints, of the leader first."""
    endpoints = [server.endpoint for server in servers]

    async def leading() -> str:
        for endpoint in endpoints:
            async with connected(endpoint) as client:
                await try_until_it_works(client, put())
                status = await client.status()
                if status.member_id == status.leader:
                    return endpoint
        return ""  # on a busy machine the leader may change meanwhile

    leader = await eventually(leading, "one of them leads")
    return sorted(endpoints, key=lambda endpoint: endpoint != leader)


async def test_fail_over_and_the_loss_of_the_leader() -> None:
    with running_cluster() as cluster:
        servers = cluster.members
        endpoints = [server.endpoint for server in servers]
        async with connected(*endpoints) as client:
            await try_until_it_works(client, put())
            used = next(server for server in servers if server.address == client.endpoint)
            watch = watching(client, KEY, b"", 0)
            await anext(watch)
            used.kill()
            assert isinstance(await until_broken(watch), EtcdUnknown)
            await try_until_it_works(client, put())
            used.start()
            # A member that is alone says so, instead of keeping the watch open in silence.
            alone = next(server for server in servers if server.address == client.endpoint)
            await try_until_it_works(client, put())
            watch = watching(client, KEY, b"", 0)
            await anext(watch)
            alone = next(server for server in servers if server.address == client.endpoint)
            for server in servers:
                if server is not alone:
                    server.kill()
            async with asyncio.timeout(2 * LONG):
                assert isinstance(await until_broken(watch), EtcdUnknown)
            assert alone.alive
            with pytest.raises(EtcdUnknown):
                await client.txn(put(), 2.0)


def _append(number: int) -> Txn:
    """A Txn that may be sent any number of times: it puts its key once."""
    key = b"/log/%d" % number
    return Txn([Compare(key, 0)], [Put(key, b"entry")], [Get(key)])


async def _append_until_known(client: Etcd, number: int, timeout: float) -> int:
    """Send the same Txn again until it is answered, as the log does (rule 2.2); how often it was sent."""
    for attempt in itertools.count(1):
        try:
            await client.txn(_append(number), timeout)
        except EtcdUnknown:
            continue
        return attempt
    raise AssertionError


@pytest.mark.parametrize("leads", [False, True])
async def test_a_stopped_member_delays_appends_by_one_timeout_or_by_an_election(leads: bool) -> None:
    """Each Txn whose outcome is unknown is settled by the same Txn at another member, and done once."""
    with running_cluster() as cluster:
        servers = cluster.members
        endpoints = await _leader_first(servers)
        async with connected(*endpoints[:: 1 if leads else -1]) as client, asyncio.timeout(4 * LONG):
            stopped = next(server for server in servers if server.address == client.endpoint)
            watch = watching(client, b"/log/", b"/log0", 0)
            await anext(watch)
            assert not client.watched_member_is_suspect()
            stopped.pause()
            # All that are in flight time out together: the client moves on once, not once for each. The
            # members that are left answer in time, also on a busy machine, unless they have to elect.
            timeout = 1.0 if leads else 4.0
            sent = await asyncio.gather(
                *(_append_until_known(client, number, timeout) for number in range(8))
            )
            assert leads or sent == [2] * 8
            assert client.endpoint != stopped.address
            assert client.watched_member_is_suspect()
            stopped.resume()
            # The watch at that member still works, though Txns of its connection were reset.
            seen: list[bytes] = []
            while len(seen) < 8:
                seen += [event.kv.key for event in (await anext(watch)).events]
            await watch.aclose()
            assert sorted(seen) == [b"/log/%d" % number for number in range(8)]
            # What was sent to the stopped member and was let through late has changed nothing.
            kvs = (await client.range(Get(b"/log/", b"/log0"), LONG)).kvs
            assert [kv.version for kv in kvs] == [1] * 8
