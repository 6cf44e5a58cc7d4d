"""The faults of a simulation: what each does, and how it is undone. Which come when, the seed says."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import NamedTuple, Protocol

from proof.simulation.aimed_faults import AimedFaults
from proof.simulation.bug_faults import Begun, bug_faults, nothing
from proof.simulation.clients import Client
from proof.simulation.etcd import Cluster, Member
from proof.simulation.hot_restart import RETURNING, HotRestart, Trouble, any_trouble
from proof.simulation.knobs import Knobs
from proof.simulation.network import Network
from proof.simulation.oracle import Oracle
from proof.simulation.proxies import Proxy
from proof.simulation.reserve import ReserveJudge
from proof.simulation.snapshot_faults import SnapshotFaults
from proof.simulation.spoiling import PlantedError, PlantedMemoryError, Spoiler
from proof.simulation.world import Host, World
from proxy.etcd.model import Delete, EtcdNoSpace, Put, Txn
from proxy.state.node import full_node

_ENDS = 1.0  # seconds in which a process without memory has to end
_MOST_LINES = 15  # as a power of two, until an exception that is planted is raised
_CAUGHT_UP = 2.0  # seconds after which a client has got what has waited for it
SPARE = "/spare"  # a node that no client reads or writes


class Subject(Protocol):
    """The system, as far as faults need it."""

    world: World
    network: Network
    cluster: Cluster
    oracle: Oracle
    proxies: list[Proxy]
    clients: list[Client]
    knobs: Knobs
    reserve: ReserveJudge
    spoiled: int  # exceptions that were raised in servers

    def replace_client(self, client: Client) -> None:
        """A client has died: another one takes its place."""

    def is_tainted(self) -> bool:
        """Whether a proxy lives whose memory is damaged."""

    def taint(self, proxy: Proxy) -> None:
        """A proxy's memory was damaged."""

    def ended_early(self, lease: int) -> None:
        """A lease was ended before its time."""


class Fault(NamedTuple):
    """One fault that lasts. `end` undoes it; `what` is for people."""

    name: str
    what: str
    end: Callable[[], None]


