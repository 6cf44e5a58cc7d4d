"""gRPC calls to one server by our own HTTP/2: frames, flow control, pings, and the connection.

grpc.aio spends most of a short call's time on itself (docs/decisions/0007); this implements what a client of
Go's gRPC server needs of RFC 9113 and of gRPC's PROTOCOL-HTTP2, on the event loop's own transport. Nothing
here knows etcd.

From below: frames as bytes, and back; `FrameSender`, what leaves, as far as the server's windows allow;
`Http2Call`, one request or a stream of them, with the state of its stream; `Http2Connection`, which gives
what arrives to its calls; `Http2Channel`, which opens a connection when it is needed. It repeats nothing: a
call whose connection breaks fails, and so does one that is made right after an attempt to connect has failed.

The settings forbid a dynamic header table. So equal header blocks mean the same on every stream, and HPACK's
decoder (the hpack library) runs only once for each distinct block.
"""

import asyncio
import ssl
import struct
from collections.abc import Callable
from functools import lru_cache, partial
from typing import cast
from urllib.parse import unquote

import hpack

from proxy.etcd.asking import ask
from proxy.etcd.tls import Tls, explained
from proxy.etcd.transport import InFlight, Metadata, RpcError, address_of, is_socket
from proxy.etcd.unix_socket import reachable
from proxy.support.names import Names
from proxy.support.tasks import Tasks

HEAD = struct.Struct(">IBI")  # length and type in one word, flags, stream
_HEAD_BYTES = HEAD.size
WORD = struct.Struct(">I")
SETTING = struct.Struct(">HI")
MESSAGE = struct.Struct(">BI")  # compressed or not, length

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
HEADER_TABLE_SIZE, ENABLE_PUSH, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 1, 2, 4, 5
CANCEL = 8  # the code of a reset

LARGEST = (1 << 31) - 1  # a stream's number, and a window
# RFC 9113's initial values, which hold until the settings of the server arrive.
DEFAULT_WINDOW = 65_535
DEFAULT_FRAME = 16_384
_LARGEST_FRAME = (1 << 24) - 1
# Bytes. etcd's header blocks have some tens. hpack refuses fields of more than this, once it has the block.
_LARGEST_HEADERS = 64 << 10
# Bytes of one answer. Ours are of some MiB, and of some tens at most; Go's gRPC can send 2 GiB.
_LARGEST_MESSAGE = 1 << 30
# The bytes that the server may send before we acknowledge them: a watch that catches up brings tens of MiB.
WINDOW = 64 << 20
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# Go's gRPC pings at the first data after each answer to a ping, to measure how much the connection holds.
# A single Txn would wake both sides twice. The answer is of use at once only while a request waits for the
# window of the server. Otherwise it is delayed for so many seconds, and then leaves with other frames.
_PONG_DELAY = 0.1

_NEVER = float("inf")

# Seconds. etcd closes connections that ping without a call or within --grpc-keepalive-min-time, 5 s.
_PING_AFTER = 6.0
_PING_TIMEOUT = 3.0
_CHECK_INTERVAL = 1.0

# Seconds. One attempt to connect, TLS included, may take so long.
_CONNECT_TIMEOUT = 5.0
# Between attempts; an etcd that returns should be seen within a second.
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 1.0


# -- frames -------------------------------------------------------------------------------------------------


def frame(kind: int, flags: int, stream: int, payload: bytes | memoryview = b"") -> bytes:
    """One frame."""
    return HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def preface() -> bytes:
    """What a client sends first."""
    settings = ((HEADER_TABLE_SIZE, 0), (ENABLE_PUSH, 0), (INITIAL_WINDOW_SIZE, WINDOW))
    return (
        _PREFACE
        + frame(SETTINGS, 0, 0, b"".join(SETTING.pack(*setting) for setting in settings))
        + frame(WINDOW_UPDATE, 0, 0, WORD.pack(WINDOW - DEFAULT_WINDOW))
    )


