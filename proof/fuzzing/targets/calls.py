"""Calls to etcd on one HTTP/2 connection while the server sends anything at all and time passes.

Each call ends once, with an answer or RpcError. What the server sends never raises anything. What is sent to
it keeps to the windows and frame sizes that it has granted.
"""

from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any

from lab.fakes.connection import FakeLoop
from proof.fuzzing.target import Target, Wrong
from proof.fuzzing.targets.pieces import Pieces, cut
from proxy.etcd.http2 import Http2Call, Http2Connection, request_headers
from proxy.etcd.transport import RpcError

# How a step begins, by its first byte.
SERVER, TIME, REQUEST, STREAM, WRITE, CANCEL = range(6)
_MEANINGS = 6
_MOST_STEPS = 60
_UNIT = 300  # bytes of a message for each number of the input
_TIMEOUT = 5.0  # seconds that a call may take
_WINDOW, _FRAME = 65_535, 16_384  # of RFC 9113, until the server says otherwise
_FRAME_HEADER = 9
_UNWANTED = b"!"  # how a message begins that its listener does not take
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _SETTINGS, _WINDOW_UPDATE = 0, 4, 8
_MAX_FRAME_SIZE = 5
_ACK = 1


class _Future:
    """As much of a future as a call waits for."""

    def __init__(self) -> None:
        self._done = False

    def done(self) -> bool:
        return self._done

    def set_result(self, _result: None) -> None:
        self._done = True

    def __await__(self) -> Generator["_Future", None, None]:
        yield self


class _Loop(FakeLoop):
    """Its futures are those that a call waits for."""

    def create_future(self) -> _Future:
        return _Future()


