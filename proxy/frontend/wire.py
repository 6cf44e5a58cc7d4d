"""The form of a connection's packets: ZooKeeper's 32-bit xids, or the 64-bit xids that ClickHouse may want.

Pure. The handshake decides which of the two a connection uses; the rest of the protocol is the same.
"""

from collections.abc import Callable
from typing import NamedTuple

from codec.constants import ProtocolVersion
from codec.keeper import WIDE_REQUEST_HEADER, wide_event, wide_frame
from codec.packets import REQUEST_HEADER, encode_event, frame


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