class Nemesis:
    """Makes faults."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._random = subject.world.random("nemesis")
        self._snapshots = SnapshotFaults(subject.cluster, subject.proxies, self._random)
        aimed = AimedFaults(subject.cluster, subject.oracle, subject.proxies, self._random)
        self.counts: dict[str, int] = {}
        self._fills = 0
        self._usual: dict[str, Callable[[], Begun | None]] = {
            "kill a proxy": self._kill_proxy,
            "pause a proxy": self._pause_proxy,
            "stop a proxy": self._stop_proxy,
            "hot restart": self._hot_restart,
            "hot restart as clients return": partial(self._hot_restart, RETURNING),
            "kill all proxies": self._kill_all,
            "cut a proxy from a member": self._cut_member,
            "cut a proxy from etcd": self._cut_etcd,
            "cut clients from a proxy": self._cut_clients,
            "cut proxies from each other": self._cut_proxies,
            "reset connections": self._reset_connections,
            "kill a member": self._kill_member,
            "pause a member": self._pause_member,
            "isolate a member": self._isolate_member,
            "new leader": self._new_leader,
            "no majority": self._no_majority,
            "restore etcd": self._restore,
            "lose answers": partial(self._set, "lose_answer", (0.05, 0.3, 0.8)),
            "lose requests": partial(self._set, "lose_request", (0.05, 0.3, 0.8)),
            "double requests": partial(self._set, "double", (0.1, 0.5)),
            "lose keep-alives": partial(self._set, "lose_keep_alive", (0.3, 0.8, 1.0)),
            "end a lease early": self._end_lease,
            "end leases late": self._late_leases,
            "compact": self._compact,
            "break streams": self._break_streams,
            "stall a watch": self._stall_watch,
            "no space": self._no_space,
            "fill etcd": self._fill,
            "kill snapshot writers": self._snapshots.kill_writers,
            "want snapshots": self._snapshots.want,
            "damage a snapshot": self._damage_snapshot,
            "slow network": self._slow_network,
            "slow disk": partial(self._set, "slow_disk", (0.05, 0.5, 3.0)),
            "lag": self._lag,
            "clock jump": self._clock_jump,
            "client dies": self._client_dies,
            "read slowly": self._read_slowly,
            "memory": self._memory,
            "load anew": self._load_anew,
            "end a proxy in a gap": aimed.end_in_gap,
            "no carry-over": aimed.no_carry_over,
            "load anew in a long write": aimed.reload_in_write,
        }
        # Of worlds of their own: which lines run depends on caches, and on the hash seed of the process.
        self.defects: dict[str, Callable[[], Begun | None]] = {
            "an exception": partial(self._spoil, PlantedError),
            "out of memory": partial(self._spoil, PlantedMemoryError),
        }
        self.bugs = bug_faults(subject.cluster, self._random)

    @property
    def names(self) -> list[str]:
        """All names of faults but those of etcd's bugs and of defects."""
        return list(self._usual)

    def begin(self, name: str) -> Fault | None:
        """Make one fault; None if there is nothing to do it to."""
        begin = self._usual.get(name) or self.defects.get(name) or self.bugs[name]
        return self.noted(name, begin())

    def noted(self, name: str, begun: Begun | None) -> Fault | None:
        """What has begun, if anything has: counted, and with its name."""
        if begun is None:
            return None
        what, end = begun
        self.note(name, what)
        return Fault(name, what, end)

    def note(self, name: str, what: str) -> None:
        """Count a fault that has begun."""
        self.counts[name] = self.counts.get(name, 0) + 1
        self._subject.world.trace("nemesis", f"{name}: {what}")

    # -- proxies ---------------------------------------------------------------------------------------------

    def _proxy(self) -> Proxy | None:
        alive = [proxy for proxy in self._subject.proxies if proxy.alive]
        return self._random.choice(alive) if alive else None

    def _kill_proxy(self) -> Begun | None:
        proxy = self._proxy()
        if proxy is None:
            return None
        silently = self._random.random() < 0.3
        proxy.kill(silently=silently)
        return proxy.name + (" silently" if silently else ""), lambda: _revive(proxy)

    def _kill_all(self) -> Begun:
        for proxy in self._subject.proxies:
            proxy.kill()

        def end() -> None:
            for proxy in self._subject.proxies:
                _revive(proxy)

        return "", end

    def _pause_proxy(self) -> Begun | None:
        proxy = self._proxy()
        if proxy is None or proxy.host is None or proxy.host.paused:
            return None
        proxy.pause()
        return proxy.name, proxy.resume

    def _stop_proxy(self) -> Begun | None:
        proxy = self._proxy()
        if proxy is None or not proxy.serving or proxy.host is None or proxy.host.paused:
            return None
        host = proxy.host
        proxy.serving = False

        async def stop() -> None:
            await proxy.stop()
            host.call_soon(_kill_same, proxy, host)

        host.call_soon(lambda: host.create_task(stop(), name="drain"))
        return proxy.name, lambda: _restart(proxy, host)

    def _hot_restart(self, trouble: Trouble | None = None) -> Begun | None:
        proxy = self._proxy()
        if proxy is None or not proxy.serving or proxy.others or proxy.host is None or proxy.host.paused:
            return None
        trouble = trouble or any_trouble(self._random)
        HotRestart(proxy, self._subject.cluster.host, trouble).begin()
        return f"of {proxy.name}" + (f": {trouble}" if trouble else ""), nothing

    def _spoil(self, kind: type[Exception]) -> Begun | None:
        """An exception at some line of a server's code. A lack of memory has to end the process at once."""
        proxy = self._proxy()
        if proxy is None or proxy.host is None or proxy.host.paused or proxy.host.spoiler is not None:
            return None
        host, subject = proxy.host, self._subject
        lines = int(2 ** self._random.uniform(0, _MOST_LINES))

        def raised(place: str) -> None:
            subject.spoiled += 1
            subject.world.trace("nemesis", f"{kind.__name__} in {host.name}, {place}")
            if kind is PlantedMemoryError:
                subject.cluster.host.call_later(_ENDS, lives, place)

        def lives(place: str) -> None:
            if not host.dead and not host.paused and not proxy.others:
                subject.world.on_error(f"{host.name} lives on without memory, {place}")

        spoiler = Spoiler(host, lines, kind("planted"), raised)
        return f"in {proxy.name} after {lines} lines", spoiler.stop

    # -- the network -----------------------------------------------------------------------------------------

    def _cut(self, sources: Sequence[str], targets: Sequence[str], what: str) -> Begun:
        way = self._random.randrange(3)
        pairs = []
        if way != 1:
            pairs += [(source, target) for source in sources for target in targets]
        if way != 2:
            pairs += [(target, source) for source in sources for target in targets]
        self._subject.network.cut(pairs)
        words = ("both ways", "answers only", "requests only")[way]
        return f"{what}, {words}", lambda: self._subject.network.mend(pairs)

    def _cut_member(self) -> Begun:
        proxy = self._random.choice(self._subject.proxies)
        member = self._random.choice(self._subject.cluster.members)
        return self._cut([proxy.name], [member.name], f"{proxy.name} and {member.name}")

    def _cut_etcd(self) -> Begun:
        proxy = self._random.choice(self._subject.proxies)
        return self._cut([proxy.name], [member.name for member in self._subject.cluster.members], proxy.name)

    def _cut_clients(self) -> Begun:
        proxy = self._random.choice(self._subject.proxies)
        names = [client.name for client in self._subject.clients if self._random.random() < 0.6]
        return self._cut(names, [proxy.name], f"{proxy.name} and {', '.join(names)}")

    def _cut_proxies(self) -> Begun:
        proxy, *others = self._random.sample(self._subject.proxies, len(self._subject.proxies))
        return self._cut([proxy.name], [other.name for other in others], f"{proxy.name} and others")

    def _reset_connections(self) -> Begun:
        rng, proxies = self._random, self._subject.proxies
        seconds = rng.choice((0.5, 2.0))

        def reset() -> None:
            for proxy in proxies:
                for transport in list(proxy.transports):
                    if rng.random() < 0.5:
                        transport.reset()
                for link in list(proxy.host.links if proxy.host is not None else ()):
                    if rng.random() < 0.5:
                        link.abort()

        return f"each {seconds} s", every(self._subject.cluster.host, seconds, reset)

    def _slow_network(self) -> Begun:
        hosts = [
            *(proxy.name for proxy in self._subject.proxies),
            *(m.name for m in self._subject.cluster.members),
        ]
        host = self._random.choice(hosts)
        seconds = self._random.choice((0.02, 0.2, 1.5))
        self._subject.network.slow(host, seconds)
        return f"{host} by {seconds} s", lambda: self._subject.network.slow(host, 0.0)

    # -- etcd's members --------------------------------------------------------------------------------------

    def _member(self) -> Member:
        cluster = self._subject.cluster
        if cluster.leader is not None and self._random.random() < 0.5:
            return cluster.leader
        return self._random.choice(cluster.members)

    def _kill_member(self) -> Begun | None:
        cluster, member = self._subject.cluster, self._member()
        if not member.up:
            return None
        cluster.kill(member)
        return member.name, lambda: cluster.start(member)

    def _pause_member(self) -> Begun | None:
        cluster, member = self._subject.cluster, self._member()
        if member.paused:
            return None
        cluster.pause(member)
        return member.name, lambda: cluster.resume(member)

    def _isolate_member(self) -> Begun | None:
        cluster, member = self._subject.cluster, self._member()
        if member.isolated:
            return None
        cluster.isolate(member)
        return member.name, lambda: cluster.rejoin(member)

    def _no_majority(self) -> Begun | None:
        cluster = self._subject.cluster
        members = [member for member in cluster.members if member.up][:2]
        for member in members:
            cluster.kill(member)

        def end() -> None:
            for member in members:
                cluster.start(member)

        return ", ".join(member.name for member in members), end

    def _restore(self) -> Begun:
        """As an operator does it who has lost nothing: zxids continue in a new epoch."""
        cluster = self._subject.cluster
        cluster.restore()

        def end() -> None:
            for member in cluster.members:
                if not member.up:
                    cluster.start(member)

        return f"as cluster {cluster.store.cluster_id:x}", end

    def _new_leader(self) -> Begun:
        self._subject.cluster.depose()
        return "", nothing

    def _lag(self) -> Begun:
        member = self._random.choice(self._subject.cluster.members)
        member.lag = self._random.choice((0.05, 0.5, 3.0))

        def end() -> None:
            member.lag = 0.0

        return f"{member.name} by {member.lag} s", end

    # -- what etcd does with requests ------------------------------------------------------------------------

    def _set(self, name: str, values: Sequence[float]) -> Begun:
        troubles, value = self._subject.cluster.troubles, self._random.choice(values)
        setattr(troubles, name, value)
        return f"{value}", lambda: setattr(troubles, name, 0.0)

    def _end_lease(self) -> Begun | None:
        cluster = self._subject.cluster
        leases = cluster.store.lease_ids
        if not leases or cluster.leader is None:
            return None
        lease = self._random.choice(leases)
        self._subject.ended_early(lease)
        cluster.store.lease_revoke(lease)
        return f"{lease:x}", nothing

    def _late_leases(self) -> Begun:
        cluster = self._subject.cluster
        cluster.troubles.leases_late_until = cluster.world.now + 3600

        def end() -> None:
            cluster.troubles.leases_late_until = 0.0

        return "", end

    def _compact(self) -> Begun:
        cluster, rng = self._subject.cluster, self._random
        seconds = rng.choice((0.05, 1.0, 5.0))
        end = every(cluster.host, seconds, lambda: cluster.compact(rng.choice((0, 0, 1, 10))))
        return f"each {seconds} s", end

    def _break_streams(self) -> Begun:
        cluster = self._subject.cluster
        seconds = self._random.choice((0.3, 2.0, 10.0))
        return f"each {seconds} s", every(cluster.host, seconds, cluster.break_streams)

    def _stall_watch(self) -> Begun | None:
        cluster, proxy = self._subject.cluster, self._proxy()
        watches = [watch for watch in cluster.watches if watch.host is (proxy and proxy.host)]
        if not watches or proxy is None:
            return None
        (watch, *_) = watches
        watch.stalled_until = cluster.world.now + self._random.choice((1.0, 5.0, 60.0))
        return f"of {proxy.name}", nothing

    def _no_space(self) -> Begun:
        store, usual = self._subject.cluster.store, self._subject.knobs.quota
        if self._random.random() < 0.5:
            store.full = True
        else:
            store.quota = store.file.size + self._random.choice((2_000, 20_000))

        def end() -> None:  # as an operator does it
            store.quota = usual
            store.defragment()
            store.disarm()

        return "", end

    def _fill(self) -> Begun | None:
        """Another user of etcd fills it until proxies refuse growth, and deletes that some time later."""
        subject, store, rng = self._subject, self._subject.cluster.store, self._random
        if not subject.knobs.compaction:
            return None  # nothing would give the space back
        self._fills += 1
        name, keys = f"/other/{self._fills}/", count()

        def fill() -> None:
            wanted = store.quota // 10
            for client in subject.clients:
                client.urge()
            while subject.cluster.leader and (room := store.quota - store.file.in_use) > wanted:
                if room < 2.5 * wanted and subject.reserve.is_touched:
                    break
                with suppress(EtcdNoSpace):
                    store.txn(Txn((), (Put(f"{name}{next(keys)}".encode(), bytes(2000)),)))
                if store.full or room < 2.5 * wanted:
                    break  # the proxies look at the size once a second

        stop = every(subject.cluster.host, 0.5, fill)

        def delete() -> None:
            stop()
            store.txn(Txn((), (Delete(name.encode(), f"{name[:-1]}0".encode()),)))

        def end() -> None:
            subject.cluster.host.call_later(rng.choice((1.0, 20.0, 40.0)), delete)

        return "", end

    # -- snapshots, clocks, clients, memory ------------------------------------------------------------------

    def _damage_snapshot(self) -> Begun | None:
        """Damage a page of the snapshot, and start a proxy from it."""
        page = self._snapshots.damage()
        killed = self._kill_proxy() if page else None
        if killed is None:
            return None
        which, end = killed
        return f"{page}, and the end of {which}", end

    def _clock_jump(self) -> Begun | None:
        proxy = self._proxy()
        if proxy is None or proxy.host is None:
            return None
        seconds = self._random.choice((-3600.0, -5.0, 5.0, 3600.0))
        proxy.host.skew += seconds
        return f"{proxy.name} by {seconds} s", nothing

    def _client_dies(self) -> Begun | None:
        clients = [client for client in self._subject.clients if client.is_connected]
        if not clients:
            return None
        client = self._random.choice(clients)
        client.die()
        self._subject.replace_client(client)
        return client.name, nothing

    def _read_slowly(self) -> Begun:
        """Clients whose replies wait at the proxy, which then does not read from them. They ping."""
        world, slow = self._subject.world, self._subject.network.slow_readers
        clients = [client for client in self._subject.clients if self._random.random() < 0.6]
        names = [client.name for client in clients]
        slow.update(names)
        for client in clients:
            client.slow_since = world.now if client.slow_since is None else client.slow_since

        def caught_up() -> None:
            for client in clients:
                if not slow[client.name]:
                    client.slow_since = None

        def end() -> None:
            slow.subtract(names)
            self._subject.cluster.host.call_later(_CAUGHT_UP, caught_up)

        return ", ".join(names), end

    def _memory(self) -> Begun | None:
        proxy = self._proxy()
        # Two with the same damage would agree with each other.
        if proxy is None or not proxy.serving or proxy.server is None or self._subject.is_tainted():
            return None
        node = proxy.server.machine.tree.nodes.get(SPARE)
        if node is None:
            return None
        # As a flipped bit: the digest, computed from changes, would not know of it before the next change.
        machine = proxy.server.machine
        if not proxy.server.log.applier.worker.is_whole:
            return None  # nothing may touch the digest while it takes in a long request's changes
        machine.digest.touch(SPARE, node)
        full_node(machine.tree.nodes, SPARE).data = b"flipped"
        self._subject.taint(proxy)
        return f"of {proxy.name}", nothing

    def _load_anew(self) -> Begun:
        """Proxies find their states wrong, one after another: they load while entries are on their way."""

        def distrust() -> None:
            proxy = self._proxy()
            if proxy is not None and proxy.serving and proxy.server is not None and proxy.host is not None:
                proxy.host.call_soon(proxy.server.log.follower.distrust)

        seconds = self._random.choice((0.3, 1.0, 5.0))
        return f"a proxy each {seconds} s", every(self._subject.cluster.host, seconds, distrust)


def every(host: Host, seconds: float, act: Callable[[], object]) -> Callable[[], None]:
    """Do something periodically; returns what ends that."""
    ended = False

    def again() -> None:
        if not ended:
            act()
            host.call_later(seconds, again)

    def end() -> None:
        nonlocal ended
        ended = True

    again()
    return end


def _revive(proxy: Proxy) -> None:
    if not proxy.alive:
        proxy.start()


def _kill_same(proxy: Proxy, host: Host) -> None:
    if proxy.host is host:
        proxy.kill()


def _restart(proxy: Proxy, host: Host) -> None:
    """After a drain: whether it is done or not, a new process takes its place."""
    if proxy.host is host and not host.dead:
        proxy.kill()
    _revive(proxy)
