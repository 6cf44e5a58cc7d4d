"""Traced requests: marked when they are received, and reported to the tracer when they are answered.

A server without traces uses nothing of this module, so its requests have no cost. With traces, the tracer
decides once for each packet; a request that it does not want is handled like all others, as plain bytes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from codec.constants import ErrorCode, OpCode
from codec.errors import FrameTooLong, MalformedPacket
from codec.jute import INT, LONG, Reader
from codec.packets import REQUEST_HEADER
from codec.trace_context import TracedFrame
from proxy.frontend.request_logs import Stages, name_of
from proxy.frontend.waiting import Author, Write, Writer, path_of
from proxy.state.operation import Client, Operations, Reading, ReadOperation
from proxy.state.refusal import Refusal
from proxy.state.sessions import session_text
from proxy.traces.span import Decision, Span, Tracer

# Errors from this one up to OK are server errors, those below it client errors (KeeperException.Code).
_API_ERROR = -100


class Framing(Protocol):
    """Cuts a connection's bytes into packets."""

    @property
    def held(self) -> bytes:
        """The bytes of an incomplete packet."""

    def feed(self, data: bytes) -> list[bytes]:
        """As codec.framing.Framer."""


class Sampled(bytes):
    """A packet whose request is traced."""

    traces: "Traces"
    received: int  # nanoseconds
    decision: Decision

    def answered(self, client: Author, xid: int, opcode: int, err: int) -> None:
        """A request that concerns only the connection, or that cannot be decoded, is answered."""
        self.traces.record(client, self, xid, opcode, err, None, ())


class SamplingFramer:
    """Frames packets by another framer, and asks the tracer about each."""

    def __init__(self, framer: Framing, traces: "Traces") -> None:
        self._framer = framer
        self._traces = traces

    @property
    def held(self) -> bytes:
        """The bytes of an incomplete frame."""
        return self._framer.held

    def feed(self, data: bytes) -> list[bytes]:
        """As Framer.feed, and with its error."""
        try:
            return self._traces.sample(self._framer.feed(data))
        except FrameTooLong as error:
            self._traces.sample(error.frames)
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

    def sample(self, frames: list[bytes]) -> list[bytes]:
        """Mark the frames that are traced, in place."""
        decide = self._tracer.decide
        received = self._clock()
        for place, frame in enumerate(frames):
            decision = decide(frame.context if type(frame) is TracedFrame else None)
            if decision is not None:
                frames[place] = marked = Sampled(frame)
                marked.traces = self
                marked.received = received
                marked.decision = decision
        return frames

    def operations(self, operations: Operations) -> Operations:
        """The same, with reads that are reported."""
        return operations._replace(
            reads={opcode: self._reported(opcode, read) for opcode, read in operations.reads.items()}
        )

    def _reported(self, opcode: int, read: ReadOperation) -> ReadOperation:
        def traced(reading: Reading, client: Client, packet: bytes, position: int) -> bytes:
            if type(packet) is not Sampled:
                return read(reading, client, packet, position)
            # Without a span for other exceptions: a long read is begun again, and is not answered if its
            # client goes.
            began = self._clock()
            try:
                body = read(reading, client, packet, position)
            except (Refusal, MalformedPacket) as error:
                err = error.code if isinstance(error, Refusal) else ErrorCode.MARSHALLING_ERROR
                self._of_read(client, packet, opcode, position, began, err)
                raise
            self._of_read(client, packet, opcode, position, began, ErrorCode.OK)
            return body

        return traced

    def _of_read(
        self, client: Client, packet: Sampled, opcode: int, position: int, began: int, err: int
    ) -> None:
        """A read is answered, just now."""
        path = _path_of_read(opcode, packet, position)
        (xid,) = (INT if position == REQUEST_HEADER.size else LONG).unpack_from(packet)
        self.record(client, packet, xid, opcode, err, path, (("read", began),))  # type: ignore[arg-type]

    def of_write(self, client: Author, packet: Sampled, write: Write, err: int) -> None:
        """A write was applied, just now."""
        stages = self._sources.stages().within(write.received, self._clock())
        events = (("sent to etcd", stages.sent), ("applying", stages.applying))
        parts = len(write.fields) if write.opcode == OpCode.MULTI and write.fields is not None else 0
        self.record(
            client,
            packet,
            write.xid,
            write.opcode,
            err,
            path_of(write.fields),
            events,
            parts,
            self._sources.position(),
        )

    def record(
        self,
        client: Author,
        packet: Sampled,
        xid: int,
        opcode: int,
        err: int,
        path: str | None,
        events: Any,
        parts: int = 0,
        position: int = 0,
    ) -> None:
        """A request is answered: report its span to the tracer."""
        attributes: dict[str, str | int] = {
            "network.protocol.name": "zookeeper",
            "client.address": client.address,
            "client.port": client.port,
            "zookeeper.session": session_text(client.session_id),
            "zookeeper.xid": xid,
            "zookeeper.zxid": self._sources.zxid(),
        }
        if path is not None:
            attributes["zookeeper.path"] = path
        if parts:
            attributes["db.operation.batch.size"] = parts
        if position:
            attributes["zketcd.log.position"] = position
        failed = ""
        if err:
            name = ErrorCode(err).name if err in ErrorCode._value2member_map_ else str(err)
            attributes["error.type"] = name
            attributes["zookeeper.error"] = err
            failed = name if err > _API_ERROR else ""
        self._tracer.record(
            packet.decision,
            Span(name_of(opcode), packet.received, self._clock(), attributes, events, failed),
        )


class TracedWrite(Write):
    """A write that reports a span."""

    __slots__ = ("client", "packet")

    def __init__(
        self,
        writer: Writer,
        author: Author,
        xid: int,
        opcode: int,
        packet: Sampled,
        position: int,
        fields: Any,
        received: int,
    ) -> None:
        super().__init__(writer, author, xid, opcode, packet, position, fields, received)
        self.client = author
        self.packet = packet

    def applied(self, zxid: int, err: int, body: bytes) -> None:
        """As the base class."""
        super().applied(zxid, err, body)
        self.packet.traces.of_write(self.client, self.packet, self, err)


def _path_of_read(opcode: int, packet: bytes, position: int) -> str | None:
    """The path in a read's packet; None if it has none, or it cannot be decoded."""
    if opcode in _WITHOUT_PATH:
        return None
    try:
        return Reader(packet, position).string()
    except MalformedPacket:
        return None


_WITHOUT_PATH = frozenset(
    (
        OpCode.MULTI_READ,
        OpCode.SET_WATCHES,
        OpCode.SET_WATCHES2,
        OpCode.WHO_AM_I,
        OpCode.GET_EPHEMERALS,
        OpCode.CLOSE_SESSION,
    )
)
