"""The server, as its connections see it."""

from typing import Protocol, TypeVar

from codec.packets import ConnectRequest
from proxy.frontend.load import Load
from proxy.frontend.touched import Touched
from proxy.log.pending import Pending
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


class Host(Protocol[Connection]):
    """What a connection asks and tells the server."""

    reading: Reading
    latency: Latency
    auth: Offer
    counters: Counters
    operations: Operations
    load: Load
    touched: Touched

    @property
    def machine(self) -> Machine:
        """The state machine."""

    def submit(self, pending: Pending) -> None:
        """Give a request to the log."""

    def attach(self, connection: Connection, request: ConnectRequest) -> None:
        """Find or make the session of a connection, then call its `established`, `refuse` or `close`."""

    def four_letter_word(self, word: bytes, rest: bytes) -> bytes | None:
        """The answer to a four-letter word and what came with it, None if it is none."""

    def opened(self, connection: Connection) -> bool:
        """A connection has come; False if there are too many from its address."""

    def gone(self, connection: Connection) -> None:
        """A connection has ended."""
