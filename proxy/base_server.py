"""What a server of the present and one of the past have in common: what clients and operators see of them.

`server` puts it over the replicated log, `past` over a moment of an archive.
"""

import asyncio
import socket
from abc import ABC, abstractmethod
from functools import partial

from proxy.admin.facts import Facts
from proxy.admin.four_letter import FourLetterWords
from proxy.admin.state_source import StateSource
from proxy.admin.subject import ProcessFacts, Subject
from proxy.config import Config
from proxy.frontend.admission import ConnectionLimits
from proxy.frontend.certificates import TlsContext
from proxy.frontend.connection import Connection, Connections, Services
from proxy.frontend.handshake import Handshake, PastHandshake
from proxy.frontend.limits import LIMITS, Limits, Load
from proxy.frontend.listener import Ports, bound_socket
from proxy.frontend.order import OrderContext
from proxy.frontend.request_logs import RequestLogs
from proxy.frontend.sampling import Sampling
from proxy.frontend.session_timer import interval_of
from proxy.frontend.sessions import Sessions, Timeouts
from proxy.frontend.traced import Traces, TraceSources
from proxy.frontend.turns import FlushQueue, StateGate
from proxy.sasl.login import Login
from proxy.state.auth import scheme
from proxy.state.auth.schemes import AuthSchemes, offered
from proxy.state.capture import new_machine
from proxy.state.operation import Reading
from proxy.state.ops import EXTENDED, FEATURES, PLAIN
from proxy.state.ops.features import system_nodes
from proxy.state.pause import AtOnce
from proxy.state.watches import WatchTable
from proxy.support import descriptors, logs
from proxy.support.counters import Counters
from proxy.support.environment import HOST, Environment
from proxy.support.latency import Latency
from proxy.support.tasks import Tasks
from proxy.support.user import user_name
from proxy.traces.span import Tracer

_CLOSE_TIMEOUT = 1.0  # seconds for clients to take their last replies


