"""The parts and settings of the server that each of its connections uses."""

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from codec.packets import ConnectRequest
from proxy.frontend.flush_queue import FlushQueue
from proxy.frontend.load import Load
from proxy.frontend.long_reads import LongReads
from proxy.frontend.request_logs import RequestLogs
from proxy.frontend.traced import Traces
from proxy.frontend.whole_state import WholeStateQueue
from proxy.log.pending import Pending
from proxy.sasl.login import Login
from proxy.state.auth.schemes import AuthSchemes
from proxy.state.operation import Operations, Reading
from proxy.support.counters import Counters
from proxy.support.environment import HOST, Environment
from proxy.support.latency import Latency
from proxy.support.throttled_log import ThrottledLog

log = logging.getLogger("proxy.frontend.connection")  # whose messages they are

Connection = TypeVar("Connection", contravariant=True)


class Machine(Protocol):
    """The state machine, as far as connections need it."""

    @property
    def zxid(self) -> int:
        """The zxid that it has reached."""

    @property
    def midway(self) -> bool:
        """Whether a write is applied in part."""

    @property
    def changing(self) -> Collection[str] | None:
        """While `midway`: the paths of at least all nodes that the write has changed; None for everything."""


@dataclass(frozen=True, slots=True)
class Services(Generic[Connection]):
    """What one server gives to each of its connections."""

    machine: Machine
    reading: Reading
    operations: Operations
    auth: AuthSchemes
    max_frame: int  # bytes
    latency: Latency
    counters: Counters
    load: Load
    flush_queue: FlushQueue
    whole_state_queue: WholeStateQueue
    long_reads: LongReads
    #: Gives a request to the log.
    submit: Callable[[Pending], None]
    #: Finds or makes the session of a connection, then calls its `established`, `refuse` or `close`.
    attach: Callable[[Connection, ConnectRequest], None]
    #: The answer to a four-letter word and what came with it, line by line; None if it is none.
    four_letter_word: Callable[[bytes, bytes], Iterator[str] | None]
    #: A connection has come; False if there are too many from its address.
    opened: Callable[[Connection], bool]
    #: A connection has ended.
    gone: Callable[[Connection], None]
    #: The audit log and the log of slow requests; None for neither.
    request_logs: RequestLogs | None = None
    #: Traces some of the requests; None for none. `operations` reports reads to it.
    traces: Traces | None = None
    #: Authenticates clients by SASL; None where SASL is not offered.
    login: Login | None = None
    #: Only clients with an identity of one of these schemes are served; empty: all are.
    enforced_schemes: frozenset[str] = frozenset()
    #: Clocks and randomness.
    environment: Environment = HOST
    #: For connections that send something else than a ZooKeeper client does, such as port scanners.
    throttled_log: ThrottledLog = field(default_factory=lambda: ThrottledLog(log))
