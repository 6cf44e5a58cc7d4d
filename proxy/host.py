"""The server, as its connections see it."""

from typing import TYPE_CHECKING, Protocol

from codec.packets import ConnectRequest
from proxy.auth.schemes import Offer
from proxy.batch import Request
from proxy.counters import Counters
from proxy.latency import Latency
from proxy.load import Load
from proxy.operation import Operations, Reading
from proxy.sessions import Session

if TYPE_CHECKING:
    from proxy.connection import Connection


class Host(Protocol):
    """What a connection asks and tells the server."""

    reading: Reading
    latency: Latency
    auth: Offer
    counters: Counters
    operations: Operations
    load: Load

    @property
    def zxid(self) -> int:
        """The zxid that the mirror has reached."""

    def unchanged_since(self, path: str, zxid: int) -> bool:
        """Whether a read of this node alone would have been answered the same at `zxid`."""

    def submit(self, request: Request) -> None:
        """Give a write to the committer."""

    def attach(self, connection: "Connection", request: ConnectRequest) -> None:
        """Find or make the session of a connection, then call `established` or `refuse`."""

    def session_ended(self, session: Session, closer: "Connection") -> None:
        """A client has closed its session, by this connection."""

    def four_letter_word(self, word: bytes, rest: bytes) -> bytes | None:
        """The answer to a four-letter word and what came with it, None if it is none."""

    def opened(self, connection: "Connection") -> bool:
        """A connection has come; False if there are too many from its address."""

    def gone(self, connection: "Connection") -> None:
        """A connection has ended."""
