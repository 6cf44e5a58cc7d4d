"""`python -m proof.simulation.gaps`: for how long clients cannot write while a member of etcd hangs.

Clients write through each simulated proxy, and a writer puts keys at each member, past zketcd. Each world has
one fault of each kind, as `proof.torture.gaps` has them on real processes. The longest time without a
completed write is compared with etcd's own: zketcd's should be at most a second above it, in 95 of 100 faults
of each kind. A client of one more proxy only waits for watch events: for at most two seconds longer. The exit
code is 1 if more are longer.
"""

import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from typing_extensions import override

from codec.constants import Xid
from codec.framing import Framer
from lab.client import requests as zk
from proof.gap_options import gap_parser, kinds_of
from proof.gaps import Gap, line, measured, table, too_long
from proof.simulation import seams
from proof.simulation.environment import SimulatedClock
from proof.simulation.etcd import Cluster, Member
from proof.simulation.etcd_channel import Channel
from proof.simulation.knobs import usual
from proof.simulation.network import Network
from proof.simulation.proxies import Proxy, config
from proof.simulation.transports import Transport
from proof.simulation.world import Host, World
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import EtcdError, Put, Txn
from proxy.support.stdout import guarded

_INTERVAL = 0.05  # seconds between two writes of a client
_OUTSTANDING = 200  # requests of one client
_DIRECT_TIMEOUT = 6.0
_SETTLE = 3.0  # seconds between the end of a fault and the next one
_START = 120.0  # seconds at most until all write
_SLOW = 0.15  # seconds at most that a slow member's messages and commits take longer
_MAX_FRAME = 1 << 20


class _Client:
    """Connected to one proxy all the time. A subclass says what it does there."""

    def __init__(self, world: World, host: Host, proxy: Proxy) -> None:
        self._world = world
        self._host = host
        self._proxy = proxy
        self._transport: Transport | None = None
        self._framer = Framer(_MAX_FRAME)
        self._sent = self._answered = 0
        self._connected = False
        #: When what it waits for came, in the world's time.
        self.times: list[float] = []

    def work(self) -> None:
        """Send the next request; for ever."""
        self._host.call_later(_INTERVAL, self.work)
        if self._transport is None:
            self._connect()
        elif self._connected and self._sent - self._answered < _OUTSTANDING:
            self._send(self._next())

    def _first(self) -> zk.Request[Any]:
        """The first request of a connection."""
        raise NotImplementedError

    def _next(self) -> zk.Request[Any]:
        """Another request."""
        raise NotImplementedError

    def _counts(self, header: zk.Header) -> bool:
        """Whether it has waited for a packet with this header."""
        raise NotImplementedError

    def _connect(self) -> None:
        self._framer = Framer(_MAX_FRAME)
        self._sent = self._answered = 0
        self._connected = False
        transport = self._proxy.accept("client", self._host, lambda data: self._came(transport, data))
        self._transport = transport
        if transport is not None:
            transport.give(zk.connect(10_000, 0, 0, bytes(16)))

    def _send(self, request: zk.Request[Any]) -> None:
        assert self._transport is not None
        self._sent += 1
        self._transport.give(zk.packet(self._sent, request))

    def _came(self, transport: Transport | None, data: bytes | None) -> None:
        if transport is not self._transport:
            return
        if data is None:
            self._transport = None
            return
        for frame in self._framer.feed(data):
            if not self._connected:
                self._connected = True
                self._send(self._first())
                continue
            header = zk.header(frame)
            self._answered += header.xid > 0
            if self._counts(header):
                self.times.append(self._world.now)


class _Writer(_Client):
    """Sets a node all the time."""

    @property
    def _path(self) -> str:
        return f"/gaps-{self._proxy.name}"

    @override
    def _first(self) -> zk.Request[Any]:
        return zk.create(self._path)

    @override
    def _next(self) -> zk.Request[Any]:
        return zk.set_data(self._path, b"x")

    @override
    def _counts(self, header: zk.Header) -> bool:
        return not header.error


class _Listener(_Client):
    """Waits for watch events of what others write, and keeps its session alive by reads."""

    @override
    def _first(self) -> zk.Request[Any]:
        return zk.add_watch("/", recursive=True)

    @override
    def _next(self) -> zk.Request[Any]:
        return zk.get("/")

    @override
    def _counts(self, header: zk.Header) -> bool:
        return header.xid == Xid.NOTIFICATION


def _fail(what: str) -> None:
    raise RuntimeError(what)


