"""A member of etcd is killed, or stopped: then it keeps its connections. Clients soon write again."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import pytest

from lab.servers import wait_until
from lab.servers.clusters import Cluster, Member, running_cluster
from proof.torture.availability import longest_gap
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import EtcdError, Put, Txn
from tests.faults.conftest import Start
from tests.faults.workers import BUSY, Threads
from tests.faults.writers import Writers

#: Seconds that clients may wait longer than etcd's own. One is what is aimed at; a watch that only
#: `--max-staleness` replaces costs five.
_LONGER = 3.0
_INTERVAL = 0.1  # seconds between two writes to etcd
_DIRECT_TIMEOUT = 6.0


class DirectWriter:
    """Puts keys at each member of etcd all the time, past zketcd."""

    def __init__(self, endpoints: Sequence[str]) -> None:
        self._clients = [EtcdClient([endpoint]) for endpoint in endpoints]
        #: The monotonic time in seconds of each completed write.
        self.times: list[float] = []

    async def run(self) -> None:
        """Write until cancelled. A member that does not answer holds no later write up."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    for number, client in enumerate(self._clients):
                        group.create_task(self._put(client, b"/direct/%d" % number))
                    await asyncio.sleep(_INTERVAL)
        finally:
            for client in self._clients:
                await client.close()

    async def _put(self, client: EtcdClient, key: bytes) -> None:
        with suppress(EtcdError):
            await client.txn(Txn((), (Put(key, b"x"),)), _DIRECT_TIMEOUT)
            self.times.append(time.monotonic())


@pytest.mark.parametrize("proxies", [1, 3])
def test_writes_go_on_soon_while_a_member_is_away(start: Start, proxies: int) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster())
        members = cluster.members
        ports = []
        for number in range(proxies):
            order = [*members[number:], *members[:number]]
            ports.append(start(",".join(member.endpoint for member in order), proxy_lease=10).port)
        direct = stack.enter_context(_directly(cluster))
        writers = stack.enter_context(Writers(*ports, count=proxies))
        for role in ("stopped follower", "stopped leader", "killed leader"):
            calm = writers.calm()
            member = _watched_follower(cluster) if role == "stopped follower" else cluster.leader()
            began = time.monotonic()
            end, begin = (member.kill, member.start) if "killed" in role else (member.pause, member.resume)
            end()
            try:
                writers.progress()
                ended = time.monotonic()
            finally:
                begin()
            longer = ended - began - longest_gap(direct.times, began, ended)
            # If the machine is busy now, though it was not before, all takes longer as well.
            longest = _LONGER + BUSY * max(calm, writers.calm())
            assert longer < longest, f"the {role}: no write for {longer:.1f} s longer than etcd"
        writers.verify()  # none lost, none doubled, and no connection closed


@contextmanager
def _directly(cluster: Cluster) -> Iterator[DirectWriter]:
    """A client of etcd itself, which writes all the time in a thread."""
    made: list[DirectWriter] = []

    async def write() -> None:
        made.append(DirectWriter([member.endpoint for member in cluster.members]))
        writing = asyncio.ensure_future(made[0].run())
        while not threads.over.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing

    threads = Threads([lambda: asyncio.run(write())])
    with threads:
        wait_until(lambda: bool(made and made[0].times), "a write to etcd")
        yield made[0]


def _watched_follower(cluster: Cluster) -> Member:
    """A follower at which a proxy has its watch, if there is one."""
    leader = cluster.leader()
    followers = [member for member in cluster.members if member is not leader]
    return max(followers, key=lambda member: member.metric("etcd_debugging_mvcc_watcher_total"))
