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
from proxy.state.machine import Machine
from proxy.state.outcome import Refusal
from proxy.state.pause import LENGTHS


class Limits(NamedTuple):
    """The limits of one connection."""

    #: Replies of more bytes than this are counted, so that a client that does not read them is noticed.
    large_reply: int = 4096
    #: Bytes of large replies after which a run of reads is interrupted, so that the replies are sent.
    unsent: int = 64 << 10
    #: Bytes of replies and events that are kept for a client that does not read. They must be made because
    #: later writes of the client are in the log already. Above this limit the connection is closed.
    forced: int = 64 << 20
    #: Nanoseconds that the heavy reads of one client may take before other clients are served.
    stretch: int = 2_500_000
    #: Reads between two writes are answered without a break if the second write is already in the log. So a
    #: write waits for the reads before it if these are too many: more than so many light ones, or a few heavy
    #: ones. Of heavy ones also all count that wait before any write.
    ahead: int = 128
    ahead_in_all: int = 2048
    heavy_weight: int = 32
    #: Steps of a read for which it weighs one more.
    steps_per_weight: int = 8
    #: Bytes of identities that `auth` in the ACLs of a write may stand for, or so many times its own bytes.
    expanded: int = 64 << 10
    expanded_per_byte: int = 4
    #: A request with parts that has more bytes is decoded only when it is applied.
    decoded_at_once: int = LENGTHS.decoded_at_once


LIMITS = Limits()
"""The limits that a server uses."""


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

    __slots__ = ("_limits", "_machine", "is_paused", "packets", "unsent", "wire")

    def __init__(self, machine: Machine, limits: Limits) -> None:
        self._machine = machine
        self._limits = limits
        self.wire = NARROW  # how requests and replies are wrapped; set before the first one is received
        self.packets: list[bytes] = []  # to be sent
        self.is_paused = False  # the client does not read: only replies that cannot wait are made
        self.unsent = 0  # bytes of large replies that the client has not read, as far as is known

    @property
    def are_too_many(self) -> bool:
        """Whether so much is unsent that the connection has to be closed."""
        return self.unsent > self._limits.forced

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
            self.unsent += len(reply)

    def refusal(self, xid: int, zxid: int, error: Refusal | MalformedPacket) -> bytes:
        """The reply to a read that fails."""
        if isinstance(error, Refusal):
            return self.wire.frame(xid, zxid, error.code, error.body)
        return self.wire.frame(xid, zxid, ErrorCode.MARSHALLING_ERROR)

    def resume(self) -> None:
        """The client has read all that was sent."""
        self.is_paused = False
        self.unsent = 0