class _System:
    """A cluster, proxies, and all that write."""

    def __init__(self, seed: int, proxies: int) -> None:
        self.world = World(seed)
        self.world.on_error = _fail
        self.network = Network(self.world)
        self.cluster = Cluster(self.world, self.network)
        self._random = self.world.random("gaps")
        self.knobs = usual(seed, proxies)
        settings = config(self.knobs)
        self.proxies = [Proxy(self.cluster, f"proxy{number}", settings) for number in range(1, proxies + 1)]
        clients = Host(self.world, "clients")
        self.writers = [_Writer(self.world, clients, proxy) for proxy in self.proxies]
        # Its proxy has no other client, so nothing that this proxy sends shows that its watch hangs.
        self.proxies.append(Proxy(self.cluster, "listener", settings))
        self.listener = _Listener(self.world, clients, self.proxies[-1])
        self._clients: list[_Client] = [*self.writers, self.listener]
        for client in self._clients:
            clients.call_soon(client.work)
        #: When each write to etcd was completed.
        self.etcd: list[float] = []
        self._direct = Host(self.world, "direct")
        for member in self.cluster.members:
            key = f"/direct/{member.name}".encode()
            self._direct.call_soon(self._write_directly, self._client_of(member), key)

    def _client_of(self, member: Member) -> EtcdClient:
        host = self._direct

        def connect(_name: str, _port: int, _tls: object) -> Channel:
            return Channel(self.cluster, host, member)

        return EtcdClient([member.name], connect=connect, clock=SimulatedClock(host))

    def _write_directly(self, client: EtcdClient, key: bytes) -> None:
        async def once() -> None:
            with suppress(EtcdError):
                await client.txn(Txn((), (Put(key, b"x"),)), _DIRECT_TIMEOUT)
                self.etcd.append(self.world.now)

        self._direct.create_task(once())
        self._direct.call_later(2 * _INTERVAL, self._write_directly, client, key)

    def start(self) -> None:
        """Start the proxies, until all write."""
        for proxy in self.proxies:
            proxy.start()
        while not (self.etcd and all(client.times for client in self._clients)):
            if self.world.now > _START:
                raise RuntimeError("not every client can write, or gets events")
            self.world.run(self.world.now + 0.1)

    def measure(self, kind: str, seconds: float) -> Gap:
        """One fault, for so long."""
        world = self.world
        world.run(world.now + _SETTLE)
        began = world.now
        end = self._begin(kind)
        world.run(world.now + seconds)
        end()
        world.run(world.now + _SETTLE)
        writers = [writer.times for writer in self.writers]
        return measured(kind, (began, world.now), self.etcd, writers, self.listener.times)

    def stop(self) -> None:
        """End everything."""
        for proxy in self.proxies:
            proxy.kill()
        for host in (self._direct, self.cluster.host):
            host.kill()

    def _begin(self, kind: str) -> Callable[[], None]:
        """Begin a fault; returns what ends it."""
        cluster, network = self.cluster, self.network
        member = self._follower() if "follower" in kind or kind == "one-way" else self._leader()
        if kind.startswith("stop"):
            cluster.pause(member)
            return partial(cluster.resume, member)
        if kind.startswith("isolate"):
            cluster.isolate(member)
            return partial(cluster.rejoin, member)
        if kind.startswith("one-way"):
            pairs = [(member.name, proxy.name) for proxy in self.proxies]
            network.cut(pairs)
            return partial(network.mend, pairs)
        network.slow(member.name, _SLOW)
        cluster.troubles.slow_disk = _SLOW if kind == "slow-leader" else 0.0

        def end() -> None:
            network.slow(member.name, 0.0)
            cluster.troubles.slow_disk = 0.0

        return end

    def _leader(self) -> Member:
        while self.cluster.leader is None:
            self.world.run(self.world.now + 0.1)
        return self.cluster.leader

    def _follower(self) -> Member:
        """One with the watch of a proxy, of the most proxies; leadership moves if only the leader has one."""
        cluster = self.cluster
        watched = [watch.member for watch in cluster.watches]
        members = list(cluster.members)
        self._random.shuffle(members)
        follower = max(members, key=lambda member: (watched.count(member), member is not cluster.leader))
        if follower is self._leader():
            cluster.leader = next(member for member in members if member is not follower)
        return follower


def gaps_of(seed: int, proxies: int, kinds: Sequence[str], seconds: float = 8.0) -> list[Gap]:
    """One fault of each of these kinds, in an order by the seed, in a world of its own."""
    system = _System(seed, proxies)
    order = list(kinds)
    system.world.random("order").shuffle(order)
    with seams.installed(system.world, system.knobs):
        try:
            system.start()
            return [system.measure(kind, seconds) for kind in order]
        finally:
            system.stop()


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = gap_parser("python -m proof.simulation.gaps", __doc__, times=20, seed="the first world's seed")
    parser.add_argument("--verbose", action="store_true", help="print each fault's gap")
    given = parser.parse_args(arguments)
    kinds = kinds_of(parser, given.kinds)
    gaps: list[Gap] = []
    for seed in range(given.seed, given.seed + given.times):
        found = gaps_of(seed, given.proxies, kinds, given.seconds)
        gaps += found
        if given.verbose:
            print(*(f"seed {seed:4} {line(gap)}" for gap in found), sep="\n", flush=True)
    print(*table(gaps), sep="\n")
    return 1 if too_long(gaps) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(guarded(main, "proof.simulation.gaps", failed=2))
