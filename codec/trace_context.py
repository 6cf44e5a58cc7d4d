"""The trace context that ClickHouse may send with each request: which span of which trace asks. Pure.

In protocol version 12, after each packet, outside its length, comes one byte. Unless it is 0, the context
follows as four lines of text, each ended by a line feed: the trace's id as a UUID, the span's id as a decimal
number, the tracestate of W3C's Trace Context with its control characters escaped, and the flags as a decimal
number (ClickHouse's KeeperTCPHandler::receiveRequest, TracingContext::deserialize).
"""

import re
from typing import NamedTuple

from codec.errors import FrameTooLong
from codec.jute import INT

#: Bytes of the longest context that is taken; ClickHouse sets no limit.
MAX_CONTEXT = 8192
_LINES = 4
_int_at = INT.unpack_from
_UUID = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_NUMBER = re.compile(rb"[0-9]{1,20}", re.ASCII)
# W3C asks for 512 characters at least; a span that waits has it.
_STATE = re.compile(rb"[\x20-\x5b\x5d-\x7e]{0,512}", re.ASCII)


class TraceContext(NamedTuple):
    """The span of a client that a request belongs to."""

    trace_id: int  # 128 bits, not 0
    span_id: int  # 64 bits, not 0
    flags: int  # 8 bits; the lowest says that the trace is sampled
    state: str  # tracestate; "" for none


class TracedFrame(bytes):
    """A packet with the context that came with it."""

    context: TraceContext


class TracedFramer:
    """The frames of a connection of protocol version 12; one that has a context is a `TracedFrame`."""

    __slots__ = ("_held", "_max_frame")

    def __init__(self, max_frame: int) -> None:
        self._max_frame = max_frame
        self._held = bytearray()

    @property
    def held(self) -> bytes:
        """The bytes of an incomplete frame."""
        return bytes(self._held)

    def feed(self, data: bytes) -> list[bytes]:
        """As Framer.feed, and with its error; a context of more than MAX_CONTEXT bytes is one as well."""
        held = self._held
        held += data
        frames: list[bytes] = []
        size = len(held)
        position = 0
        while size - position >= INT.size:
            (length,) = _int_at(held, position)
            start = position + INT.size
            if not 0 <= length <= self._max_frame:
                raise FrameTooLong(length, self._max_frame, frames, bytes(held[start:]))
            end = start + length
            if end >= size:  # the byte behind the packet is not here yet
                break
            if not held[end]:
                frames.append(bytes(held[start:end]))
                position = end + 1
                continue
            behind = _end_of_lines(held, end + 1)
            if behind is None:
                waiting = size - end - 1
                if waiting > MAX_CONTEXT:
                    raise FrameTooLong(waiting, MAX_CONTEXT, frames)
                break
            context = decode_context(bytes(held[end + 1 : behind]))
            packet = bytes(held[start:end])
            if context is not None:
                packet = TracedFrame(packet)
                packet.context = context
            frames.append(packet)
            position = behind
        del held[:position]
        return frames


def decode_context(text: bytes) -> TraceContext | None:
    """The context of these four lines; None if it is none that a span can have for its parent."""
    trace, span, state, flags, _ = text.split(b"\n")
    if not (_UUID.fullmatch(trace) and _NUMBER.fullmatch(span) and _NUMBER.fullmatch(flags)):
        return None
    trace_id, span_id = int(trace.replace(b"-", b""), 16), int(span)
    if not trace_id or not 0 < span_id < 1 << 64 or int(flags) > 0xFF:
        return None
    # A backslash begins an escape, and what is escaped is nothing that a tracestate may have.
    known = state if _STATE.fullmatch(state) else b""
    return TraceContext(trace_id, span_id, int(flags), known.decode("ascii"))


def _end_of_lines(held: bytearray, start: int) -> int | None:
    """The position behind the lines of a context; None if they are not all here."""
    end = start
    for _ in range(_LINES):
        end = held.find(b"\n", end, start + MAX_CONTEXT + 1) + 1
        if not end:
            return None
    return end
