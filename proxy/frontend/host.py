"""What a connection needs of the server."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from codec.packets import ConnectRequest
from proxy.frontend.gate import Gate
from proxy.frontend.load import Load
from proxy.frontend.long_reads import LongReads
from proxy.frontend.request_logs import RequestLogs
from proxy.frontend.touched import Touched
from proxy.frontend.traced import Traces
from proxy.log.pending import Pending
from proxy.sasl.login import Login
from proxy.state.auth.schemes import Offer
from proxy.state.operation import Operations, Reading
from proxy.support.counters import Counters
from proxy.support.latency import Latency

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
class Host(Generic[Connection]):
    """What a connection asks and tells the server."""

    machine: Machine
    reading: Reading
    operations: Operations
    auth: Offer
    max_frame: int  # bytes
    latency: Latency
    counters: Counters
    load: Load
    touched: Touched
    gate: Gate
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
    #: What is written down of requests; None for nothing.
    request_logs: RequestLogs | None = None
    #: Traces some of the requests; None for none. `operations` tells it of reads.
    traces: Traces | None = None
    #: Whom clients can prove to be by SASL; None if by none.
    login: Login | None = None
    #: Clients are served only with an identity of one of these schemes; none: all are.
    enforced_schemes: frozenset[str] = frozenset()
