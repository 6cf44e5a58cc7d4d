"""The bytes that one client sends: cut into packets, counted, and kept while they cannot be handled."""

from collections import deque
from typing import NamedTuple

from codec.errors import FrameTooLong
from codec.framing import Framer
from codec.keeper import OpeningFramer
from codec.trace_context import TracedFramer
from proxy.frontend.traced import SamplingFramer, Traces


class Chunk(NamedTuple):
    """The complete packets of some bytes."""

    frames: list[bytes]
    broken: FrameTooLong | None  # the error in the bytes after them
    received: int  # nanoseconds


class Inbound:
    """The packets that one client sends."""

    __slots__ = ("count", "framer", "parked")

    def __init__(self, max_frame: int, *, extended: bool) -> None:
        """`max_frame`: bytes. `extended`: the client may be Keeper's, whose handshake has another form."""
        self.framer: Framer | OpeningFramer | TracedFramer | SamplingFramer = (
            OpeningFramer(max_frame) if extended else Framer(max_frame)
        )
        self.count = 0  # packets that were handled
        self.parked: deque[Chunk] = deque()  # received while nothing can be handled

    def opened(self, traces: Traces | None) -> None:
        """The first packet was the connect request: later packets may have another form."""
        if isinstance(self.framer, OpeningFramer):
            self.framer = self.framer.rest
        if traces is not None:
            self.framer = SamplingFramer(self.framer, traces)