def without_padding(flags: int, payload: bytes) -> bytes:
    """The payload of DATA or HEADERS without its padding. Raises ValueError, and IndexError if empty."""
    if not flags & PADDED:
        return payload
    padding = payload[0]
    if padding >= len(payload):
        raise ValueError("more padding than payload")
    return payload[1 : len(payload) - padding]


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """The settings of the server. Raises ValueError for one out of bounds, and struct.error."""
    settings = list(SETTING.iter_unpack(payload))
    for name, value in settings:
        if name == INITIAL_WINDOW_SIZE and value > LARGEST:
            raise ValueError(f"settings: an initial window of {value} bytes")
        if name == MAX_FRAME_SIZE and not DEFAULT_FRAME <= value <= _LARGEST_FRAME:
            raise ValueError(f"settings: frames of {value} bytes")
    return settings


def _text(value: str) -> bytes:
    """A string of a header field: its length as HPACK's integer with a prefix of 7 bits, then its bytes."""
    data = value.encode()
    rest = len(data) - 127
    if rest < 0:
        return bytes((len(data),)) + data
    length = bytearray((127,))
    while rest >= 128:
        length.append(rest & 127 | 128)
        rest >>= 7
    length.append(rest)
    return bytes(length) + data


@lru_cache(maxsize=256)
def request_headers(
    scheme: str, authority: str, path: str, timeout: float | None, metadata: Metadata
) -> bytes:
    """The header block of a request: literals that enter no table. `timeout`: seconds."""
    fields = [
        b"\x83",  # :method POST
        b"\x87" if scheme == "https" else b"\x86",
        b"\x04" + _text(path),
        b"\x01" + _text(authority),
        b"\x0f\x10" + _text("application/grpc"),
        b"\x00" + _text("te") + _text("trailers"),
    ]
    if timeout is not None:
        # At most eight digits, by gRPC's rules: a day in milliseconds fits.
        fields.append(b"\x00" + _text("grpc-timeout") + _text(f"{max(1, round(timeout * 1000))}m"))
    fields += (b"\x00" + _text(name) + _text(value) for name, value in metadata)
    return b"".join(fields)


@lru_cache(maxsize=256)
def header_fields(block: bytes) -> dict[str, str]:
    """The fields of a header block. Raises hpack.HPACKError."""
    decoder = hpack.Decoder()
    decoder.header_table_size = 0
    decoder.max_allowed_table_size = 0
    fields = decoder.decode(block, raw=True)
    return {bytes(name).decode("latin-1"): bytes(value).decode("latin-1") for name, value in fields}


# -- what leaves --------------------------------------------------------------------------------------------


