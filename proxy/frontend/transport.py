"""Both directions of one connection: bytes that are cut into packets, and packets that are sent.

`Inbound` keeps what cannot be handled yet. `Outbound` has the transport: only it writes to it, and pauses or
resumes reading from it.
"""

import asyncio
import math
import socket
from collections import deque
from collections.abc import Sequence
from struct import Struct

from codec.constants import ProtocolVersion
from codec.framing import Framer
from codec.keeper import OpeningFramer
from codec.trace_context import TracedFramer
from proxy.frontend.replies import Wire
from proxy.frontend.sampling import NEVER
from proxy.frontend.traced import AnyFramer, MarkingFramer, Traces
from proxy.support.counters import Counters

#: Bytes of one client that are handled at once; the rest waits. The smallest requests have 12 bytes, so this
#: is two milliseconds of work at most.
PIECE = 16 << 10
#: Linux's tcp_info: milliseconds since data and since an ACK were last received; bytes acknowledged so far.
TCP_INFO = Struct("=52xII60xQ")

# Seconds within which a client must read the last packets after its connection is closed.
_LAST_WAIT = 5


class Inbound:
    """The packets that one client sends."""

    __slots__ = ("_start", "count", "framer", "parked", "unsampled", "with_connect")

    def __init__(self, max_frame: int, *, keeper: bool) -> None:
        """`max_frame`: bytes. `keeper`: the client may be Keeper's, whose handshake has another form."""
        self.framer: AnyFramer = OpeningFramer(max_frame, keeper=keeper)
        self.count = 0  # packets that were handled, for operators, who can reset it
        self.unsampled = NEVER  # how many requests pass before the next one that `sampling` looks at
        #: Bytes that could not be handled when they were received, and when that was, in nanoseconds.
        self.parked: deque[tuple[bytes, int]] = deque()
        #: Packets received with the connect request, until the session exists.
        self.with_connect: list[bytes] = []
        self._start = 0  # so many of the first ones are handled

    def take(self) -> tuple[bytes, int]:
        """Remove and return some of the parked bytes."""
        data, received = self.parked[0]
        piece = data[self._start : self._start + PIECE]
        self._start += PIECE
        if self._start >= len(data):
            self._start = 0
            self.parked.popleft()
        return piece, received

    def unhandled(self) -> bytes:
        """All bytes of which nothing was made yet."""
        parked = b"".join(data for data, _ in self.parked)
        return self.framer.held + parked[self._start :]

    def continued(self, traces: Traces | None, wire: Wire, max_frame: int) -> None:
        """The client has been served by another process: its packets have this form."""
        is_traced = wire.version == ProtocolVersion.TRACING
        framer = TracedFramer(max_frame) if is_traced else Framer(max_frame)
        self.framer = framer if traces is None else MarkingFramer(framer, traces)

    def opened(self, traces: Traces | None, with_connect: list[bytes]) -> None:
        """The first packet was the connect request, and these came with it; others may differ in form."""
        self.with_connect = with_connect
        if isinstance(self.framer, OpeningFramer):
            self.framer = self.framer.rest
        if traces is not None:
            traces.mark(with_connect)
            self.framer = MarkingFramer(self.framer, traces)

    def take_with_connect(self) -> list[bytes]:
        """Remove and return the packets received with the connect request."""
        packets, self.with_connect = self.with_connect, []
        return packets


class Outbound:
    """Sends packets to one client."""

    __slots__ = (
        "_acked",
        "_closing",
        "_counters",
        "_last_wait",
        "_loop",
        "_socket",
        "_transport",
        "reading_paused",
        "sent",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, counters: Counters) -> None:
        self._loop = loop
        self._counters = counters
        self._last_wait: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None  # None before it is open, and after it is closed
        # Closed, but the client may still read the last packets.
        self._closing: asyncio.Transport | None = None
        self._socket = -1
        self._acked = 0  # bytes that the client's host had acknowledged at the last call of `measure_silence`
        self.sent = 0  # packets
        self.reading_paused = False  # nothing is read from the client

    @property
    def is_open(self) -> bool:
        """Whether packets can be sent."""
        return self._transport is not None

    @property
    def unsent(self) -> int:
        """Bytes that the socket has not taken, if there is one."""
        transport = self._transport
        return 0 if transport is None or self.fd < 0 else transport.get_write_buffer_size()

    @property
    def unread(self) -> int:
        """Bytes that are kept for the client, also after the connection was closed."""
        transport = self._transport or self._closing
        return 0 if transport is None else transport.get_write_buffer_size()

    @property
    def fd(self) -> int:
        """The client's socket; -1 if there is none, or its state is not in the socket alone (TLS)."""
        return -1 if self._transport is None else self._socket

    def measure_silence(self) -> float:
        """Seconds since the client last sent something, or took some of what was sent to it; inf if closed.

        What it took before the last call does not count.

        The kernel knows both, also for TLS and while nothing is read. It resends to a host that is gone for
        15 minutes, and TCP_USER_TIMEOUT would end a connection whose client reads nothing for a while.
        """
        found = None if self._transport is None else self._transport.get_extra_info("socket")
        if found is None:
            return math.inf
        try:
            info = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO.size)
        except OSError:  # closed, which is reported next
            return math.inf
        since_data, since_ack, acked = TCP_INFO.unpack(info.ljust(TCP_INFO.size, b"\0"))
        took_some = acked != self._acked  # an ACK alone says nothing: a full host answers window probes
        self._acked = acked
        return float(min(since_data, since_ack) if took_some else since_data) / 1000

    def open(self, transport: asyncio.Transport) -> None:
        """Send by this transport."""
        self._transport = transport
        if transport.get_extra_info("ssl_object") is None:
            found = transport.get_extra_info("socket")
            self._socket = -1 if found is None else int(found.fileno())

    def send(self, packets: Sequence[bytes], close: bool) -> None:
        """Send packets in one write. With `close`, then close the transport."""
        transport = self._transport
        if transport is None:
            return
        if packets:
            count = len(packets)
            self.sent += count
            self._counters.sent += count
            transport.write(packets[0] if count == 1 else b"".join(packets))
        if close:
            # A client that does not read would keep its connection, and all unsent packets, for ever.
            self._last_wait = self._loop.call_later(_LAST_WAIT, transport.abort)
            transport.close()
            self._closing, self._transport = transport, None  # outcomes of writes may still be reported

    def abort(self) -> None:
        """Close the transport at once, without what is not sent yet."""
        transport = self._transport or self._closing
        self._transport = self._closing = None
        if transport is not None:
            transport.abort()

    def lost(self) -> None:
        """The transport is closed."""
        self._transport = self._closing = None
        if self._last_wait is not None:
            self._last_wait.cancel()

    def pause_reading(self) -> None:
        """Read nothing more from the client."""
        if not self.reading_paused and self._transport is not None:
            self.reading_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the client again."""
        if self.reading_paused and self._transport is not None:
            self.reading_paused = False
            self._transport.resume_reading()
