"""The parts and settings of the server that each of its connections uses."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from proxy.frontend.connections import Connections
from proxy.frontend.handshake import Handshake
from proxy.frontend.replies import LIMITS, Limits
from proxy.frontend.request_logs import RequestLogs
from proxy.frontend.traced import Traces
from proxy.frontend.turns import FlushQueue, StateGate
from proxy.log.append.outbox import Outbox
from proxy.sasl.login import Login
from proxy.state.auth.schemes import AuthSchemes
from proxy.state.machine import Machine
from proxy.state.operation import Operations, Reading
from proxy.state.pause import Pause
from proxy.support.counters import Counters
from proxy.support.environment import HOST, Environment
from proxy.support.latency import Latency
from proxy.support.throttled_log import ThrottledLog

log = logging.getLogger("proxy.frontend.connection")  # the connections log by it

#: Answers a four-letter word, line by line; None if it is no word. It gets the bytes received with the word.
AnswerWord: TypeAlias = Callable[[bytes, bytes, Pause], Iterator[str] | None]

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


@dataclass(frozen=True, slots=True)
class Services:
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
    handshake: Handshake
    answer_word: AnswerWord
    connections: Connections[Any]
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