class _Server:
    """The transport: what the connection sends, held against what the server has granted."""

    def __init__(self) -> None:
        self._sent = b""
        self._received = b""
        self._greeted = False
        self._window = _WINDOW
        self._frame = _FRAME

    def write(self, data: Any) -> None:
        self._sent += bytes(data)
        if not self._greeted:
            if not self._sent.startswith(_PREFACE):
                raise Wrong("no preface")
            self._greeted, self._sent = True, self._sent[len(_PREFACE) :]
        self._sent = self._each(self._sent, self._take)
        if self._sent:
            raise Wrong(f"a write ends within a frame: {self._sent[:20]!r}")

    def abort(self) -> None:
        """Nothing more comes."""

    def grants(self, data: bytes) -> None:
        """The server has sent these bytes."""
        self._received = self._each(self._received + data, self._grant)

    def _each(self, data: bytes, take: Callable[[int, int, int, bytes], None]) -> bytes:
        """Whole frames one by one; what is left."""
        while len(data) >= _FRAME_HEADER:
            end = _FRAME_HEADER + int.from_bytes(data[:3], "big")
            if len(data) < end:
                break
            take(data[3], data[4], int.from_bytes(data[5:9], "big") & 0x7FFFFFFF, data[_FRAME_HEADER:end])
            data = data[end:]
        return data

    def _take(self, kind: int, _flags: int, _stream: int, payload: bytes) -> None:
        if kind != _DATA:
            return
        self._window -= len(payload)
        if self._window < 0:
            raise Wrong(f"{-self._window} bytes more than the connection's window")
        if len(payload) > self._frame:
            raise Wrong(f"a frame of {len(payload)} bytes; {self._frame} are allowed")

    def _grant(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _WINDOW_UPDATE and stream == 0 and len(payload) == 4:
            self._window += int.from_bytes(payload, "big") & 0x7FFFFFFF
        elif kind == _SETTINGS and not flags & _ACK:
            for at in range(0, len(payload) - 5, 6):
                if int.from_bytes(payload[at : at + 2], "big") == _MAX_FRAME_SIZE:
                    self._frame = max(self._frame, int.from_bytes(payload[at + 2 : at + 6], "big"))


class _Listener:
    """A listener of a stream."""

    def __init__(self, call: Http2Call) -> None:
        self.call = call
        self.is_over = False
        self._work: Coroutine[Any, Any, None] = call.listen(self._heard)
        self._waits_for: _Future | None = None
        self.go_on()

    def _heard(self, message: bytes) -> None:
        if self.is_over:
            raise Wrong(f"{len(message)} bytes behind the end")
        if message.startswith(_UNWANTED):
            raise RpcError("as for an event that cannot be read")

    def go_on(self) -> None:
        """As the loop does once what it waits for is there."""
        while not self.is_over and (self._waits_for is None or self._waits_for.done()):
            try:
                self._waits_for = self._work.send(None)
            except (StopIteration, RpcError):
                self.is_over = True


class _Run:
    """One connection."""

    def __init__(self) -> None:
        self.loop = _Loop()
        self._server = _Server()
        loop: Any = self.loop
        transport: Any = self._server
        self._connection = Http2Connection(loop, "etcd")
        self._connection.connection_made(transport)
        self._calls: list[Http2Call] = []
        self._listeners: list[_Listener] = []
        self._answers: list[list[bytes | RpcError]] = []

    def step(self, pieces: Pieces) -> None:
        """One step of the input. Raises RpcError for a call that cannot be made any more."""
        meaning = pieces.byte() % _MEANINGS
        if meaning == SERVER:
            self.receive(pieces.piece())
        elif meaning == TIME:
            self.loop.wait(pieces.byte() / 4)
        elif meaning == REQUEST:
            self.request(pieces.byte() * _UNIT)
        elif meaning == STREAM:
            self._listeners.append(_Listener(self._open()))
        elif meaning == WRITE:
            which, size = pieces.byte(), pieces.byte() * _UNIT
            if self._listeners:
                self._listeners[which % len(self._listeners)].call.write(bytes(size))
        elif self._calls:
            self._calls[pieces.byte() % len(self._calls)].cancel()

    def receive(self, data: bytes) -> None:
        """The server sends these bytes."""
        if self._connection.usable or self._connection.busy:
            self._server.grants(data)
            self._connection.data_received(data)

    def request(self, size: int) -> None:
        """A call of so many bytes, which wants one answer. Raises RpcError."""
        call = self._open()
        answers: list[bytes | RpcError] = []
        self._answers.append(answers)
        call.answer(_TIMEOUT, answers.append)
        self._connection.sender.send(call, bytes(size), last=True)

    def _open(self) -> Http2Call:
        call = self._connection.open(request_headers("http", "etcd", "/p.S/M", _TIMEOUT, (("a", "b" * 130),)))
        self._calls.append(call)
        return call

    def go_on(self) -> None:
        """Continue the calls whose answers have arrived."""
        self.loop.run()
        for listener in self._listeners:
            listener.go_on()

    def finish(self) -> None:
        """The connection is gone."""
        self._connection.connection_lost(None)
        self.go_on()
        if self._connection.busy or not all(call.ended for call in self._calls):
            raise Wrong("a call continues without a connection")
        if any(len(answers) != 1 for answers in self._answers):
            raise Wrong(f"answers by request: {[len(answers) for answers in self._answers]}")
        if not all(listener.is_over for listener in self._listeners):
            raise Wrong("a stream's listener still waits")


def calls(data: bytes) -> None:
    """Steps, each a byte that says what, and what that needs."""
    pieces, run = Pieces(data), _Run()
    for _ in range(_MOST_STEPS):
        if not pieces.rest:
            break
        with suppress(RpcError):
            run.step(pieces)
        run.go_on()
    run.finish()


def http2(data: bytes) -> None:
    """What a server sends to two calls: they end, once each, with an answer or RpcError."""
    run = _Run()
    for _ in range(2):
        run.request(100)
    for chunk in cut(data):
        run.receive(chunk)
        run.go_on()
    run.finish()


CALLS = (
    Target("http2", "What a server sends.", http2, (), bytes_each=2000),
    Target(
        "http2-calls",
        "Steps of callers, of the server, and of time.",
        calls,
        (),
        bytes_each=20_000,
        fixed_bytes=16 << 20,
    ),
)
