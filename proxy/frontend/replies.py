"""The packets for one client, their form, and how many bytes of them the client has not read. Pure.

The form is ZooKeeper's with xids of 32 bits, or the one with 64 bits that ClickHouse may want. The handshake
decides which of the two a connection uses; the rest of the protocol is the same.
"""

from collections.abc import Callable
from typing import NamedTuple

from codec.constants import ErrorCode, ProtocolVersion
from codec.errors import MalformedPacket
from codec.keeper import WIDE_REQUEST_HEADER, wide_event, wide_frame
from codec.packets import REQUEST_HEADER, encode_event, frame
from proxy.frontend.limits import Limits
from proxy.state.machine import Machine
from proxy.state.outcome import Refusal


class Wire(NamedTuple):
    """The headers of one connection's packets."""

    version: int  # the protocol version that the handshake answers
    body: int  # where a request's body begins: the size of its header
    header: Callable[[bytes], tuple[int, int]]  # a request's (xid, opcode)
    frame: Callable[..., bytes]  # (xid, zxid, err, body = b"") -> a whole reply
    event: Callable[[int, int, str, int], bytes]  # (type, state, path, zxid) -> a whole notification


NARROW = Wire(ProtocolVersion.ZOOKEEPER, REQUEST_HEADER.size, REQUEST_HEADER.unpack_from, frame, encode_event)
WIDE = Wire(
    ProtocolVersion.WIDE_XIDS,
    WIDE_REQUEST_HEADER.size,
    WIDE_REQUEST_HEADER.unpack_from,
    wide_frame,
    wide_event,
)

#: The same two forms for clients that send a trace context with each request; it is not part of a packet.
TRACED_NARROW = NARROW._replace(version=ProtocolVersion.TRACING)
TRACED_WIDE = WIDE._replace(version=ProtocolVersion.TRACING)

#: All of them. A process that takes over from another one knows them by their places.
WIRES = (NARROW, WIDE, TRACED_NARROW, TRACED_WIDE)


class Replies:
    """The packets for one client."""

    __slots__ = ("_limits", "_machine", "is_paused", "owed", "packets", "wire")

    def __init__(self, machine: Machine, limits: Limits) -> None:
        self._machine = machine
        self._limits = limits
        self.wire = NARROW  # how requests and replies are wrapped; set before the first one is received
        self.packets: list[bytes] = []  # to be sent
        self.is_paused = False  # the client does not read: only replies that cannot wait are made
        self.owed = 0  # bytes of large replies that the client has not read, as far as is known

    @property
    def are_too_many(self) -> bool:
        """Whether so much is owed that the connection has to be closed."""
        return self.owed > self._limits.forced

    def add(self, xid: int, err: int, body: bytes = b"") -> None:
        """Answer a request, with the current zxid in the header."""
        self.packets.append(self.wire.frame(xid, self._machine.zxid, err, body))

    def add_at(self, zxid: int, xid: int, err: int, body: bytes = b"") -> None:
        """Answer a request with this zxid in the header."""
        self.packets.append(self.wire.frame(xid, zxid, err, body))

    def add_read(self, reply: bytes) -> None:
        """Answer a read; the reply may be large."""
        self.packets.append(reply)
        if len(reply) > self._limits.large_reply:
            self.owed += len(reply)

    def refusal(self, xid: int, zxid: int, error: Refusal | MalformedPacket) -> bytes:
        """The reply to a read that fails."""
        if isinstance(error, Refusal):
            return self.wire.frame(xid, zxid, error.code, error.body)
        return self.wire.frame(xid, zxid, ErrorCode.MARSHALLING_ERROR)

    def resume(self) -> None:
        """The client has read all that was sent."""
        self.is_paused = False
        self.owed = 0