class BaseServer(ABC):
    """A server, except for what its state comes from: `_serve` adds that."""

    def __init__(
        self,
        config: Config,
        tls: TlsContext | None = None,
        login: Login | None = None,
        environment: Environment = HOST,
        limits: Limits = LIMITS,
    ) -> None:
        """`tls`, `login`: for clients, if any. `environment`: clocks and randomness.

        `limits`: of one connection. The state is empty.
        """
        self._config = config
        self._tls = tls
        self._login = login
        self._environment = environment
        self._limits = limits
        self._loop = loop = asyncio.get_running_loop()
        self._tasks = Tasks()
        self._operations = EXTENDED if config.keeper_extensions else PLAIN
        self.clock = environment.clock
        self.machine = new_machine(0)
        self.watches = WatchTable()
        self._counters = counters = Counters()
        self._interval = interval_of(config.tick_time)  # seconds between two checks of the sessions
        self.sessions = Sessions(
            self.machine,
            Timeouts(config.min_session_timeout, config.max_session_timeout),
            self._interval,
            counters,
            loop.time,
            self._session_ended if config.audit_log else None,
        )
        self.shares = descriptors.current()
        limits_of_all = ConnectionLimits(
            config.max_client_connections, config.max_connections, counters, self.shares.clients
        )
        self.connections = Connections(limits_of_all)
        self.ports = Ports(self._new_connection, limits_of_all, tls, config.proxy_protocol, loop, self._tasks)
        self.auth = AuthSchemes(
            offered(x509=tls is not None, sasl=login is not None),
            scheme.Settings(config.super_digest or None, config.tls.super_user or None),
        )
        self.sampling = Sampling(config.top, environment.randomness.randbits, self.clock.monotonic)
        #: What the program that runs this server finds out.
        self.process = ProcessFacts()

    def _serve(
        self, source: StateSource, handshake: Handshake | PastHandshake, tracer: Tracer | None = None
    ) -> None:
        """Put the server over its state. Called once, by the subclass's `__init__`.

        `tracer`: takes the spans of clients' requests, if any.
        """
        config, operations = self._config, self._operations
        worker = source.worker
        self._handshake = handshake
        self.flush_queue = FlushQueue(worker.after_slice, clock=self.clock, before=source.before_flush)
        self.state_gate = StateGate(
            worker, self._loop, clock=self.clock, lengths=worker.lengths, look=source.look
        )
        self.request_logs = self._request_logs(source)
        latency = Latency(operations.updates)
        self.facts = Facts(
            Subject(
                config=config,
                clock=self.clock,
                started=self.clock.time(),
                features=FEATURES if operations.keeper else (),
                machine=self.machine,
                watches=self.watches,
                latency=latency,
                counters=self._counters,
                source=source,
                connections=self.connections,
                sampling=self.sampling,
                sessions=self.sessions,
                ports=self.ports,
                handshake=handshake,
                process=self.process,
            )
        )
        self.words = FourLetterWords(self.facts, config.four_letter_words)
        system = system_nodes(FEATURES, config.max_frame, config.availability_zone)
        reading = Reading(
            self.machine.tree,
            self.watches,
            system if config.keeper_extensions else {},
            AtOnce(worker.lengths),
        )
        traces = None
        if tracer is not None:
            sources = TraceSources(lambda: self.machine.zxid, source.stages, source.position)
            traces = Traces(tracer, sources, self.clock.perf_counter_ns)
        self._services = Services(
            context=OrderContext(
                self.machine,
                reading,
                operations,
                frozenset(config.sasl.enforced),
                self._limits._replace(decoded_at_once=worker.lengths.decoded_at_once),
            ),
            auth=self.auth,
            max_frame=config.max_frame,
            latency=latency,
            counters=self._counters,
            load=Load(config.global_outstanding_limit),
            flush_queue=self.flush_queue,
            state_gate=self.state_gate,
            submit=source.submit,
            begin_handshake=handshake.begin,
            answer_word=self.words.answer,
            connections=self.connections,
            sampling=self.sampling,
            request_logs=self.request_logs,
            traces=traces,
            login=self._login,
            environment=self._environment,
        )

    def _request_logs(self, source: StateSource) -> RequestLogs | None:
        """The audit log and the log of slow requests; None for neither."""
        config = self._config
        if not config.audit_log and not config.slow_request:
            return None
        return RequestLogs(
            user=user_name(),
            write_audit=partial(logs.audit.info, "%s") if config.audit_log else None,
            slow_ms=config.slow_request,
            stages=source.stages,
            deleted_ephemerals=lambda: self.machine.transaction.deleted_ephemerals,
            clock=self.clock.perf_counter_ns,
            writes=frozenset(self._operations.writes),
            rest=source.worker.rest,
        )

    def _new_connection(self) -> Connection:
        return Connection(self._services, self._loop)

    def _session_ended(self, session_id: int, killer: str = "") -> None:
        if self.request_logs is not None:
            self.request_logs.session_ended(session_id, killer)

    # -- life ----------------------------------------------------------------------------------------------

    async def _listen(self, listener: socket.socket | None, secure: socket.socket | None) -> None:
        listener = listener or bound_socket(self._config.host, self._config.port)
        await self.ports.open(listener, secure, self._config.tls.listen)

    def _drain(self) -> None:
        """Take no more clients and requests."""
        if self.request_logs is not None:
            self.request_logs.server("serverStop")
        self._handshake.is_open = False
        self.ports.close()
        self.connections.drain()

    async def _close_clients(self) -> None:
        """Close the connections."""
        await self.connections.close(_CLOSE_TIMEOUT)
        if self._login is not None:
            self._login.close()

    # -- what others ask -----------------------------------------------------------------------------------

    @abstractmethod
    async def kill(self, session_id: int, who: str) -> int:
        """End a session of the tree in the name of an administrator; the error, or 0."""

    def connection(self) -> Connection:
        """A connection without a port: the console's, a test's, one that another process has accepted."""
        return self.ports.connection(admitted=False)

    @property
    def port(self) -> int:
        """That of --listen, once it is open; 0 before."""
        return self.ports.number
