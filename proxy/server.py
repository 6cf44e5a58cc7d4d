"""The server: connects the parts, starts them in order, and drains them at the end.

The log sees the server as its `Listener`, the admin side as its `Subject`.
"""

import asyncio
import getpass
import logging
import socket
from collections.abc import Callable, Collection, Iterator
from functools import partial

from codec.constants import KeeperFeature
from proxy.admin.environment import VERSION
from proxy.admin.facts import Facts
from proxy.admin.four_letter import FourLetterWords
from proxy.admin.subject import Settings
from proxy.config import Config
from proxy.etcd.calls import Calls
from proxy.etcd.interface import Etcd
from proxy.etcd.model import Status
from proxy.etcd.status_poller import StatusPoller
from proxy.frontend.certificates import TlsContext
from proxy.frontend.connection import Connection
from proxy.frontend.connections import ConnectionLimits, Connections
from proxy.frontend.flush_queue import FlushQueue
from proxy.frontend.handshake import Handshake
from proxy.frontend.load import Load
from proxy.frontend.long_reads import LongReads
from proxy.frontend.ports import Ports, bound_socket
from proxy.frontend.read_only import ReadOnlySessions
from proxy.frontend.request_logs import RequestLogs, Stages
from proxy.frontend.services import Services
from proxy.frontend.session_timer import SessionTimer, interval_of
from proxy.frontend.sessions import OUTAGE, Contact, Sessions
from proxy.frontend.traced import Facts as TracedFacts
from proxy.frontend.traced import Traces
from proxy.frontend.whole_state import WholeStateQueue
from proxy.log.log import Log, LogSettings
from proxy.log.node_expiry import NodeExpiry, Pace
from proxy.log.snapshots import Access, Snapshots
from proxy.sasl.login import Login
from proxy.state.auth import scheme
from proxy.state.auth.schemes import AuthSchemes, offered
from proxy.state.expiry import Expiry
from proxy.state.machine import Disagreement, Machine, SessionChange
from proxy.state.operation import Operations, Reading
from proxy.state.ops import EXTENDED, FEATURES, PLAIN
from proxy.state.ops.features import system_nodes
from proxy.state.watches import WatchTable
from proxy.support import logs
from proxy.support.counters import Counters
from proxy.support.environment import HOST, Environment
from proxy.support.latency import Histogram, Latency
from proxy.support.tasks import Tasks
from proxy.traces.span import Tracer
from schema.entry import Rules
from schema.keys import Keyspace

log = logging.getLogger(__name__)

_DRAIN_TIMEOUT = 10.0  # seconds for requests in the log when the server stops
_CLOSE_TIMEOUT = 1.0  # seconds for clients to take their last replies


