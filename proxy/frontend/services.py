"""The parts and settings of the server that each of its connections uses."""

import logging
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from codec.packets import ConnectRequest
from proxy.frontend.opening import Words
from proxy.frontend.replies import LIMITS, Limits, Machine
from proxy.frontend.request_logs import RequestLogs
from proxy.frontend.traced import Traces
from proxy.frontend.turns import FlushQueue, StateGate
from proxy.log.outbox import Outbox
from proxy.sasl.login import Login
from proxy.state.auth.schemes import AuthSchemes
from proxy.state.operation import Operations, Reading
from proxy.support.counters import Counters
from proxy.support.environment import HOST, Environment
from proxy.support.latency import Latency
from proxy.support.throttled_log import ThrottledLog

log = logging.getLogger("proxy.frontend.connection")  # the connections log by it

Connection = TypeVar("Connection", contravariant=True)

# Above so many bytes of waiting requests the limit counts as reached, however few the requests are.
_MAX_BYTES = 256 << 20


class Load:
    """Counts the unanswered requests of all clients, for their common limit (globalOutstandingLimit).

    Each connection updates the sums after each chunk.
    """

    __slots__ = ("_limit", "requests", "size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.requests = 0
        self.size = 0  # bytes

    @property
    def is_too_much(self) -> bool:
        """Whether to stop reading from clients with a waiting request (ZooKeeperServer.shouldThrottle)."""
        return self.requests > self._limit or self.size > _MAX_BYTES


class ConnectHandler(Protocol[Connection]):
    """Answers connect requests (proxy.frontend.handshake.Handshake)."""

    def attach(self, connection: Connection, request: ConnectRequest) -> None:
        """Find or make the connection's session, then call its `established`, `refuse` or `close`."""


class OpenConnections(Protocol[Connection]):
    """The open connections (proxy.frontend.connections.Connections)."""

    def opened(self, connection: Connection) -> bool:
        """A connection is open; False if it must be closed: a limit is reached, or the server stops."""

    def gone(self, connection: Connection) -> None:
        """A connection has ended."""

    @property
    def are_frozen(self) -> bool:
        """Whether another process takes over, so that no requests are taken."""


@dataclass(frozen=True, slots=True)
class Services(Generic[Connection]):
    """The parts and settings that all connections of one server share."""

    machine: Machine
    reading: Reading
    operations: Operations
    auth: AuthSchemes
    max_frame: int  # bytes
    latency: Latency
    counters: Counters
    load: Load
    flush_queue: FlushQueue
    state_gate: StateGate
    outbox: Outbox
    handshake: ConnectHandler[Connection]
    words: Words
    connections: OpenConnections[Connection]
    #: The audit log and the log of slow requests; None for neither.
    request_logs: RequestLogs | None = None
    #: Traces some of the requests; None for none.
    traces: Traces | None = None
    #: Authenticates clients by SASL; None if SASL is not offered.
    login: Login | None = None
    #: Only clients with an identity of one of these schemes are served; empty: all are.
    enforced_schemes: frozenset[str] = frozenset()
    #: Clocks and randomness.
    environment: Environment = HOST
    limits: Limits = LIMITS
    #: Logs connections that do not send what a ZooKeeper client does, such as port scanners.
    throttled_log: ThrottledLog = field(default_factory=lambda: ThrottledLog(log))