class FrameSender:
    """The sending side of one connection."""

    __slots__ = (
        "_frames",
        "_initial_window",
        "_loop",
        "_max_frame",
        "_pongs",
        "_pongs_since",
        "_waiting",
        "_window",
        "transport",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._frames: list[bytes | memoryview] = []  # they leave in one write: each write costs a system call
        self._window = DEFAULT_WINDOW
        self._initial_window = DEFAULT_WINDOW
        self._max_frame = DEFAULT_FRAME
        self._waiting: dict[int, Http2Call] = {}  # by stream: those with something to send
        self._pongs: list[bytes] = []
        self._pongs_since = 0.0
        self.transport: asyncio.Transport | None = None

    def open(self, call: "Http2Call", headers: bytes) -> None:
        """Begin a stream with a block of headers, which leave with the next `flush`."""
        call.window = self._initial_window
        self._frames += (HEAD.pack(len(headers) << 8 | HEADERS, END_HEADERS, call.stream), headers)

    def add(self, data: bytes) -> None:
        """Send a frame with the next `flush`."""
        self._frames.append(data)

    def send(self, call: "Http2Call", message: bytes, *, last: bool) -> None:
        """Send one message of a request; `last`: nothing follows it."""
        call.closed = last
        data = MESSAGE.pack(0, len(message)) + message
        if not self._waiting and len(data) <= self._room(call):  # most often
            self._add_data(call, data)
        else:
            call.pending = memoryview(b"".join((call.pending, data)))
            self._waiting[call.stream] = call
            self._fill()
        self.flush()

    def discard(self, call: "Http2Call") -> None:
        """The stream is over: send nothing more of it."""
        call.pending = b""
        self._waiting.pop(call.stream, None)

    def flush(self) -> None:
        """Write what has gathered."""
        pongs = self._pongs
        if pongs and (self._waiting or self._loop.time() - self._pongs_since >= _PONG_DELAY):
            self._frames += pongs
            pongs.clear()
        frames = self._frames
        if frames:
            self._frames = []
            if self.transport is not None:
                self.transport.write(b"".join(frames))

    # -- what the server says about it -----------------------------------------------------------------------

    def answer_ping(self, payload: bytes) -> None:
        """The server has sent a ping."""
        if not self._pongs:
            self._pongs_since = self._loop.time()
        self._pongs.append(frame(PING, ACK, 0, payload))

    def apply(self, settings: list[tuple[int, int]], calls: list["Http2Call"]) -> None:
        """The server has sent settings; `calls` are open. Raises ValueError for a window that overflows."""
        for name, value in settings:
            if name == INITIAL_WINDOW_SIZE:
                for call in calls:
                    call.window += value - self._initial_window
                    if call.window > LARGEST:
                        raise ValueError("settings: a window too large")
                self._initial_window = value
            elif name == MAX_FRAME_SIZE:
                self._max_frame = value
        self.add(frame(SETTINGS, ACK, 0))
        self._fill()

    def widen(self, size: int) -> None:
        """The server takes so many more bytes on the connection. Raises ValueError if that cannot be."""
        self._window += size
        if not size or self._window > LARGEST:
            raise ValueError(f"window: {size} bytes more")
        self._fill()

    def widen_stream(self, call: "Http2Call", size: int) -> bool:
        """The server takes so many more bytes of this stream; False if that cannot be."""
        call.window += size
        if not size or call.window > LARGEST:
            return False
        self._fill()
        return True

    def _room(self, call: "Http2Call") -> int:
        """The most bytes that the next frame of a call may have."""
        return min(self._max_frame, call.window, self._window)

    def _add_data(self, call: "Http2Call", data: bytes | memoryview) -> None:
        size = len(data)
        self._frames += (HEAD.pack(size << 8 | DATA, END_STREAM if call.is_sent else 0, call.stream), data)
        call.window -= size
        self._window -= size

    def _fill(self) -> None:
        """Send what the windows allow, a frame of each call in turn."""
        waiting = self._waiting
        progress = bool(waiting)
        while progress:
            progress = False
            for call in list(waiting.values()):
                room = self._room(call)
                if room <= 0:
                    continue
                data, call.pending = call.pending[:room], call.pending[room:]
                self._add_data(call, data)
                if not call.pending:
                    del waiting[call.stream]
                progress = True


# -- calls on a connection ----------------------------------------------------------------------------------


class Http2Call:
    """One call on a connection: a request or a stream of them, and the answer or answers."""

    __slots__ = (
        "_answered",
        "_begun",
        "_connection",
        "_messages",
        "_on_answer",
        "_on_message",
        "closed",
        "deadline",
        "ended",
        "failure",
        "listener_error",
        "pending",
        "received",
        "stream",
        "window",
    )

    def __init__(self, connection: "Http2Connection", stream: int) -> None:
        self._connection = connection
        self.stream = stream  # its number
        # What is still to be sent, how many bytes the server takes, and whether nothing follows `pending`.
        self.pending: bytes | memoryview = b""
        self.window = 0  # the sender sets it
        self.closed = False
        self.received = 0  # bytes that are not acknowledged
        self._answered: asyncio.Future[None] | None = None  # for a task that waits for a message or the end
        self._on_answer: Callable[[bytes | RpcError], None] | None = None
        self._messages: list[bytes] = []
        self._on_message: Callable[[bytes], None] | None = None
        self._begun: bytearray | None = None  # a message of which more follows
        self.deadline = _NEVER  # the loop's time
        self.ended = False
        self.failure: RpcError | None = None
        self.listener_error: Exception | None = None

    @property
    def is_sent(self) -> bool:
        """Whether everything has left."""
        return self.closed and not self.pending

    # -- the caller's side ---------------------------------------------------------------------------------

    async def result(self, timeout: float) -> bytes:
        """The one answer of a unary call. `timeout`: seconds. Raises RpcError."""
        if not self.ended:
            self._connection.expire(self, timeout)
        try:
            while not self.ended:
                await self._wait()
        finally:
            self.cancel()  # does nothing unless the caller was cancelled
        answer = self._outcome()
        if isinstance(answer, RpcError):
            raise answer
        return answer

    def answer(self, timeout: float, on_answer: Callable[[bytes | RpcError], None]) -> None:
        """As `result`, of a call that has just begun, by a callback: no task has to wait for it."""
        self._on_answer = on_answer
        self._connection.expire(self, timeout)

    def _outcome(self) -> bytes | RpcError:
        if self.failure is not None:
            return self.failure
        if len(self._messages) != 1:
            return RpcError(f"{len(self._messages)} answers to one request")
        return self._messages[0]

    async def listen(self, on_message: Callable[[bytes], None]) -> None:
        """Pass on the messages of a stream as they arrive, until the server ends it.

        Raises RpcError, and what `on_message` raises.
        """
        self._on_message = on_message
        self._pass_on()
        try:
            while not self.ended and self.listener_error is None:
                await self._wait()
        finally:
            self._on_message = None
        failure = self.listener_error or self.failure
        if failure is not None:
            raise failure

    def write(self, message: bytes) -> None:
        """Send one message of a stream as soon as flow control allows it. Raises RpcError if it is over."""
        if self.failure is not None:
            raise self.failure
        if self.ended:
            raise RpcError("the stream was ended")
        self._connection.sender.send(self, message, last=False)

    def cancel(self) -> None:
        """End the call with RpcError. Does nothing if it is over."""
        if not self.ended:
            self._connection.reset(self)
            self.end("cancelled")

    async def _wait(self) -> None:
        self._answered = self._connection.loop.create_future()
        try:
            await self._answered
        finally:
            self._answered = None

    # -- the connection's side -----------------------------------------------------------------------------

    def end(self, failure: str | None) -> None:
        """Nothing more will arrive. The caller learns it one turn of the loop later.

        So no callback runs in the parser, which would take what it raises for garbage of the server, nor in a
        loop over calls. And a watch event of the same packet is handled first: clients wait for the event,
        not for the answer to the Txn.
        """
        if failure is not None:
            self.failure = RpcError(failure)
        self.ended = True
        self._connection.loop.call_soon(self.wake)

    def feed(self, payload: bytes) -> None:
        """Take bytes of messages. Raises ValueError if they are garbled."""
        begun = self._begun
        if begun is None and len(payload) >= 5 and MESSAGE.unpack_from(payload) == (0, len(payload) - 5):
            self._messages.append(payload[5:])  # the usual case: one whole message
        else:
            begun = self._begun = bytearray() if begun is None else begun
            begun += payload
            while len(begun) >= 5:
                compressed, length = MESSAGE.unpack_from(begun)
                if compressed:
                    raise ValueError("a compressed message, though none was allowed")
                if length > _LARGEST_MESSAGE:
                    raise ValueError(f"a message of {length} bytes")
                if len(begun) < 5 + length:
                    break
                self._messages.append(bytes(begun[5 : 5 + length]))
                del begun[: 5 + length]
            if not begun:
                self._begun = None
        # The answer to a single request waits for the end of the stream, which follows at once.
        if self._on_message is not None:
            self._pass_on()

    def _pass_on(self) -> None:
        """Give the messages of a stream to its listener: no task has to be woken for each."""
        messages, self._messages = self._messages, []
        try:
            for message in messages:
                if self._on_message is not None:
                    self._on_message(message)
        except Exception as error:  # noqa: BLE001 - `listen` raises it
            self._on_message = None
            self.listener_error = error
            self.wake()

    def wake(self) -> None:
        """Give the outcome to the caller."""
        if self._on_answer is not None:
            on_answer, self._on_answer = self._on_answer, None
            on_answer(self._outcome())
        elif self._answered is not None and not self._answered.done():
            self._answered.set_result(None)


class Http2Connection(asyncio.Protocol):
    """One connection. `usable` until it breaks, is closed, or the server says that it goes away."""

    def __init__(self, loop: asyncio.AbstractEventLoop, address: str) -> None:
        """`address` names the server in errors."""
        self.loop = loop
        self.usable = False
        self.sender = FrameSender(loop)
        self._address = address
        self._calls: dict[int, Http2Call] = {}
        self._next_stream = 1
        self._rest = b""
        # Stream, flags and block that is still to be continued.
        self._headers: tuple[int, int, bytearray] | None = None
        self._received = 0  # bytes of all calls that are not acknowledged
        self._last_received = loop.time()
        self._pinged = 0.0
        self._check_timer: asyncio.TimerHandle | None = None
        # One timer for the deadlines of all calls: nearly every call is answered long before its own.
        self._deadline = _NEVER
        self._deadline_timer: asyncio.TimerHandle | None = None

    # -- the caller's side ---------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether calls are under way."""
        return bool(self._calls)

    def open(self, headers: bytes) -> Http2Call:
        """Begin a call with a block of headers, which leave with the first message or a flush of `sender`.

        Raises RpcError if the connection is not usable.
        """
        if not self.usable:
            raise RpcError(f"no connection to {self._address}")
        stream = self._next_stream
        self._next_stream += 2
        if self._next_stream > LARGEST:
            self.usable = False  # the numbers are used up: another connection takes over
        call = self._calls[stream] = Http2Call(self, stream)
        self.sender.open(call, headers)
        return call

    def reset(self, call: Http2Call) -> None:
        """Tell the server that this call is not wanted any more."""
        self._forget(call)
        self.sender.add(frame(RST_STREAM, 0, call.stream, WORD.pack(CANCEL)))
        self.sender.flush()

    def expire(self, call: Http2Call, timeout: float) -> None:
        """Let a call fail if it is not answered in so many seconds."""
        call.deadline = self.loop.time() + timeout
        if call.deadline < self._deadline:
            self._expire_at(call.deadline)

    def close(self) -> None:
        """Close at once; calls under way fail."""
        self._lose("closed")

    # -- asyncio's side ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin. Calls may follow at once: initial values hold until the settings of the server arrive."""
        self.sender.transport = cast(asyncio.Transport, transport)
        self.sender.transport.write(preface())
        self.usable = True
        self._check_timer = self.loop.call_later(_CHECK_INTERVAL, self._check)

    def data_received(self, data: bytes) -> None:
        """Handle all whole frames."""
        self._last_received = self.loop.time()
        if self._rest:
            data = self._rest + data
        position = 0
        size = len(data)
        try:
            while (begin := position + _HEAD_BYTES) <= size:
                word, flags, stream = HEAD.unpack_from(data, position)
                end = begin + (word >> 8)
                if end - begin > DEFAULT_FRAME:
                    raise ValueError(f"a frame of {end - begin} bytes. Is this an etcd's client URL?")
                if end > size:
                    break
                position = end
                self._take(word & 0xFF, flags, stream & LARGEST, data[begin:end])
        except (ValueError, IndexError, struct.error, hpack.HPACKError) as error:
            self._lose(f"not understood: {error}")
            return
        self._rest = data[position:]
        self.sender.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, and with it every call."""
        self._lose(explained(exc) if exc else "closed by the server")

    def _lose(self, why: str) -> None:
        self.usable = False
        for timer in (self._check_timer, self._deadline_timer):
            if timer is not None:
                timer.cancel()
        self._check_timer = self._deadline_timer = None
        transport, self.sender.transport = self.sender.transport, None
        if transport is not None:
            transport.abort()
        for call in list(self._calls.values()):
            self._forget(call)
            call.end(f"connection to {self._address}: {why}")

    # -- time ----------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Ping a server that is silent; end a connection that is silent for too long, or is not needed."""
        now = self.loop.time()
        if self._pinged and now - self._pinged >= _PING_TIMEOUT:
            self._lose(f"no answer to a ping in {_PING_TIMEOUT:.0f} s")
            return
        if not self.usable and not self._calls:
            self._lose("its last call is over")
            return
        if not self._pinged and self._calls and now - self._last_received >= _PING_AFTER:
            self._pinged = now
            self.sender.add(frame(PING, 0, 0, bytes(8)))
        self.sender.flush()
        self._check_timer = self.loop.call_later(_CHECK_INTERVAL, self._check)

    def _expire_at(self, deadline: float) -> None:
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        self._deadline = deadline
        self._deadline_timer = self.loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        """Let the calls fail whose deadline has passed."""
        self._deadline = _NEVER
        self._deadline_timer = None
        now = self.loop.time()
        for call in [call for call in self._calls.values() if call.deadline <= now]:
            self.reset(call)
            call.end("deadline exceeded")
        following = min((call.deadline for call in self._calls.values()), default=_NEVER)
        if following < self._deadline:
            self._expire_at(following)

    # -- frames --------------------------------------------------------------------------------------------

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        """One frame. Raises ValueError, IndexError, struct.error and HPACKError for what breaks the rules."""
        if self._headers is not None and kind != CONTINUATION:
            raise ValueError("headers without their end")
        if kind == DATA:
            self._take_data(flags, stream, payload)
        elif kind == HEADERS:
            block = without_padding(flags, payload)
            self._take_headers(stream, flags, bytearray(block[5:] if flags & PRIORITY else block))
        elif kind == CONTINUATION:
            if self._headers is None or self._headers[0] != stream:
                raise ValueError("a continuation of nothing")
            _, former, begun = self._headers
            begun += payload
            self._take_headers(stream, former | flags & END_HEADERS, begun)
        elif kind == WINDOW_UPDATE:
            self._take_window(stream, WORD.unpack(payload)[0] & LARGEST)
        elif kind == SETTINGS:
            self._take_settings(flags, stream, payload)
        elif kind == PING:
            if stream or len(payload) != 8:
                raise ValueError(f"a ping of {len(payload)} bytes on stream {stream}")
            if flags & ACK:
                self._pinged = 0.0
            else:
                self.sender.answer_ping(payload)
        elif kind == RST_STREAM:
            call = self._call(stream)
            (code,) = WORD.unpack(payload)
            if call is not None:
                self._forget(call)
                call.end(f"reset by the server, code {code}")
        elif kind == GOAWAY:
            self._take_goaway(WORD.unpack_from(payload)[0] & LARGEST)
        # Frames of other types are ignored (RFC 9113, 4.1).

    def _call(self, stream: int) -> Http2Call | None:
        """The call of a stream; None if it is over. Raises ValueError if we have not opened the stream."""
        call = self._calls.get(stream)
        if call is None and (stream >= self._next_stream or not stream % 2):
            raise ValueError(f"stream {stream} is not open")
        return call

    def _take_data(self, flags: int, stream: int, payload: bytes) -> None:
        call = self._call(stream)
        # Padding counts (RFC 9113, 6.1).
        self._received += len(payload)
        if self._received >= WINDOW // 2:
            self.sender.add(frame(WINDOW_UPDATE, 0, 0, WORD.pack(self._received)))
            self._received = 0
        if call is None:
            return  # cancelled in the meantime
        call.feed(without_padding(flags, payload) if flags & PADDED else payload)
        if flags & END_STREAM:
            self._end(call, "the stream ended without a status")
            return
        call.received += len(payload)
        if call.received >= WINDOW // 2:
            self.sender.add(frame(WINDOW_UPDATE, 0, stream, WORD.pack(call.received)))
            call.received = 0

    def _take_headers(self, stream: int, flags: int, block: bytearray) -> None:
        """A block of headers, as far as it has arrived."""
        call = self._call(stream)
        if len(block) > _LARGEST_HEADERS:
            raise ValueError(f"headers of more than {_LARGEST_HEADERS} bytes")
        if not flags & END_HEADERS:
            self._headers = (stream, flags, block)
            return
        self._headers = None
        headers = header_fields(bytes(block))
        if call is None or not flags & END_STREAM:
            return
        status = headers.get("grpc-status")
        if status == "0":
            self._end(call, None)
        elif status is None:
            self._end(call, f"HTTP status {headers.get(':status')} without a gRPC status")
        else:
            self._end(call, unquote(headers.get("grpc-message", "")) or f"gRPC status {status}")

    def _end(self, call: Http2Call, failure: str | None) -> None:
        """The server has ended a call."""
        if call.is_sent:
            del self._calls[call.stream]
        else:
            self.reset(call)  # the server does not wait for the rest of the request
        call.end(failure)

    def _forget(self, call: Http2Call) -> None:
        """A call is over."""
        self._calls.pop(call.stream, None)
        self.sender.discard(call)

    def _take_settings(self, flags: int, stream: int, payload: bytes) -> None:
        if stream or (flags & ACK and payload):
            raise ValueError(f"settings of {len(payload)} bytes on stream {stream}")
        if not flags & ACK:
            self.sender.apply(read_settings(payload), list(self._calls.values()))

    def _take_window(self, stream: int, size: int) -> None:
        if not stream:
            self.sender.widen(size)
            return
        call = self._call(stream)
        if call is not None and not self.sender.widen_stream(call, size):
            self.reset(call)
            call.end(f"window of stream {stream}: {size} bytes more")

    def _take_goaway(self, last: int) -> None:
        """New calls need another connection; the server has not looked at those behind `last`."""
        self.usable = False
        for call in [call for stream, call in self._calls.items() if stream > last]:
            self._forget(call)
            call.end(f"{self._address} goes away")


# -- connections, one after the other -----------------------------------------------------------------------


class Http2Channel:
    """Calls to one server. To be used inside one running event loop."""

    def __init__(self, host: str, port: int, tls: Tls | None = None) -> None:
        """`tls` is for https."""
        self._host = host
        self._port = port
        self._tls = tls
        self._scheme = "http" if tls is None else "https"
        self.address = address_of(host, port)
        name = tls.server_name if tls is not None else ""
        self._authority = "localhost" if is_socket(host) else f"{name}:{port}" if name else self.address
        self._connection: Http2Connection | None = None
        self._connecting: asyncio.Task[Http2Connection] | None = None
        self._former: list[Http2Connection] = []  # their last calls are under way
        self._names = Names()
        self._tasks = Tasks()
        self._pause = 0.0
        self._why_not = "never connected"
        self._not_before = 0.0
        self._closed = False

    def begin(
        self,
        path: str,
        request: bytes,
        timeout: float,
        metadata: Metadata,
        on_answer: Callable[[bytes | RpcError], None],
    ) -> InFlight:
        """Send a request at once where the connection stands; else a task connects first."""
        connection = self._connection
        if connection is None or not connection.usable:
            work = self._connect_and_ask(path, request, timeout, metadata)
            return ask(self._tasks, work, self.address, on_answer)
        call = connection.open(request_headers(self._scheme, self._authority, path, timeout, metadata))
        call.answer(timeout, on_answer)
        connection.sender.send(call, request, last=True)
        return call

    async def _connect_and_ask(
        self, path: str, request: bytes, timeout: float, metadata: Metadata
    ) -> bytes | RpcError:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        try:
            connection = await self._connected(timeout)
            left = max(0.0, deadline - loop.time())
            call = connection.open(request_headers(self._scheme, self._authority, path, left, metadata))
            connection.sender.send(call, request, last=True)
            return await call.result(left)
        except RpcError as error:
            return error

    async def stream(self, path: str, metadata: Metadata = ()) -> Http2Call:
        """Open a call without a deadline, on a new connection if needed. Raises RpcError."""
        connection = self._connection
        if connection is None or not connection.usable:
            connection = await self._connected(_CONNECT_TIMEOUT)
        call = connection.open(request_headers(self._scheme, self._authority, path, None, metadata))
        connection.sender.flush()
        return call

    async def close(self) -> None:
        """Close all connections, also former ones that still have calls, which fail with RpcError."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        for connection in (*self._former, self._connection):
            if connection is not None:
                connection.close()
        await self._tasks.close()
        await asyncio.sleep(0)  # the turn in which the callers learn it

    async def _connected(self, timeout: float) -> Http2Connection:
        """The connection, made anew by one attempt that all callers share."""
        loop = asyncio.get_running_loop()
        if self._closed:
            raise RpcError("the channel is closed")
        if self._connecting is None:
            if loop.time() < self._not_before:
                raise RpcError(self._why_not)
            self._connecting = loop.create_task(self._connect(loop), name=f"connect to {self.address}")
            # Retrieved even if no caller waits any more.
            self._connecting.add_done_callback(lambda attempt: attempt.cancelled() or attempt.exception())
        done, _ = await asyncio.wait({self._connecting}, timeout=timeout)
        if not done:
            raise RpcError(f"connecting to {self.address}: deadline exceeded")
        attempt = done.pop()
        if attempt.cancelled():  # by `close`, before its first step
            raise RpcError("the channel is closed")
        return attempt.result()

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> Http2Connection:
        tls = self._tls
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                transport, connection = await self._opened(loop)
            tunnel = transport.get_extra_info("ssl_object")
            if tunnel is not None and tunnel.selected_alpn_protocol() != "h2":
                connection.close()
                raise ssl.SSLError("the server does not speak HTTP/2")
        except (OSError, TimeoutError, asyncio.CancelledError) as error:
            self._pause = min(max(_FIRST_PAUSE, 2 * self._pause), _LONGEST_PAUSE)
            self._not_before = loop.time() + self._pause
            reason = explained(error)
            if tls is not None and isinstance(error, ConnectionResetError):
                reason = "closed during the TLS handshake. Does this etcd use TLS? If not, its URL is http://"
            self._why_not = f"connecting to {self.address}: {reason}"
            raise RpcError(self._why_not) from None
        finally:
            self._connecting = None
        self._pause = 0.0
        self._former = [old for old in (*self._former, self._connection) if old is not None and old.busy]
        self._connection = connection
        return connection

    async def _opened(self, loop: asyncio.AbstractEventLoop) -> tuple[asyncio.Transport, Http2Connection]:
        made = partial(Http2Connection, loop, self.address)
        if is_socket(self._host):
            with reachable(self._host) as path:
                return await loop.create_unix_connection(made, path)
        tls = self._tls
        context = None if tls is None else await asyncio.to_thread(tls.context)
        name = "" if tls is None else tls.server_name
        return await self._names.connect(made, self._host, self._port, context=context, server_name=name)