class Server:
    """One proxy."""

    def __init__(
        self,
        config: Config,
        etcd: Etcd,
        access: Access,
        tls: TlsContext | None = None,
        login: Login | None = None,
        tracer: Tracer | None = None,
        environment: Environment = HOST,
    ) -> None:
        """`access`: how the writer of snapshots reaches etcd. `tls`, `login`: for clients, if any.

        `tracer`: takes the spans of clients' requests, if any. `environment`: clocks and randomness.
        """
        self._config = config
        self._login = login
        self._etcd = etcd
        self._tasks = Tasks()
        self._running: list[asyncio.Task[None]] = []
        self._draining = False
        loop = asyncio.get_running_loop()
        self._environment = environment
        self.clock = environment.clock
        self.started = self.clock.time()
        self.settings = _settings(config)
        self.counters = Counters()
        self.pauses = Histogram()
        operations = EXTENDED if config.keeper_extensions else PLAIN
        self.features: Collection[KeeperFeature] = FEATURES if operations.extended else ()
        self.latency = Latency((*operations.reads, *operations.writes))
        self.auth = AuthSchemes(
            offered(x509=tls is not None, sasl=login is not None),
            scheme.Settings(config.super_digest or None, config.tls.super_user or None),
        )
        self._status_poller = StatusPoller(etcd)

        # The replicated log, and the state that it leads to.
        keys = Keyspace(config.prefix)
        self.watches = WatchTable()
        log_settings = _log_settings(config, has_tls=tls is not None, has_sasl=login is not None)
        self.log = Log(etcd, keys, self._tasks, self, self.watches, log_settings, environment)
        self.machine: Machine = self.log.machine
        self.snapshots = Snapshots(
            self.log,
            etcd,
            keys,
            access,
            least_bytes=config.snapshot_log_bytes,
            least_requests=config.snapshot_log_requests,
            on_wrong=self.log.distrust,
        )
        self.log.on_disagreement = self._judge
        self._expiry = Expiry(config.container_max_never_used)
        self._node_expiry = NodeExpiry(
            self.machine,
            self._expiry,
            lambda: self.log.members.eldest == self.log.incarnation,
            self.log.submit,
            Pace(config.container_check_interval, config.container_max_per_minute),
        )

        # Sessions.
        self.request_logs = self._request_logs(config, frozenset(operations.writes))
        interval = interval_of(config.tick_time)
        self.sessions = Sessions(
            config.min_session_timeout,
            config.max_session_timeout,
            interval,
            self.counters,
            None if self.request_logs is None else self.request_logs.session_ended,
        )
        read_only = ReadOnlySessions(
            self.sessions, lambda: self.machine.zxid, lambda: self.in_touch, loop.time
        )
        handshake = Handshake(
            self.machine,
            self.sessions,
            self.log.submit,
            lambda: self.in_touch,
            read_only if config.read_only_mode else None,
            loop,
        )
        self._timer = SessionTimer(
            self.machine, self.sessions, handshake, read_only, self.log.submit, self._contact, interval
        )

        # Connections, and what operators ask of them.
        limits = ConnectionLimits(config.max_client_connections, config.max_connections, self.counters)
        self.connections: Connections[Connection] = Connections(limits)
        self.facts = Facts(self)
        self.words = FourLetterWords(self.facts, config.four_letter_words)
        services = self._services(operations, handshake, None if tracer is None else self._traces(tracer))
        self._ports = Ports(
            lambda: Connection(services, loop), limits, tls, config.proxy_protocol, loop, self._tasks
        )

    def _services(
        self, operations: Operations, handshake: Handshake, traces: Traces | None
    ) -> Services[Connection]:
        """What each connection uses."""
        config = self._config
        replicated = self.log
        loop = asyncio.get_running_loop()
        system = system_nodes(FEATURES, config.max_frame, config.availability_zone)
        return Services(
            machine=self.machine,
            reading=Reading(self.machine.tree, self.watches, system if config.keeper_extensions else {}),
            operations=operations if traces is None else traces.operations(operations),
            auth=self.auth,
            max_frame=config.max_frame,
            latency=self.latency,
            counters=self.counters,
            load=Load(config.global_outstanding_limit),
            flush_queue=FlushQueue(loop),
            whole_state_queue=WholeStateQueue(self.machine, loop, replicated.when_whole),
            long_reads=LongReads(
                self.machine, loop, replicated.hold, replicated.release, replicated.when_whole
            ),
            submit=replicated.submit,
            attach=handshake.attach,
            four_letter_word=self.words.answer,
            opened=self.connections.opened,
            gone=self.connections.gone,
            request_logs=self.request_logs,
            traces=traces,
            login=self._login,
            enforced_schemes=frozenset(config.sasl.enforced),
            environment=self._environment,
        )

    def _request_logs(self, config: Config, writes: frozenset[int]) -> RequestLogs | None:
        """The audit log and the log of slow requests; None for neither. `writes`: opcodes."""
        if not config.audit_log and not config.slow_request:
            return None
        return RequestLogs(
            getpass.getuser(),
            partial(logs.audit.info, "%s") if config.audit_log else None,
            config.slow_request,
            self._stages,
            lambda: self.machine.ended,
            self.clock.perf_counter_ns,
            writes,
        )

    def _stages(self) -> Stages:
        return Stages(*self.log.stages)

    def _traces(self, tracer: Tracer) -> Traces:
        facts = TracedFacts(lambda: self.machine.zxid, self._stages, lambda: self.log.position)
        return Traces(tracer, facts, self.clock.perf_counter_ns)

    # -- life ----------------------------------------------------------------------------------------------

    async def start(
        self,
        progress: Callable[[int], None],
        listener: socket.socket | None = None,
        secure: socket.socket | None = None,
    ) -> None:
        """Load the state, follow the log until caught up with etcd, then listen.

        `listener`: a bound socket to listen on, in place of one for the configured address; `secure`: one
        that takes only TLS.
        """
        await self.log.load(progress)
        await self.log.start()
        self._timer.ready({member.incarnation for member in self.log.members})
        for work, what in (
            (self._timer.run(), "look after the sessions"),
            (self._node_expiry.run(), "delete containers and TTL nodes that are due"),
            (self.snapshots.run(), "write snapshots"),
        ):
            self._running.append(self._tasks.start(work, what))
        self._tasks.start(self._status_poller.run(), "ask etcd for its status")
        listener = listener or bound_socket(self._config.host, self._config.port)
        await self._ports.open(listener, secure, self._config.tls.listen)
        if self.request_logs is not None:
            self.request_logs.server("serverStart")

    async def failed(self) -> BaseException:
        """Wait for a fault that the server cannot go on with."""
        # The tasks are not awaited themselves: giving up waiting for a failure must not end them.
        of_log = self._tasks.start(self.log.failed(), "wait for a failure of the log")
        await asyncio.wait((*self._running, of_log), return_when=asyncio.FIRST_COMPLETED)
        for task in self._running:
            if task.done():
                return task.exception() or RuntimeError(f"the task to {task.get_name()} ended")
        fault: BaseException = await of_log
        return fault

    async def stop(self) -> None:
        """Stop accepting, answer what is here, close the connections. Sessions stay alive for others."""
        if self.request_logs is not None:
            self.request_logs.server("serverStop")
        self._draining = True
        self._ports.close()
        self.connections.drain()
        if not await self.log.drain(_DRAIN_TIMEOUT):
            log.warning("etcd did not answer in time; %d requests stay unanswered", self.log.outstanding)
        await self.connections.close(_CLOSE_TIMEOUT)
        for task in self._running:
            task.cancel()
        if self._login is not None:
            self._login.close()
        await self.log.stop()
        await self._tasks.close()

    def connection(self) -> Connection:
        """A connection that comes by another way than a port: the console's, a test's."""
        return self._ports.connection(admitted=False)

    # -- for the log ---------------------------------------------------------------------------------------

    def registered(self, incarnation: str) -> None:
        """This proxy appends under this name from now on."""
        self.sessions.incarnation = incarnation

    def session_changed(self, change: SessionChange) -> None:
        """A session began, came to another proxy, or ended."""
        self._timer.session_changed(change)

    def proxy_came(self, incarnation: str) -> None:
        """A proxy lives."""
        self._timer.proxy_came(incarnation)

    def proxy_gone(self, incarnation: str) -> None:
        """A proxy stopped, or died."""
        self._timer.proxy_gone(incarnation)

    def reloaded(self) -> None:
        """The state was loaded again."""
        self._expiry.forget()
        self._timer.ready({member.incarnation for member in self.log.members})

    def stopped_serving(self, reason: str) -> None:
        """The state may be old: close all connections."""
        log.error("closing all connections: %s", reason)
        for connection in self.connections:
            connection.close()

    def _judge(self, disagreement: Disagreement) -> None:
        self._tasks.start(self.snapshots.judge(disagreement), "find out whose digest is right")

    def _contact(self) -> Contact:
        replicated = self.log
        return Contact(
            self.silence,
            replicated.keep_alive_sent,
            replicated.lease_seconds,
            replicated.members.rank(replicated.incarnation),
        )

    # -- for the admin side --------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """That of --listen, once it is open; 0 before."""
        return self._ports.number

    @property
    def serving(self) -> bool:
        """Whether the tree is loaded and clients are let in."""
        return self._ports.are_open and not self._draining

    @property
    def in_touch(self) -> bool:
        """Whether etcd has answered lately and what it had is applied."""
        return self.silence <= OUTAGE and self.log.is_caught_up

    @property
    def silence(self) -> float:
        """Seconds since etcd last answered."""
        return self.log.silence

    @property
    def etcd_calls(self) -> Calls:
        """How etcd answers."""
        return self._etcd.calls

    @property
    def etcd_status(self) -> Status | None:
        """What etcd said of itself some seconds ago."""
        return self._status_poller.status

    @property
    def session_count(self) -> int:
        """Sessions that are attached to this proxy."""
        return len(self.sessions)

    def session_due(self) -> Iterator[tuple[int, float]]:
        """The sessions of this proxy, each with the time when it expires if nothing is heard."""
        return ((session.id, session.heard + session.timeout_ms / 1000) for session in self.sessions)


def _settings(config: Config) -> Settings:
    return Settings(
        config.data_dir,
        config.prefix,
        config.tick_time,
        config.max_client_connections,
        config.min_session_timeout,
        config.max_session_timeout,
        config.tls.secure[1] if config.tls.secure else -1,
        config.read_only_mode,
    )


def _log_settings(config: Config, *, has_tls: bool, has_sasl: bool) -> LogSettings:
    rules = Rules(0)
    for rule, wanted in (
        (Rules.EXTENDED_TYPES, config.extended_types),
        (Rules.ENFORCE_QUOTA, config.enforce_quota),
        (Rules.KEEPER, config.keeper_extensions),
        (Rules.X509, has_tls),
        (Rules.SASL, has_sasl),
    ):
        if wanted:
            rules |= rule
    return LogSettings(
        lease_seconds=config.proxy_lease,
        rules=rules,
        version=VERSION.partition(",")[0],
        max_staleness=config.max_staleness,
    )
