"""Requests that are traced: marked as they come, and reported to the tracer when they are answered.

A server without traces has none of this, and its requests pay nothing for it. With traces the tracer decides
once for each packet; a request that it does not want then goes the way of all requests, as plain bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from codec.constants import ErrorCode, OpCode
from codec.errors import FrameTooLong, MalformedPacket
from codec.jute import INT, LONG, Reader
from codec.packets import REQUEST_HEADER
from codec.trace_context import TracedFrame
from proxy.frontend.order import Order
from proxy.frontend.request_logs import Stages, name_of
from proxy.frontend.waiting import Refused, Write, path_of
from proxy.log.pending import Pending
from proxy.state.operation import Client, Operations, Reading, ReadOperation
from proxy.state.refusal import Refusal
from proxy.state.sessions import session_text
from proxy.traces.span import Decision, Span, Tracer

# Errors from this one up to OK are a server's, those below it a client's (KeeperException.Code).
_API_ERROR = -100


class Framing(Protocol):
    """What cuts a connection's bytes into packets."""

    def feed(self, data: bytes) -> list[bytes]:
        """As codec.framing.Framer."""


class Sampled(bytes):
    """A packet whose request is traced."""

    received: int  # nanoseconds
    decision: Decision


class SamplingFramer:
    """Frames packets by another framer, and lets the tracer decide of each."""

    def __init__(self, framer: Framing, traces: "Traces") -> None:
        self._framer = framer
        self._traces = traces

    def feed(self, data: bytes) -> list[bytes]:
        """As Framer.feed, and with its error."""
        try:
            return self._traces.sample(self._framer.feed(data))
        except FrameTooLong as error:
            self._traces.sample(error.frames)
            raise


class Address(Protocol):
    """The connection whose request it is."""

    session_id: int
    address: str
    port: int


class Facts(NamedTuple):
    """What the server says of the request that is being answered."""

    zxid: Callable[[], int]
    stages: Callable[[], Stages]
    position: Callable[[], int]  # of the entry that is being applied


class Traces:
    """The traces of one server."""

    def __init__(self, tracer: Tracer, facts: Facts, clock: Callable[[], int]) -> None:
        """`clock` gives nanoseconds; it is that of the stages."""
        self._tracer = tracer
        self._facts = facts
        self._clock = clock

    def sample(self, frames: list[bytes]) -> list[bytes]:
        """Mark those that are traced, in place."""
        decide = self._tracer.decide
        received = self._clock()
        for place, frame in enumerate(frames):
            decision = decide(frame.context if type(frame) is TracedFrame else None)
            if decision is not None:
                frames[place] = marked = Sampled(frame)
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
            began = self._clock()
            err = int(ErrorCode.OK)
            try:
                return read(reading, client, packet, position)
            except Refusal as error:
                err = error.code
                raise
            except MalformedPacket:
                err = ErrorCode.MARSHALLING_ERROR
                raise
            finally:
                path = _path_of_read(opcode, packet, position)
                self._record(client, packet, position, opcode, err, path, (("read", began),))  # type: ignore[arg-type]

        return traced

    def of_write(self, client: Address, packet: Sampled, body: int, write: Write, err: int) -> None:
        """A write was applied, just now."""
        stages = self._facts.stages().within(write.received, self._clock())
        events = (("sent to etcd", stages.sent), ("applying", stages.applying))
        parts = len(write.fields) if write.opcode == OpCode.MULTI and write.fields is not None else 0
        self._record(
            client,
            packet,
            body,
            write.opcode,
            err,
            path_of(write.fields),
            events,
            parts,
            self._facts.position(),
        )

    def of_other(self, client: Address, packet: Sampled, body: int, opcode: int, err: int) -> None:
        """A request that concerns the connection alone, or cannot be read, is answered."""
        self._record(client, packet, body, opcode, err, None, ())

    def _record(
        self,
        client: Address,
        packet: Sampled,
        body: int,
        opcode: int,
        err: int,
        path: str | None,
        events: Any,
        parts: int = 0,
        position: int = 0,
    ) -> None:
        (xid,) = (INT if body == REQUEST_HEADER.size else LONG).unpack_from(packet)
        attributes: dict[str, str | int] = {
            "network.protocol.name": "zookeeper",
            "client.address": client.address,
            "client.port": client.port,
            "zookeeper.session": session_text(client.session_id),
            "zookeeper.xid": xid,
            "zookeeper.zxid": self._facts.zxid(),
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


@dataclass
class _Gone:
    """A connection that was."""

    session_id: int
    address: str
    port: int


class TracedOrder(Order):
    """The requests of one client, of which some are traced."""

    def __init__(self, traces: Traces, owner: Any, *rest: Any) -> None:
        self._traces = traces
        self._client: Address = owner
        super().__init__(owner, *rest)

    def let_go(self) -> None:
        """As the base class. Outcomes that are still to come are traced as well."""
        super().let_go()
        client = self._client
        self._client = _Gone(client.session_id, client.address, client.port)

    def _write(self, xid: int, opcode: int, packet: bytes, received: int) -> Write | Refused:
        made = super()._write(xid, opcode, packet, received)
        if type(packet) is Sampled:
            if type(made) is Write:
                made.done = partial(self._traced, packet, made.done)
            elif type(made) is Refused:
                self._traces.of_other(self._client, packet, self._body, opcode, made.code)
        return made

    def _traced(
        self,
        packet: Sampled,
        done: Callable[[Pending, int, int, bytes], None],
        write: Pending,
        zxid: int,
        err: int,
        body: bytes,
    ) -> None:
        done(write, zxid, err, body)
        assert isinstance(write, Write)
        self._traces.of_write(self._client, packet, self._body, write, err)

    def _answer_of_connection(self, xid: int, opcode: int, packet: bytes) -> None:
        super()._answer_of_connection(xid, opcode, packet)
        if type(packet) is Sampled and opcode != OpCode.PING:
            self._traces.of_other(self._client, packet, self._body, opcode, 0)


def _path_of_read(opcode: int, packet: bytes, position: int) -> str | None:
    """The path in a read's packet; None where it has none, or it cannot be read."""
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
