"""A proxy of the simulation: the whole real server on a host, its snapshot writers, its connections.

Hours in which nothing goes wrong cost little. A proxy looks at many things periodically: ten times a second
whether its state is recent, each second what etcd's newest entry is, and so on. While no fault lasts and none
begins, such a look finds what the last one found. A world says until when it is quiet (`World.quiet_until`).
Until then these looks are up to half a minute apart: the host stretches their sleeps. Keep-alives and all
that clients notice stay as they are.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from typing_extensions import override

from cli.output import CommandFailed
from ctl.levels import raise_level
from proof.simulation.environment import SimulatedClock, environment
from proof.simulation.etcd import Cluster
from proof.simulation.etcd_channel import Channel
from proof.simulation.knobs import Knobs
from proof.simulation.peers import Port, ProxyHost, peer_port
from proof.simulation.spoiling import PlantedError
from proof.simulation.transports import Socket, Transport, Transports
from proof.simulation.world import Host
from proxy.config import Config, parse
from proxy.etcd.client import EtcdClient
from proxy.etcd.metrics import QUOTA, Metrics
from proxy.etcd.model import EtcdError
from proxy.log.combine.choice import Choice
from proxy.log.record import TreeNotServable
from proxy.log.upkeep import snapshot_writer
from proxy.log.upkeep.snapshot_job import Answer, Failed, Job, answer_of, job_of
from proxy.sasl.login import Login
from proxy.server import Server, Tuning
from proxy.state.level import KNOWN
from proxy.support.last_resort import LastResort
from proxy.watchdog import Watchdog, limit_of
from schema.keys import Keyspace
from schema.record import PeerPort

PREFIX = "/zketcd"
_GRACE = 2.0  # seconds after a pause
_WATCH = 1.0  # seconds between two looks of a watchdog, which is a thread in reality
# Names of tasks of the server.
_KEEP_ALIVE = "keep this proxy's lease alive"
_SESSIONS = "look after the sessions"


def config(knobs: Knobs, *more: str, number: int = 0) -> Config:
    """The configuration of one of the servers. `more`: further options."""
    return parse(
        [
            "--listen=127.0.0.1:0",
            f"--prefix={PREFIX}",
            "--max-client-connections=0",
            *knobs.options_of(number),
            "--etcd=http://etcd1:2379",
            *more,
        ]
    )


class _Client(EtcdClient):
    """A client that takes etcd as having just answered while the world is quiet, when it is seldom asked."""

    def __init__(self, names: list[str], host: Host, connect: Callable[..., Any]) -> None:
        self._host = host
        super().__init__(names, connect=connect, clock=SimulatedClock(host))

    @property
    @override
    def last_contact(self) -> float:
        return self._host.time() if self._host.world.is_quiet else super().last_contact


def client_of(cluster: Cluster, host: Host) -> EtcdClient:
    """A real client of the simulated etcd, in a process."""
    members = {member.name: member for member in cluster.members}
    names = list(members)
    host.random.shuffle(names)
    return _Client(names, host, lambda name, _port, _tls: Channel(cluster, host, members[name]))


def end_process(cluster: Cluster, host: Host) -> None:
    """End a process at once, with its connections to etcd."""
    host.kill()
    for member in cluster.members:
        for call in list(member.calls):
            if call.host is host:
                call.over()
    for watch in list(cluster.watches):
        if watch.host is host:
            watch.cancel()


class Hardware(NamedTuple):
    """How the clocks of a proxy's host are, and its speed; see `Host`."""

    skew: float = 0.0
    drift: float = 0.0
    burn: float = 0.0


