"""The items that wait in the queue of a connection. Data only; the rules are in `order`. Pure."""

from typing import Any, NamedTuple, Protocol, TypeAlias

from codec.constants import ErrorCode
from proxy.log.append.pending import Pending
from schema.entry import Identities, Kind

#: The zxid of a write whose outcome is not known yet.
UNKNOWN = -1

_CLIENT = int(Kind.CLIENT)  # a plain number: looking up an enum's member costs more than all the rest


class Author(Protocol):
    """The client of a request."""

    @property
    def address(self) -> str:
        """Its address."""

    @property
    def port(self) -> int:
        """The port on its side."""

    @property
    def session_id(self) -> int:
        """Its session."""

    @property
    def identities(self) -> Identities:
        """The identities that it has proved so far."""


class Writer(Protocol):
    """The connection of a write."""

    def applied(self, write: "Write", zxid: int, err: int, body: bytes) -> None:
        """Process the outcome of a write (proxy.frontend.connection.Connection.applied)."""


class Write(Pending):
    """A write of this connection, in the log."""

    __slots__ = ("err", "received", "reply", "size", "writer", "xid", "zxid")

    err: int  # like `reply`, set only if the outcome is known before this write is at the head
    reply: bytes

    def __init__(
        self,
        writer: Writer,
        author: Author,
        xid: int,
        opcode: int,
        packet: bytes,
        position: int,
        fields: Any,
        received: int,
    ) -> None:
        """`position`: where the body begins in the packet. `fields`: the body decoded, None if not yet."""
        # Set here instead of by Pending.__init__, which would be one more call for each write.
        self.kind = _CLIENT
        self.session_id = author.session_id
        self.opcode = opcode
        self.identities = author.identities
        self.body = packet[position:]
        self.fields = fields
        self.writer = writer
        self.xid = xid
        self.size = len(packet)
        self.received = received  # nanoseconds
        self.zxid = UNKNOWN

    def applied(self, zxid: int, err: int, body: bytes) -> None:
        """As Pending.applied: the connection makes the reply."""
        self.writer.applied(self, zxid, err, body)


class ReadRun:
    """Light reads that were received together, one after the other."""

    __slots__ = ("packets", "received")

    def __init__(self, packet: bytes, received: int) -> None:
        self.packets = [packet]
        self.received = received


class Refused(NamedTuple):
    """A write that cannot be decoded. Its error is sent when it is at the head."""

    xid: int
    code: ErrorCode
    size: int


class Held(NamedTuple):
    """A write that may not be sent to the log before the requests before it are answered."""

    xid: int
    opcode: int
    packet: bytes
    received: int


class Single(NamedTuple):
    """A heavy read, or a request that concerns only the connection."""

    xid: int
    opcode: int
    packet: bytes
    received: int
    weight: int  # for a write after it, see `request_queue`


class Awaited(NamedTuple):
    """The request at the head of the queue, whose answer is made elsewhere: a slow read, or a SASL token."""

    xid: int
    opcode: int
    packet: bytes
    received: int


Item: TypeAlias = Write | ReadRun | Refused | Held | Single | Awaited


class Waiting(NamedTuple):
    """The data of an item in the queue that operators see."""

    opcode: int
    path: str | None  # None if it has none, or is not decoded yet
    in_log: bool  # it waits for the log, not for the requests before it
    received: int  # nanoseconds


def path_of(fields: Any) -> str | None:
    """The path in a write's decoded fields; None if it has none."""
    path = fields if isinstance(fields, str) else fields[0] if isinstance(fields, tuple) and fields else None
    return path if isinstance(path, str) else None


class SaslAnswer(NamedTuple):
    """The answer to one token of SASL. With an error it is the last packet of the connection."""

    err: int
    token: bytes | None
    is_sent: bool = True  # False: the connection ends without it
