"""One simulated stormy world of a seed: the plan of faults, the waits for recovery, the judgement at the end.

`calm` and `standby` are other kinds of worlds on this base.
"""

import gc
from collections.abc import Sequence
from random import Random
from typing import Any

from typing_extensions import override

from proof.history import History
from proof.history.records import Create, Reply, Request
from proof.simulation import seams
from proof.simulation.answers import Answers
from proof.simulation.bug_faults import OLD_READS
from proof.simulation.clients import Client
from proof.simulation.etcd import READS_OLD_DATA, Cluster
from proof.simulation.exactly_once import Logged
from proof.simulation.expiry import ExpiryJudge
from proof.simulation.features import FeaturesClient, featured
from proof.simulation.fresh_start import fresh_start
from proof.simulation.knobs import Knobs, drawn
from proof.simulation.naive_judge import NaiveJudge
from proof.simulation.nemesis import SPARE, Fault, Nemesis
from proof.simulation.network import Network
from proof.simulation.older_backup import OlderBackup
from proof.simulation.oracle import Oracle
from proof.simulation.outcome import Outcome
from proof.simulation.proxies import Hardware, Proxy, config
from proof.simulation.reserve import ReserveJudge
from proof.simulation.rolling_upgrade import Upgrade
from proof.simulation.sealing import Sealing
from proof.simulation.sometimes import Sometimes
from proof.simulation.syncing_readers import SyncingReaders
from proof.simulation.world import Host, World, running_host
from proof.simulation.wrong_servers import WrongServers
from proxy.state.machine import Machine
from proxy.support.probe import Probe, listening

RECOVERY_LIMIT = 120.0  # seconds of simulated time after the end of faults until everything works again
_SETTLE_LIMIT = 300.0  # seconds at the end, until no session of a dead client is left
_POLL = 0.5
_MOVED_CLIENTS = 3
_COLLECTED_EACH = 4  # episodes; each that is not collected after keeps its dead servers in memory until then