class Proxy:
    """One proxy, through all of its lives."""

    def __init__(self, cluster: Cluster, name: str, settings: Config, tuning: Tuning) -> None:
        self.world = cluster.world
        self.name = name
        self.server: Server | None = None
        self.host: ProxyHost | None = None
        self.levels = KNOWN
        self.serving = False
        #: Why it ended although no fault ended it; "" while it has not.
        self.ended = ""
        self.hardware = Hardware()
        #: Transports of its clients.
        self.transports = Transports()
        #: Its other processes: one that takes over, one that ends after that.
        self.others: dict[ProxyHost, None] = {}
        #: Snapshot writers of this life.
        self.writers: dict[Host, None] = {}
        #: Called when something was read from a session's client: session id, incarnation.
        self.on_heard: Callable[[int, str], None] = lambda _session, _incarnation: None
        self.on_writer: Callable[[Proxy, Host], None] = lambda _proxy, _host: None
        self._cluster = cluster
        self._settings = settings
        self._tuning = tuning
        self._resumed = -_GRACE

    @property
    def alive(self) -> bool:
        """Whether its process runs, or at least stands still."""
        return self.host is not None and not self.host.dead

    @property
    def snapshot_requests(self) -> int:
        """After how many requests a snapshot is due."""
        return self._settings.snapshot_log_requests

    # -- life ------------------------------------------------------------------------------------------------

    def restart_with(self, **settings: Any) -> None:
        """Start anew, with other options."""
        self.kill()
        self._settings = replace(self._settings, **settings)
        self.start()

    def start(self) -> None:
        """Start the proxy's process."""
        self.ended = ""
        self.serving = False
        host = self.host = self.process()
        self._cluster.bugs.on_start(self.name)
        self.world.trace(self.name, f"starts, release {max(self.levels)}")
        host.call_soon(lambda: host.create_task(self._run(host), name="the server"))

    def process(self) -> ProxyHost:
        """A new process on this machine."""
        skew, drift, _ = self.hardware
        host = ProxyHost(self.world, self._cluster.network, self.name, skew, drift)
        host.levels = self.levels
        host.burn = self.hardware.burn
        host.stretched = self._stretched
        host.set_exception_handler(LastResort(lambda reason, _error: self.process_ends(host, reason)))
        host.on_kill = self.kill
        return host

    def process_ends(self, host: Host, reason: str) -> None:
        """A process ends, as `last_resort.end_process` ends it: a mistake, unless it was spoiled."""
        if host.paused or host.dead:
            return  # it has ended
        self.world.trace(host.name, reason)
        if not host.spoiled:
            self.world.on_error(f"{host.name} has ended: {reason}")
        host.pause()  # nothing of it runs any more
        self._cluster.host.call_soon(host.on_kill)

    def _watch(self, host: Host, watchdog: Watchdog) -> None:
        reason = watchdog.look()
        if reason:
            self.world.trace(host.name, "ended by its watchdog")
            self.process_ends(host, reason)
        else:
            host.call_later(self.world.stretched(_WATCH), self._watch, host, watchdog)

    def server_of(self, host: Host) -> Server:
        """A server, which does not run yet, in a process."""
        etcd = self.client(host)
        around = environment(host)
        login = Login(self._settings.sasl, around.randomness)

        async def read_metrics(_endpoint: str) -> Metrics:
            return Metrics({QUOTA: self._cluster.store.quota}, 0.0)

        run_writer = partial(self.run_writer, host)
        server = Server(
            self._settings,
            etcd,
            run_writer,
            login=login,
            environment=around,
            read_metrics=read_metrics,
            peer_port=peer_port(self.name, around.randomness) if self._settings.peer_listen else PeerPort(),
            tuning=self._tuning._replace(levels=host.levels),
        )
        host.call_later(
            _WATCH, self._watch, host, Watchdog(server, host, limit_of(self._settings.max_staleness))
        )
        return server

    async def _run(self, host: ProxyHost) -> None:
        try:
            server = self.server = self.server_of(host)
            await server.start(lambda _count: None, Socket())  # type: ignore[arg-type]
            self.take_entries(server, host)
            self.serving = True
            self.world.trace(self.name, f"serves as {server.log.incarnation}")
            error = await server.failed()
        except (TreeNotServable, EtcdError, PlantedError, MemoryError) as failure:
            error = failure
        if not host.spoiled:
            self.ended = f"{type(error).__name__}: {error}"
        self.world.trace(self.name, f"ends: {type(error).__name__}: {error}")
        host.call_soon(self.kill)

    def take_entries(self, server: Server, host: ProxyHost) -> None:
        """Let a server that has started take the entries of other proxies, if it is to."""
        if self._settings.peer_listen:
            # Few requests: with the usual numbers it stays as it is, or leaves "together" for good.
            choice = Choice(fewest=2, least=1, meeting=0.0)
            server.log.combining.listen(Port(self._cluster.network, host), choice)

    def _stretched(self, delay: float) -> float:
        """How long a task of the server sleeps in quiet stretches, in place of the period of its looks."""
        task = asyncio.current_task()
        name = "" if task is None else task.get_name()
        if name == _KEEP_ALIVE:
            return delay
        if name != _SESSIONS:
            return self.world.stretched(delay)
        assert self.server is not None
        assert self.host is not None
        sessions = self.server.sessions
        if sessions.orphans:
            return delay
        now = self.host.time()
        # A session that begins meanwhile has at least the shortest timeout there is.
        due = [due - now for _, due in self.server.facts.subject.session_due()]
        return self.world.stretched(delay, min([sessions.negotiate(0) / 1000, *due]))

    def client(self, host: Host) -> EtcdClient:
        """A real client of the simulated etcd."""
        return client_of(self._cluster, host)

    def kill(self, *, silently: bool = False) -> None:
        """End at once. `silently`: the machine is gone, so that clients are not notified."""
        if not self.alive:
            return
        assert self.host is not None
        self.serving = False
        for host in (self.host, *self.others):
            host.cut_off(silently=silently)
            self.end_process(host)
        for transport in list(self.transports):
            transport.lose(silently=silently)
        self.transports.clear()
        for writer in list(self.writers):
            self._end_writer(writer)

    def end_process(self, host: ProxyHost) -> None:
        """End one process at once; its connections to clients stay for the caller to end."""
        host.cut_off(silently=False)
        self.others.pop(host, None)
        end_process(self._cluster, host)

    async def stop(self) -> None:
        """Drain, as after SIGTERM; on the proxy's own host."""
        if self.server is not None:
            await self.server.stop()

    def pause(self) -> None:
        """Stand still. The snapshot writers are processes of their own."""
        if self.host is not None:
            self.host.pause()

    def resume(self) -> None:
        """Continue."""
        if self.host is not None and self.host.paused:
            self._resumed = self.world.now
            self.host.resume()

    def serves(self, session: int) -> bool:
        """Whether a connection of a session is open here, though this proxy has had the time to close it."""
        if not self.alive or self.host is None or self.host.paused or self.world.now - self._resumed < _GRACE:
            return False
        return any(transport.session == session for transport in self.transports)

    # -- its snapshot writers --------------------------------------------------------------------------------

    async def run_writer(self, parent: Host, job: Job) -> Answer:
        """What `python -m proxy.log.upkeep.snapshot_writer` does, on a host of its own.

        What goes between the two is JSON, as in reality.
        """
        name = f"{self.name}w"
        host = Host(self.world, name)
        host.levels = self.levels
        self.writers[host] = None
        result = parent.create_future()

        def said(answer: Answer) -> None:
            if not result.done():
                result.set_result(answer)

        async def run() -> None:
            passed = job_of(json.loads(json.dumps(job.as_json())))
            answer = await snapshot_writer.run(self.client(host), passed)
            self.writers.pop(host, None)
            parent.call_soon(said, answer)
            host.call_soon(host.kill)

        def killed() -> None:
            parent.call_soon(said, Failed("the snapshot writer was killed and said nothing"))

        host.on_kill = killed
        host.call_soon(lambda: host.create_task(run(), name="write a snapshot"))
        self.on_writer(self, host)
        return answer_of(json.loads(json.dumps((await result).as_json())))

    def _end_writer(self, host: Host) -> None:
        self.writers.pop(host, None)
        if not host.dead:
            host.kill()

    # -- its clients -----------------------------------------------------------------------------------------

    def accept(self, client: str, target: Host, came: Callable[[bytes | None], None]) -> "Transport | None":
        """A client connects. `came` gets what is sent to it, on `target`, and None at the end.

        Returns None if no process listens.
        """
        host = self.host
        if host is None or host.dead or host.listener is None:
            return None
        return Transport(self, host, self._cluster.network, client, target, came)


async def upgrade(etcd: EtcdClient, level: int, levels: frozenset[int]) -> str:
    """An operator raises the level; the reason if it is refused."""
    try:
        await raise_level(etcd, Keyspace(PREFIX), level, levels=levels, version="operator")
    except (CommandFailed, TreeNotServable, EtcdError) as error:
        return str(error) or type(error).__name__
    finally:
        await etcd.close()
    return ""
