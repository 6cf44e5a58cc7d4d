"""Traced requests: marked when they are received, and reported to the tracer when they are answered.

A server without traces uses nothing of this module, so its requests have no cost. With traces, the tracer
decides once for each packet; a request that it does not want is handled like all others, as plain bytes.
`observer` reports those that it wants. Pure.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from codec.constants import ErrorCode, OpCode
from codec.errors import FrameTooLong
from codec.framing import Framer
from codec.keeper import OpeningFramer
from codec.longs import hex64
from codec.operation_names import constant_name
from codec.trace_context import TracedFrame, TracedFramer
from proxy.frontend.client_info import ClientInfo
from proxy.frontend.request_logs import Stages
from proxy.frontend.requests import Marked, Received, Write
from proxy.state.effect import path_of
from proxy.state.ops import EXTENDED
from proxy.support.controls import shortened
from proxy.traces.span import Span, Tracer

# Errors from this one up to OK are server errors, those below it client errors (KeeperException.Code).
_API_ERROR = -100
_ERRORS = frozenset(ErrorCode)
# Characters of a path. Clients choose it, and thousands of spans wait if the collector does not answer.
_MOST_OF_PATH = 256


AnyFramer: TypeAlias = "Framer | OpeningFramer | TracedFramer | MarkingFramer"


class MarkingFramer:
    """Frames packets by another framer, and asks the tracer about each."""

    def __init__(self, framer: AnyFramer, traces: "Traces") -> None:
        self._framer = framer
        self._traces = traces

    @property
    def held(self) -> bytes:
        """The bytes of an incomplete frame."""
        return self._framer.held

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes; the whole frames, of which some are marked. Raises FrameTooLong."""
        try:
            return self._traces.mark(self._framer.feed(data))
        except FrameTooLong as error:
            self._traces.mark(error.frames)
            raise


class TraceSources(NamedTuple):
    """The server's data of the request that is being answered."""

    zxid: Callable[[], int]
    stages: Callable[[], Stages]
    position: Callable[[], int]  # of the entry that is being applied


class Traces:
    """The traces of one server."""

    def __init__(self, tracer: Tracer, sources: TraceSources, clock: Callable[[], int]) -> None:
        """`clock` returns nanoseconds; it is that of the stages."""
        self._tracer = tracer
        self._sources = sources
        self._clock = clock

    def mark(self, frames: list[bytes]) -> list[bytes]:
        """Mark the frames that are traced, in place."""
        decide = self._tracer.decide
        received = self._clock()
        for place, frame in enumerate(frames):
            decision = decide(frame.context if type(frame) is TracedFrame else None)
            if decision is not None:
                frames[place] = marked = Marked(frame)
                marked.received = received
                marked.decision = decision
        return frames

    def answered(
        self, client: ClientInfo, request: Write | Received, err: int, *, began: int, position: int
    ) -> None:
        """A request is answered, just now: report its span, if it is traced.

        `began`: nanoseconds, when the answer to a read was begun; 0 for other requests. `position`: where the
        read's body begins in its packet.
        """
        packet = request.marked if isinstance(request, Write) else request.packet
        if type(packet) is not Marked:
            return
        opcode = request.opcode
        path = None
        events: tuple[tuple[str, int], ...] = ()
        attributes: dict[str, str | int] = {
            "network.protocol.name": "zookeeper",
            "client.address": client.address,
            "client.port": client.port,
            "zookeeper.session": hex64(client.session_id),
            "zookeeper.xid": request.xid,
            "zookeeper.zxid": self._sources.zxid(),
        }
        if isinstance(request, Write):
            stages = self._sources.stages().within(packet.received, self._clock())
            events = (("sent to etcd", stages.sent), ("applying", stages.applying))
            path = path_of(request.fields)
            if (applied := self._sources.position()) > 0:
                attributes["zketcd.log.position"] = applied
            if opcode == OpCode.MULTI and request.fields:
                attributes["db.operation.batch.size"] = len(request.fields)
        elif began:
            events = (("read", began),)
            path = EXTENDED.path_in(opcode, packet, position)
        if path is not None:
            attributes["zookeeper.path"] = shortened(path, _MOST_OF_PATH)
        failed = ""
        if err:
            name = ErrorCode(err).name if err in _ERRORS else str(err)
            attributes["error.type"] = name
            attributes["zookeeper.error"] = err
            failed = name if err > _API_ERROR else ""
        span = Span(constant_name(opcode), packet.received, self._clock(), attributes, events, failed)
        self._tracer.record(packet.decision, span)
