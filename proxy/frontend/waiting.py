"""What waits in the queue of a connection to be answered. Data only; the rules are in `order`. Pure."""

from collections.abc import Callable
from typing import Any, NamedTuple

from codec.constants import ErrorCode
from proxy.log.pending import Pending
from proxy.state.operation import ReadOperation
from schema.entry import Identities, Kind

#: The zxid of a write whose outcome is not known yet.
UNKNOWN = -1

_CLIENT = int(Kind.CLIENT)  # a plain number: looking up an enum's member costs more than all the rest


class Write(Pending):
    """A write of this connection, in the log."""

    __slots__ = ("done", "err", "received", "reply", "size", "xid", "zxid")

    err: int  # set only if the outcome is known before it is this write's turn to be answered; so is `reply`
    reply: bytes

    def __init__(
        self,
        session_id: int,
        opcode: int,
        identities: Identities,
        body: bytes,
        done: Callable[[Pending, int, int, bytes], None],
        fields: Any,
        xid: int,
        size: int,
        received: int,
    ) -> None:
        # Set here and not by Pending.__init__, which would be one more call for each write.
        self.kind = _CLIENT
        self.session_id = session_id
        self.opcode = opcode
        self.identities = identities
        self.body = body
        self.done = done
        self.fields = fields
        self.xid = xid
        self.size = size
        self.received = received  # nanoseconds, when it came
        self.zxid = UNKNOWN

    def applied(self, zxid: int, err: int, body: bytes) -> None:
        """As Pending.applied."""
        self.done(self, zxid, err, body)


class Reads:
    """A run of light reads of one kind, received together, that waits for its turn."""

    __slots__ = ("calls", "opcode", "operation", "received")

    def __init__(self, opcode: int, operation: ReadOperation, received: int) -> None:
        self.opcode = opcode
        self.operation = operation
        self.received = received
        self.calls: list[tuple[int, bytes]] = []  # xid and packet


class Refused(NamedTuple):
    """A write that cannot be decoded, whose error waits for its turn."""

    xid: int
    code: ErrorCode
    size: int


class Held(NamedTuple):
    """A write that may not go to the log before what stands before it is answered."""

    xid: int
    opcode: int
    packet: bytes
    received: int


class Waiting(NamedTuple):
    """What operators are shown of something in the queue."""

    opcode: int
    path: str | None  # None where it has none, or where it is not decoded yet
    in_log: bool  # it waits for the log, not for what stands before it
    received: int  # nanoseconds


def path_of(fields: Any) -> str | None:
    """The path in a write's decoded fields; None where it has none."""
    path = fields if isinstance(fields, str) else fields[0] if isinstance(fields, tuple) and fields else None
    return path if isinstance(path, str) else None


class Single(NamedTuple):
    """A laborious read, or a request that concerns the connection alone, that waits for its turn."""

    xid: int
    opcode: int
    packet: bytes
    received: int


class SaslAnswer(NamedTuple):
    """The answer to one token of SASL. With an error it is the last packet of the connection."""

    err: int
    token: bytes | None
    is_sent: bool = True  # False: the connection ends without it
