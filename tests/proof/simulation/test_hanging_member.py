"""A member of etcd hangs: clients wait hardly longer than etcd's own, for writes and for events."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import pytest

from codec import client as zk
from codec.client import Dialogue
from codec.constants import Xid
from proof.simulation import seams
from proof.simulation.environment import SimulatedClock
from proof.simulation.etcd import Cluster, Member
from proof.simulation.etcd_channel import Channel
from proof.simulation.knobs import usual
from proof.simulation.network import Network
from proof.simulation.proxies import Proxy, config
from proof.simulation.transports import Transport
from proof.simulation.world import Host, World
from proof.torture.availability import longest_gap
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import EtcdError, Put, Txn
from proxy.log.follow.staleness import Staleness
from proxy.log.follow.watch_guard import WatchGuard

_ALLOWED = 1.0  # seconds that writes may wait longer than etcd's own
# Up to a second passes until a proxy whose clients neither write nor sync asks etcd for new entries.
_ALLOWED_EVENTS = 2.0
_INTERVAL = 0.1  # seconds between two requests of a client
_FAULT, _SETTLE = 8.0, 3.0  # seconds


class _Gap(NamedTuple):
    """The longest times in which nothing came, in seconds."""

    etcd: float
    writes: float  # of the client that waited longest
    events: float


class _Client:
    """Sends a request all the time, and notes when what it waits for comes."""

    def __init__(
        self, host: Host, proxy: Proxy, first: zk.Request[Any], next_: zk.Request[Any], *, events: bool
    ) -> None:
        self._host, self._proxy, self._first, self._next = host, proxy, first, next_
        self._events = events
        self._dialogue = Dialogue()
        self._transport: Transport | None = None
        self.times: list[float] = []
        host.call_soon(self._work)

    def _work(self) -> None:
        self._host.call_later(_INTERVAL, self._work)
        if self._transport is None:
            self._dialogue = Dialogue()
            self._transport = self._proxy.accept("client", self._host, self._came)
            if self._transport is not None:
                self._transport.give(zk.connect(10_000, 0, 0, bytes(16)))
        elif self._dialogue.granted:
            self._send(self._next)

    def _send(self, request: zk.Request[Any]) -> None:
        assert self._transport is not None
        self._transport.give(self._dialogue.request(request)[1])

    def _came(self, data: bytes | None) -> None:
        if data is None:
            self._transport = None
            return
        is_new = self._dialogue.granted is None
        frames = self._dialogue.feed(data)
        if is_new and self._dialogue.granted:
            self._send(self._first)
        for frame in frames:
            header = zk.header(frame)
            if (header.xid == Xid.NOTIFICATION) if self._events else not header.error:
                self.times.append(self._host.world.now)


class _System:
    """A cluster, proxies with a client each that writes, and one more whose client only waits for events."""

    def __init__(self, seed: int, proxies: int) -> None:
        self.world = world = World(seed)
        world.on_error = pytest.fail
        self.network = Network(world)
        self.cluster = Cluster(world, self.network)
        knobs = usual(seed, proxies)
        settings = config(knobs)
        self.proxies = [
            Proxy(self.cluster, f"proxy{number}", settings, knobs.tuning) for number in range(proxies + 1)
        ]
        clients, self._direct = Host(world, "clients"), Host(world, "direct")
        read, lasting = zk.get("/"), zk.add_watch("/", recursive=True)
        listening, *writing = self.proxies
        self.listener = _Client(clients, listening, lasting, read, events=True)
        self.writers = []
        for proxy in writing:
            make, change = zk.create(f"/{proxy.name}"), zk.set_data(f"/{proxy.name}", b"x")
            self.writers.append(_Client(clients, proxy, make, change, events=False))
        #: When each write to a member of etcd, past zketcd, was completed.
        self.etcd: list[float] = []
        for member in self.cluster.members:
            connect = partial(self._channel, member)
            client = EtcdClient([member.name], connect=connect, clock=SimulatedClock(self._direct))
            self._direct.call_soon(self._write, client, f"/direct/{member.name}".encode())

    def _channel(self, member: Member, *_address: object) -> Channel:
        return Channel(self.cluster, self._direct, member)

    def _write(self, client: EtcdClient, key: bytes) -> None:
        async def once() -> None:
            with suppress(EtcdError):
                await client.txn(Txn((), (Put(key, b"x"),)), 6.0)
                self.etcd.append(self.world.now)

        self._direct.create_task(once())
        self._direct.call_later(2 * _INTERVAL, self._write, client, key)

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds)

    def measure(self, kind: str) -> _Gap:
        """One fault, for some seconds."""
        began = self.world.now
        end = self._begin(kind)
        self.run(_FAULT)
        end()
        self.run(_SETTLE)
        gaps = [longest_gap(each.times, began, self.world.now) for each in self.writers]
        etcd = longest_gap(self.etcd, began, self.world.now)
        return _Gap(etcd, max(gaps), longest_gap(self.listener.times, began, self.world.now))

    def _begin(self, kind: str) -> Callable[[], None]:
        cluster, network = self.cluster, self.network
        watched = [watch.member for watch in cluster.watches]
        member = max(cluster.members, key=watched.count)
        is_leader = member is cluster.leader
        if kind.endswith("leader") != is_leader:  # leadership moves to the member, or away from it
            cluster.leader = next(each for each in cluster.members if (each is member) != is_leader)
        if kind.startswith("stop"):
            cluster.pause(member)
            return partial(cluster.resume, member)
        if kind.startswith("isolate"):
            cluster.isolate(member)
            return partial(cluster.rejoin, member)
        if kind.startswith("silence"):
            pairs = [(member.name, proxy.name) for proxy in self.proxies]
            network.cut(pairs)
            return partial(network.mend, pairs)
        network.slow(member.name, 0.15)
        return partial(network.slow, member.name, 0.0)


def _gaps(seed: int, proxies: int, *kinds: str) -> dict[str, _Gap]:
    system = _System(seed, proxies)
    with seams.installed(system.world):
        try:
            for proxy in system.proxies:
                proxy.start()
            system.run(20.0)
            assert system.etcd
            assert all(each.times for each in (system.listener, *system.writers))
            return {kind: system.measure(kind) for kind in kinds}
        finally:
            for proxy in system.proxies:
                proxy.kill()
            system._direct.kill()
            system.cluster.host.kill()


_WHAT = ("stop", "isolate", "silence", "slow")
_KINDS = [f"{what} the {who}" for what in _WHAT for who in ("follower", "leader")]


def test_clients_wait_not_much_longer_than_those_of_etcd() -> None:
    gaps = _gaps(3, 3, *_KINDS)
    for kind, gap in gaps.items():
        assert gap.writes <= gap.etcd + _ALLOWED, (kind, gap)
        assert gap.events <= gap.etcd + _ALLOWED_EVENTS, (kind, gap)
    assert gaps["stop the leader"].etcd > _ALLOWED, "no election was necessary"


def test_a_watch_that_hangs_for_seconds_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WatchGuard, "expect", lambda *_arguments: None)
    (gap,) = _gaps(2, 1, "stop the follower").values()
    assert gap.writes > gap.etcd + _ALLOWED


def test_a_watch_that_hangs_where_no_client_writes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Staleness, "_is_delivered", lambda *_arguments: True)
    gaps = (_gaps(seed, 1, "stop the follower")["stop the follower"] for seed in (1, 2, 3))
    assert any(gap.events > gap.etcd + _ALLOWED_EVENTS for gap in gaps)
