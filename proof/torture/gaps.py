"""`python -m proof.torture.gaps`: for how long clients cannot write while a member of etcd hangs.

Three members of etcd and one or more proxies on this machine, as in `proof.torture`. Clients write through
each proxy, and a writer puts keys at each member, past zketcd. One member is disturbed for some seconds. The
longest time without a completed write is printed for both: zketcd's should be at most a second above etcd's.
A client of one more proxy only waits for watch events: for at most two seconds longer.
"""

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from lab.client import requests as zk
from lab.client.session import Address, ConnectionLost, Session
from lab.servers import BinaryMissing, StartFailed
from lab.servers.operator import etcdctl
from lab.servers.relay import Quality
from proof.gap_options import gap_parser, kinds_of
from proof.gaps import Gap, line, measured, table
from proof.torture.acts import stutter
from proof.torture.cluster import Cluster, Member
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import EtcdError, Put, Txn
from proxy.support.stdout import guarded

_INTERVAL = 0.05  # seconds between two writes of a writer
_OUTSTANDING = 200  # requests of one client
_DIRECT_TIMEOUT = 6.0
_SETTLE = 3.0  # seconds between the end of a fault and the next one
_PATH = "/gaps"


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
                    await asyncio.sleep(2 * _INTERVAL)
        finally:
            for client in self._clients:
                await client.close()

    async def _put(self, client: EtcdClient, key: bytes) -> None:
        with contextlib.suppress(EtcdError):
            await client.txn(Txn((), (Put(key, b"x"),)), _DIRECT_TIMEOUT)
            self.times.append(time.monotonic())


class Clients:
    """Write all the time, and note when each write was completed; one waits for watch events."""

    def __init__(self, cluster: Cluster) -> None:
        self.direct = DirectWriter([member.endpoint for member in cluster.members])
        # The last proxy has no client that writes, so nothing that it sends shows that its watch hangs.
        *self._ports, self._quiet = cluster.ports.values()
        self._running: list[asyncio.Task[None]] = []
        #: By client: the monotonic time of each write through a proxy.
        self.writers: list[list[float]] = [[] for _ in self._ports]
        #: That of each watch event.
        self.events: list[float] = []

    async def start(self) -> None:
        """Begin, and wait for the first writes and event."""
        work = [self._write(number) for number in range(len(self._ports))]
        work += [self._listen(), self.direct.run()]
        loop = asyncio.get_running_loop()
        self._running = [loop.create_task(each) for each in work]
        async with asyncio.timeout(60):
            while not (self.direct.times and self.events and all(self.writers)):  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def stop(self) -> None:
        """End all."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _write(self, number: int) -> None:
        address = Address("127.0.0.1", self._ports[number])
        times = self.writers[number]
        waiting: set[asyncio.Future[object]] = set()

        def written(answer: asyncio.Future[object]) -> None:
            waiting.discard(answer)
            if not answer.cancelled() and answer.exception() is None:
                times.append(time.monotonic())

        while True:
            with contextlib.suppress(ConnectionLost, OSError):
                session = await Session.open(address, timeout_ms=10_000, operation_timeout_s=4)
                with contextlib.suppress(Exception):
                    await session.call(zk.create(f"{_PATH}{number}", b""))
                while not session.lost.is_set():
                    if len(waiting) < _OUTSTANDING:
                        answer: asyncio.Future[object] = session.send(zk.set_data(f"{_PATH}{number}", b"x"))
                        waiting.add(answer)
                        answer.add_done_callback(written)
                    await asyncio.sleep(_INTERVAL)
            waiting.clear()
            await asyncio.sleep(0.1)

    async def _listen(self) -> None:
        """Watch the node that the first client writes."""
        address = Address("127.0.0.1", self._quiet)
        while True:
            with contextlib.suppress(ConnectionLost, OSError):
                session = await Session.open(address, timeout_ms=10_000, operation_timeout_s=4)
                while not session.lost.is_set():
                    _, watch = await session.watched(zk.exists(f"{_PATH}0"))
                    await watch.wait()
                    if watch.event is not None:
                        self.events.append(time.monotonic())
            await asyncio.sleep(0.1)


class Disturbances:
    """Begins a fault; returns what ends it."""

    def __init__(self, cluster: Cluster, chance: random.Random) -> None:
        self._cluster = cluster
        self._random = chance

    def begin(self, kind: str) -> Callable[[], None]:
        """Blocks for a moment."""
        member = self._follower() if "follower" in kind or kind == "one-way" else self._leader()
        if kind.startswith("stop"):
            os.kill(member.pid, signal.SIGSTOP)
            return partial(os.kill, member.pid, signal.SIGCONT)
        if kind.startswith("slow"):
            return stutter(member)
        cluster = self._cluster
        if kind.startswith("isolate"):
            others = [other for other in cluster.members if other is not member]
            there, back = cluster.peers(member, others)
            ways = [*there, *back]
        else:
            ways = [way for proxy in cluster.proxies for way in cluster.between(proxy, [member])[1]]
        cluster.relays.change(dict.fromkeys(ways, Quality(stopped=True)))
        return partial(cluster.relays.change, dict.fromkeys(ways, Quality()))

    def _leader(self) -> Member:
        while True:
            leader = self._cluster.leader()
            if leader is not None:
                return leader

    def _follower(self) -> Member:
        """One with the watch of a proxy, of the most proxies; leadership moves if only the leader has one."""
        members = list(self._cluster.members)
        self._random.shuffle(members)
        leader = self._leader()
        watches = {member: member.metric("etcd_debugging_mvcc_watcher_total") for member in members}
        follower = max(members, key=lambda member: (watches[member], member is not leader))
        if follower is leader:
            new = next(member for member in members if member is not follower)
            etcdctl(leader, "move-leader", new.id)
        return follower


async def measure(cluster: Cluster, kinds: Sequence[str], seconds: float, chance: random.Random) -> list[Gap]:
    """One fault of each kind, for so many seconds; prints each as it is over."""
    clients = Clients(cluster)
    disturbances = Disturbances(cluster, chance)
    found = []
    await clients.start()
    try:
        for kind in kinds:
            await asyncio.sleep(_SETTLE)
            began = time.monotonic()
            logged = [len(proxy.whole_log()) for proxy in cluster.proxies]
            end = await asyncio.to_thread(disturbances.begin, kind)
            await asyncio.sleep(seconds)
            await asyncio.to_thread(end)
            await asyncio.sleep(_SETTLE)
            span = (began, time.monotonic())
            gap = measured(kind, span, clients.direct.times, clients.writers, clients.events)
            found.append(gap)
            print(line(gap), flush=True)
            if not gap.is_within:
                for proxy, start in zip(cluster.proxies, logged, strict=True):
                    print(f"the messages of {proxy.host}:\n{proxy.whole_log()[start:]}", flush=True)
    finally:
        await clients.stop()
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; 0 whatever the figures are."""
    parser = gap_parser("python -m proof.torture.gaps", __doc__, times=1, seed="of the order")
    given = parser.parse_args(arguments)
    chance = random.Random(given.seed)
    kinds = kinds_of(parser, given.kinds) * given.times
    chance.shuffle(kinds)
    try:
        with Cluster(given.proxies + 1) as cluster:
            gaps = asyncio.run(measure(cluster, kinds, given.seconds, chance))
    except (BinaryMissing, StartFailed, TimeoutError, OSError) as error:
        print(f"proof.torture.gaps: cannot run: {error}", file=sys.stderr)
        return 2
    print(*table(gaps), sep="\n")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(guarded(main, "proof.torture.gaps", failed=2))
