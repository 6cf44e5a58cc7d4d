"""What is recorded of a client's answered requests: times, the logs of requests, traces. Pure.

There is one hook, `Observer.answered`, for all that looks at single requests. A server without logs and
traces never calls it. Times are counted by `count`, for all requests of a chunk that are answered together: a
pipelined write takes some microseconds, and recording each one alone would add a large part.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from codec.constants import ErrorCode, OpCode, Xid
from codec.errors import MalformedPacket
from codec.jute import INT, LONG
from codec.packets import REQUEST_HEADER
from proxy.frontend.client_info import ClientInfo
from proxy.frontend.request_logs import RequestLogs
from proxy.frontend.requests import Marked, Received, Single, Write
from proxy.frontend.traced import Traces
from proxy.state.machine import Machine
from proxy.state.operation import AnswerRead, Client, Reading
from proxy.state.outcome import Refusal
from proxy.support.latency import ConnectionLatency

_PING = int(OpCode.PING)


class Answer(NamedTuple):
    """How a request was answered."""

    err: int
    body: bytes = b""  # of a write's reply
    began: int = 0  # nanoseconds, when the answer to a read was begun
    position: int = 0  # where a read's body begins in its packet


class Observer:
    """Learns of each request of one client that is answered."""

    __slots__ = (
        "_client",
        "_latency",
        "_logs",
        "_machine",
        "_opcode",
        "_received",
        "_traces",
        "_xid",
        "counts",
        "is_needed",
        "now",
    )

    def __init__(
        self,
        client: ClientInfo,
        latency: ConnectionLatency,
        machine: Machine,
        now: Callable[[], int],
        logs: RequestLogs | None = None,
        traces: Traces | None = None,
    ) -> None:
        """`now` returns nanoseconds of the clock of all times here."""
        self._client = client
        self._latency = latency
        self._machine = machine
        self.now = now
        self._logs = logs
        self._traces = traces
        self.is_needed = logs is not None or traces is not None  # whether `answered` has to be called
        # Of each opcode, since the last `note`. Always the same object: `Order` refers to it.
        self.counts: Final[dict[int, int]] = {}
        self._opcode = 0  # of the last one
        self._received = 0  # when the chunk of all of them was received
        self._xid = 0  # of the last one

    def answered(self, request: Write | Received, answer: Answer) -> None:
        """A request is answered, just now. Of reads only those that are traced have to be reported."""
        if self._logs is not None and isinstance(request, Write):
            self._logs.outcome(self._client, request, answer.err, answer.body)
        if self._traces is not None:
            self._traces.answered(
                self._client, request, answer.err, began=answer.began, position=answer.position
            )

    def traced(self, answers: dict[int, AnswerRead]) -> dict[int, AnswerRead]:
        """The functions that answer reads; those that are traced are reported as they are answered."""
        if self._traces is None:
            return answers  # all connections use the same table
        return {opcode: partial(self._read, opcode, answer) for opcode, answer in answers.items()}

    def _read(
        self, opcode: int, read: AnswerRead, reading: Reading, client: Client, packet: bytes, position: int
    ) -> bytes:
        if type(packet) is not Marked:
            return read(reading, client, packet, position)
        # After another exception a read is not reported: it takes long and is begun again, or its client has
        # gone.
        (xid,) = (INT if position == REQUEST_HEADER.size else LONG).unpack_from(packet)
        request = Single(xid, opcode, packet, packet.received, 0)
        began = self.now()
        try:
            body = read(reading, client, packet, position)
        except (Refusal, MalformedPacket) as error:
            err = error.code if isinstance(error, Refusal) else ErrorCode.MARSHALLING_ERROR
            self.answered(request, Answer(err, began=began, position=position))
            raise
        self.answered(request, Answer(ErrorCode.OK, began=began, position=position))
        return body

    # -- times ---------------------------------------------------------------------------------------------

    def count(self, opcode: int, count: int, xid: int, received: int) -> None:
        """So many requests of a chunk that was received then are answered; `xid` is the last one's."""
        if received != self._received:
            self.note()
            self._received = received
        self._opcode = opcode
        self._xid = xid
        counts = self.counts
        counts[opcode] = counts.get(opcode, 0) + count

    def note_refused(self, opcode: int) -> None:
        """A write has failed; `count` counts it as well."""
        self._latency.note_refused(opcode)

    def note(self) -> None:
        """Record the counted requests as answered now."""
        counts = self.counts
        if counts:
            now, opcode, received = self.now(), self._opcode, self._received
            self._note(opcode, counts.pop(opcode), self._xid, received, now)
            if counts:
                self._latency.note_earlier(list(counts.items()), now - received)
                counts.clear()

    def note_run(self, opcode: int, count: int, xid: int, received: int) -> None:
        """As `count`, and `note` at once."""
        if self.counts:
            self.count(opcode, count, xid, received)
            self.note()
        else:  # most often; as `_note`, without a call more
            now = self.now()
            self._latency.note(opcode, count, xid, self._machine.zxid, received, now)
            if self._logs is not None:
                self._logs.reads(self._client, opcode, count, now - received)

    def note_single(self, opcode: int, xid: int, received: int) -> None:
        """Record a request that is answered alone."""
        self.note()
        self._note(opcode, 1, xid, received, self.now())

    def note_ping(self) -> None:
        """Record a ping, with no duration."""
        self.note_single(_PING, Xid.PING, self.now())

    def _note(self, opcode: int, count: int, xid: int, received: int, now: int) -> None:
        self._latency.note(opcode, count, xid, self._machine.zxid, received, now)
        if self._logs is not None:
            self._logs.reads(self._client, opcode, count, now - received)
