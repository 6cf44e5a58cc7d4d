"""The bytes that one client sends: cut into packets, counted, and kept while they cannot be handled."""

from collections import deque

from codec.constants import ProtocolVersion
from codec.framing import Framer
from codec.keeper import OpeningFramer
from codec.trace_context import TracedFramer
from proxy.frontend.traced import SamplingFramer, Traces
from proxy.frontend.wire import Wire

#: Bytes of one client that are handled at once; the rest waits. The smallest requests have 12 bytes, so this
#: is two milliseconds of work at most.
PIECE = 16 << 10


class Inbound:
    """The packets that one client sends."""

    __slots__ = ("_start", "count", "framer", "parked")

    def __init__(self, max_frame: int, *, extended: bool) -> None:
        """`max_frame`: bytes. `extended`: the client may be Keeper's, whose handshake has another form."""
        self.framer: Framer | OpeningFramer | TracedFramer | SamplingFramer = (
            OpeningFramer(max_frame) if extended else Framer(max_frame)
        )
        self.count = 0  # packets that were handled
        #: Bytes that could not be handled when they were received, and when that was, in nanoseconds.
        self.parked: deque[tuple[bytes, int]] = deque()
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
        self.framer = framer if traces is None else SamplingFramer(framer, traces)

    def opened(self, traces: Traces | None) -> None:
        """The first packet was the connect request: later packets may have another form."""
        if isinstance(self.framer, OpeningFramer):
            self.framer = self.framer.rest
        if traces is not None:
            self.framer = SamplingFramer(self.framer, traces)