class Simulation:
    """One stormy world."""

    kind = "stormy"

    def __init__(
        self,
        seed: int,
        hours: float,
        faults: tuple[str, ...] = (),
        *,
        etcd_bugs: bool = False,
        defects: bool = False,
    ) -> None:
        """`faults`: names of the only ones there are; else all. `etcd_bugs`: etcd's known bugs as well.

        `defects`: exceptions at any line of a server's code as well.
        """
        self.world = World(seed)
        self.network = Network(self.world)
        self.cluster = Cluster(self.world, self.network)
        self.cluster.host.levels = seams.NEXT_LEVELS
        self.history = History()
        self.violations: list[str] = []
        self.spoiled = 0
        self.world.on_error = self.violate
        self.knobs = self._drawn(self.world.random("knobs"))
        self.world.trace("world", str(self.knobs))
        self.cluster.store.quota = self.knobs.quota
        if self.knobs.compaction:
            self.cluster.compact_periodically(self.knobs.compaction)
        self.oracle = Oracle(self.world, self.cluster.store.cluster_id, self.violate)
        self.expiry = ExpiryJudge(self.world, self.cluster, self.violate)
        self.plan = self.world.random("plan")
        rng = self.plan
        settings = config(self.knobs, *self._options)
        self.sometimes = Sometimes(self.oracle.counts)
        self.wrong_servers = WrongServers(self.world, self.violate)
        self.naive = NaiveJudge(self.violate)
        self.answers = Answers(
            self.oracle, self.naive.acl_reads, self.wrong_servers, settings.max_staleness, self.violate
        )
        self.cluster.bugs.on_left_out = self.wrong_servers.left_out
        self.cluster.bugs.on_start = self.wrong_servers.loaded
        self.cluster.on_commit = self._committed
        listeners = self.oracle.listeners
        listeners.expired, listeners.attached = self._expired, self.expiry.attached
        listeners.entered, listeners.applied = self.naive.entered, self._request_applied
        self.proxies = self._make_proxies(self.cluster, "proxy", rng)
        self.reserve = ReserveJudge(self.world, self.proxies, self.knobs.quota, self.violate)
        self.clients_host = Host(self.world, "clients")
        self._syncing_readers = SyncingReaders(self.world, self.clients_host)
        self.clients: list[Client] = []
        self._features: list[FeaturesClient] = []
        self.dead_clients: list[Client] = []
        self.nemesis = Nemesis(self)
        self.recoveries: list[float] = []
        self._alone: dict[str, list[float]] = {}  # by fault: recoveries from it alone, seconds
        self.tainted: dict[Machine, None] = {}
        self._hours = hours
        self._backup: OlderBackup | None = None
        self._is_judged = False  # what follows is judged by the backup
        bugs = tuple(self.nemesis.bugs)
        more = (*(bugs if etcd_bugs else ()), *(self.nemesis.defects if defects else ()))
        self._fault_names = faults or (*self.nemesis.names, *more)
        if defects:
            self.kind = "defects"
        if etcd_bugs:
            self.kind = "etcd-bugs"
        if OLD_READS & set(self._fault_names):
            self.cluster.store.version = READS_OLD_DATA
        if not set(self._fault_names) <= set(bugs):  # other faults may keep a server from finding out
            self.wrong_servers.limit = settings.max_staleness + 8 * settings.tick_time / 1000 + 5.0
        self._timeouts = [2 * settings.tick_time, 4 * settings.tick_time, 8 * settings.tick_time]
        self._think = rng.choice((1.0, 3.0, 8.0))
        self._names = 0
        self._populate(rng)

    # -- parts -----------------------------------------------------------------------------------------------

    #: Whether a world without a restore ends with a seal.
    _seals = True
    #: Options of the servers besides those of the knobs.
    _options: Sequence[str] = ()
    #: What is replaced in such a world besides `seams`.
    _replaced: Sequence[tuple[Any, str, Any]] = ()

    def _make_proxies(self, cluster: Cluster, name: str, rng: Random) -> list[Proxy]:
        """The proxies of an etcd; their names begin with `name`."""
        proxies = [
            Proxy(
                cluster,
                f"{name}{number}",
                config(self.knobs, *self._options, number=number),
                self.knobs.tuning,
            )
            for number in range(1, self.knobs.proxies + 1)
        ]
        for proxy in proxies:
            proxy.hardware = Hardware(
                skew=rng.choice((0.0, 0.0, rng.uniform(-60, 60))),
                drift=rng.uniform(-1e-4, 1e-4),
                burn=rng.choice((0.0, 0.0001, 0.004)),
            )
            proxy.on_heard = self.expiry.heard
        return proxies

    def _drawn(self, rng: Random) -> Knobs:
        """Draw the knobs of this world."""
        return drawn(self.world.seed, rng)

    def _populate(self, rng: Random) -> None:
        """Make the clients."""
        for _ in range(rng.randint(3, 5)):
            self._new_client()
        self._new_client(reads_only=True)
        self._features = featured(self.world, self.clients_host, self._addresses, rng.choice(self._timeouts))
        for client in self._features:
            self._begin_client(client)

    @property
    def _addresses(self) -> Sequence[Proxy]:
        """What clients know."""
        return self.proxies

    @property
    def _everybody(self) -> list[Client]:
        """All clients that live."""
        return [*self.clients, *self._features]

    def violate(self, what: str) -> None:
        """Record a mistake that no fault explains."""
        if len(self.violations) < 20 and what not in self.violations:
            self.world.trace("VIOLATION", what)
            self.violations.append(what)

    def _new_client(self, *, reads_only: bool = False) -> None:
        self.clients.append(self._make_client(self.plan.choice(self._timeouts), reads_only=reads_only))

    def _make_client(
        self, timeout_ms: int, *, reads_only: bool = False, addresses: Sequence[Proxy] | None = None
    ) -> Client:
        self._names += 1
        client = Client(
            self.world,
            self.clients_host,
            f"client{self._names}",
            self._addresses if addresses is None else addresses,
            self.history,
            timeout_ms,
            reads_only=reads_only,
        )
        client.think = self._think
        self._begin_client(client)
        return client

    def _begin_client(self, client: Client) -> None:
        client.on_reply = lambda *answered: self._replied(client, *answered)
        client.on_session = lambda *attached: self.answers.attached(client, *attached)
        client.on_expired = lambda server: self.wrong_servers.expired(server, client.history)
        self.clients_host.create_task(client.run(), name=client.name)

    def _replied(self, client: Client, session: int, request: Request, answer: Reply) -> None:
        self.answers.replied(client, session, request, answer)
        self._syncing_readers.replied(client, request, answer, self.clients)

    def replace_client(self, client: Client) -> None:
        """A client has died: another one takes its place."""
        self.clients.remove(client)
        self.dead_clients.append(client)
        self._new_client(reads_only=client.reads_only)

    def is_tainted(self) -> bool:
        """Whether a proxy lives whose memory is damaged."""
        living = {proxy.server.machine for proxy in self.proxies if proxy.alive and proxy.server is not None}
        for machine in [machine for machine in self.tainted if machine not in living]:
            del self.tainted[machine]
        return bool(self.tainted)

    def taint(self, proxy: Proxy) -> None:
        """A proxy's memory was damaged: what it does is not compared until it has loaded its state anew."""
        assert proxy.server is not None
        self.tainted[proxy.server.machine] = None

    def ended_early(self, lease: int) -> None:
        """A lease was ended before its time."""
        self.expiry.ended_early(lease)

    # -- observers -------------------------------------------------------------------------------------------

    def _committed(self, _revision: int, events: list[Any]) -> None:
        if self._is_judged:
            return
        self.expiry.committed(events)
        self.oracle.committed(events)

    def _request_applied(self, incarnation: str, clock: int, rules: int, *applied: Any) -> None:
        self.naive.applied(incarnation, clock, rules, *applied)
        self.reserve.applied(incarnation, *applied)

    def machine_applied(self, machine: Machine) -> None:
        """A machine on any host has applied an entry."""
        host = running_host()
        if self._is_judged:
            return
        if machine in self.tainted:
            if machine.digest.settle(machine.tree.nodes) != self.oracle.steps[machine.entries - 1].digest:
                return
            del self.tainted[machine]
            self.world.trace(host.name, "its memory is right again")
        self.oracle.compare(host.name, machine, self.wrong_servers.explains)

    def _expired(self, session: int, holder: str) -> None:
        """The log ends a session. A client that does not listen would tell the history late, or never."""
        sender = self.oracle.machine.transaction.sender.incarnation
        deceived = any(
            proxy.server is not None
            and proxy.server.log.incarnation == sender
            and self.wrong_servers.may_be_wrong(proxy.name)
            for proxy in self.proxies
        )
        if self.expiry.is_orphan(session) and not deceived:
            for proxy in self.proxies:
                if proxy.serves(session) and not self.wrong_servers.is_wrong(proxy.name):
                    self.violate(f"{proxy.name} still serves session {session:#x}, which others have ended")
        self.expiry.expired(session, holder, deceived=deceived)
        holders = [*self._everybody, *self.dead_clients]
        for client in holders:
            if client.session == session:
                client.session_ended()
        if any(client.session == session and not client.listens for client in holders):
            self.history.expired(int(self.world.now * 1e9), session)

    # -- the run ---------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Simulate the world, and judge it."""
        # When the collector runs depends on what else the process has done; what it finds must not matter.
        gc.disable()
        try:
            with seams.installed(self.world, self._replaced), listening(_Probe(self)):
                try:
                    self._run()
                except RuntimeError as error:
                    self.violate(str(error))
                finally:
                    self._end()
        finally:
            gc.enable()
        snapshots = sum(
            proxy.server.snapshots.stats.written for proxy in self.proxies if proxy.server is not None
        )
        everybody = [*self._everybody, *self.dead_clients]
        return Outcome(
            self.kind,
            self.world.seed,
            self.world.now,
            sum(client.operations for client in everybody),
            self.oracle.requests,
            dict(sorted(self.nemesis.counts.items())),
            self.recoveries,
            snapshots,
            self.cluster.elections,
            sum(client.sessions for client in everybody),
            sum(client.expiries for client in everybody),
            self.world.fingerprint,
            self.violations,
            list(self.world.lines),
            *self._more_figures(),
            self.sometimes.taken,
            str(self.knobs),
            alone=self._alone,
            set_aside=dict(self.answers.set_aside),
        )

    def _more_figures(self) -> tuple[float, int, int, float]:
        """`quiet` and what follows it in the outcome."""
        return 0.0, 0, self.wrong_servers.times, self.wrong_servers.longest

    @property
    def broken(self) -> bool:
        """Whether something is wrong: the run ends."""
        return bool(self.violations)

    def _run(self) -> None:
        for proxy in self.proxies:
            proxy.start()
        self.recover("the start")
        self._make_spare()
        self._live(self.world.now + self._hours * 3600)
        if not self.broken:
            self._settle()
        if self._seals and self._backup is None and not self.broken:
            self._seal()
        if not self.broken:
            self.answers.judge(self.history, self._writes(), self.expiry)
        if self._backup is not None and not self.broken:
            self._is_judged = True
            for wrong in self._backup.restore(self.proxies, self.clients_host, self.oracle.machine.zxid):
                self.violate(wrong)

    def _seal(self) -> None:
        """The tree moves away, while new clients write, and the move is called off."""
        clients = [self._make_client(self._timeouts[-1]) for _ in range(_MOVED_CLIENTS)]
        for client in clients:
            client.think = 0.1  # so that something is being written when the seal comes
        Sealing(self, clients, self._fault_names).run()
        for client in clients:
            client.stopped = True
        self.dead_clients += clients
        self._until_level()

    def _writes(self) -> dict[int, list[Logged]]:
        """What the log has of the sessions that the history knows."""
        others = {session for client in self._features for session in client.session_ids}
        return {session: logged for session, logged in self.oracle.writes.items() if session not in others}

    def _live(self, until: float) -> None:
        """Faults, one episode after another, and an upgrade."""
        world, rng = self.world, self.plan
        upgrade_at = world.now + self.knobs.upgrade * (until - world.now)
        backup_at = world.now + self.knobs.backup * (until - world.now)
        episodes = 0
        while world.now < until and not self.broken:
            world.run(min(until, world.now + rng.expovariate(1 / 20)))
            if world.now >= backup_at and self._backup is None:
                self._backup = OlderBackup(self.cluster, self.oracle.machine)
            if world.now >= upgrade_at:
                upgrade_at = float("inf")
                self.upgrade()
            else:
                self._episode()
            episodes += 1
            if episodes % _COLLECTED_EACH == 0:
                gc.collect()

    def _make_spare(self) -> None:
        """A node for faults of memory, made by a client as any."""
        self.clients[0].wish(Create(SPARE, b"spare"))

    def _episode(self) -> None:
        """Some faults at a time, one after another, and then none."""
        rng, world = self.plan, self.world
        faults: list[Fault] = []
        for _ in range(rng.choice((1, 1, 2, 3, 5))):
            fault = self._begin_fault(rng.choice(self._fault_names))
            if fault is not None:
                faults.append(fault)
            world.run(world.now + rng.expovariate(1 / rng.choice((0.05, 1.0, 5.0))))
        world.run(world.now + rng.choice((0.05, 0.5, 3.0, 8.0, 20.0)) * rng.random())
        rng.shuffle(faults)
        for fault in faults:
            world.trace("nemesis", f"end of: {fault.name}")
            fault.end()
            world.run(world.now + rng.expovariate(1.0) * rng.choice((0.0, 0.1, 1.0)))
        self._recover_from(faults)

    def _begin_fault(self, name: str) -> Fault | None:
        return self.nemesis.begin(name)

    def _recover_from(self, faults: list[Fault]) -> None:
        """End the faults."""
        self.recover("faults: " + ", ".join(sorted(fault.name for fault in faults)))
        if len(faults) == 1 and not self.broken:
            self._alone.setdefault(faults[0].name, []).append(self.recoveries[-1])

    def recover(self, after: str) -> None:
        """Wait until everything works; that takes a bounded time."""
        world = self.world
        begun = world.now
        for proxy in [each for each in self.proxies if not each.alive]:
            proxy.start()
        for client in self.clients:  # also one that stands still
            client.urge()
        while not self._works(begun):
            if world.now - begun > RECOVERY_LIMIT:
                self.violate(
                    f"no recovery within {RECOVERY_LIMIT:.0f} s after {after}: {self._what_lacks(begun)}"
                )
                return
            if self.broken:
                return
            self.start_ended()
            if self.cluster.store.full:
                self.nemesis.note("make space", self.cluster.make_space())
            world.run(world.now + _POLL)
        self.recoveries.append(world.now - begun)

    def start_ended(self) -> None:
        """Start the servers that do not run; none may have ended without a fault."""
        for proxy in self.proxies:
            if not proxy.alive:
                if proxy.ended:
                    self.violate(f"{proxy.name} has ended by itself: {proxy.ended}")
                proxy.start()

    def _awaited(self) -> list[Client]:
        """Clients that must be able to work soon after the end of a fault."""
        return self.clients

    def _works(self, since: float) -> bool:
        return not self._what_lacks(since)

    def _what_lacks(self, since: float) -> str:
        for proxy in self.proxies:
            if (
                not proxy.alive
                or not proxy.serving
                or proxy.server is None
                or not proxy.server.log.contact().in_touch
            ):
                return f"{proxy.name} does not serve"
        for client in self._awaited():
            if not client.is_connected:
                return f"{client.name} is not connected"
            if client.worked_at < since:
                return f"{client.name} has not {'read' if client.reads_only else 'written'}"
        return ""

    def upgrade(self) -> None:
        """A rolling upgrade, and the raise of the level."""
        steps = self.violate, self.recover, lambda: self.broken
        Upgrade(self.world, self.plan, self.proxies, self.oracle, *steps).roll()

    def _settle(self) -> None:
        """No faults any more: everything must come to one state, which a fresh start loads as well."""
        world = self.world
        deadline = world.now + _SETTLE_LIMIT
        while self._left_sessions() and world.now < deadline:
            world.run(world.now + _POLL)
        if self._left_sessions():
            self.violate(
                f"sessions of dead clients have not ended: {[hex(each) for each in self._left_sessions()]}"
            )
        # Enough entries that all proxies have compared their digests since the last fault. One that has just
        # loaded its state anew has to apply what came meanwhile.
        goal, deadline = len(self.oracle.steps) + 100, world.now + _SETTLE_LIMIT
        while (
            len(self.oracle.steps) < goal or self.is_tainted() or not self._level()
        ) and world.now < deadline:
            world.run(world.now + _POLL)
        self._judge_end()
        for client in self._everybody:
            client.stopped = True
        self._until_level()
        for proxy in self.proxies:
            if proxy.server is not None:
                if outstanding := proxy.server.log.outbox.outstanding:
                    self.violate(f"{proxy.name} still has {outstanding} requests without an outcome")
                self.oracle.compare_bytes(proxy.name, proxy.server.machine)
        fresh = fresh_start(world, self.proxies[0])
        if fresh is None:
            self.violate("a fresh start does not come to an end")
        elif fresh.entries == self.oracle.machine.entries:  # sessions may end between the two looks
            self.oracle.compare_bytes("a fresh start", fresh)
        self.naive.compare(self.oracle.machine)

    def _until_level(self) -> None:
        deadline = self.world.now + _SETTLE_LIMIT
        while not self._level() and self.world.now < deadline:
            self.world.run(self.world.now + _POLL)

    def _judge_end(self) -> None:
        """Look at a world in which nothing goes wrong any more, while its clients still work."""

    def _left_sessions(self) -> list[int]:
        """Sessions of which no client knows."""
        known = {client.session for client in self._everybody}
        return [session for session in self.oracle.machine.sessions if session not in known]

    def _level(self) -> bool:
        """Whether all proxies are at the end of the log, and none pauses in the middle of an entry."""
        count = self.oracle.machine.entries
        return all(
            proxy.server is not None
            and proxy.server.machine.entries == count
            and proxy.server.log.applier.worker.done
            and not proxy.server.log.outbox.outstanding
            for proxy in self.proxies
        )

    def _end(self) -> None:
        """Unwind all hosts, in a fixed order."""
        for proxy in self.proxies:
            proxy.kill()
        self.clients_host.kill()
        self.cluster.host.kill()


class _Probe(Probe):
    """Passes what servers do to those that judge it."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    @override
    def reached(self, branch: str) -> None:
        self._simulation.sometimes.reached(branch)

    @override
    def applied(self, machine: Machine) -> None:
        self._simulation.machine_applied(machine)

    @override
    def closing(self, session_id: int, holder: str) -> None:
        self._simulation.expiry.closing(session_id, holder)

    @override
    def refused(self, session_id: int, opcode: int, fields: Any, machine: Machine, *, is_last: bool) -> None:
        self._simulation.reserve.refused(session_id, opcode, fields, machine, is_last=is_last)

    @override
    def loading(self, before: int, zxid: int) -> None:
        self._simulation.answers.loaded(running_host().name, before, zxid)

    @override
    def loaded(self) -> None:
        self._simulation.wrong_servers.loaded(running_host().name)


def simulate(seed: int, hours: float, faults: tuple[str, ...] = (), *, etcd_bugs: bool = False) -> Outcome:
    """One stormy world of a seed."""
    return Simulation(seed, hours, faults, etcd_bugs=etcd_bugs).run()
