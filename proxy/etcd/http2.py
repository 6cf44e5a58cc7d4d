"""gRPC calls on one HTTP/2 connection: frames, flow control, pings. Knows no etcd, and does not connect.

grpc.aio spends most of a short call's time on itself (docs/decisions/0007); this does what a client of Go's
gRPC server needs of RFC 9113 and of gRPC's PROTOCOL-HTTP2, on the event loop's own transport. The peer is
told to use no dynamic header table, so a header block means the same wherever it comes, and HPACK's decoder
(the hpack library) is asked once for each distinct block only.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import cast
from urllib.parse import unquote

import hpack

from proxy.etcd.transport import Metadata, RpcError

_FRAME = struct.Struct(">IBI")  # length and type in one word, flags, stream
_FRAME_SIZE = _FRAME.size
_WORD = struct.Struct(">I")
_SETTING = struct.Struct(">HI")
_MESSAGE = struct.Struct(">BI")  # compressed or not, length

_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE, _CONTINUATION = (
    0,
    1,
    3,
    4,
    6,
    7,
    8,
    9,
)
_END_STREAM, _ACK, _END_HEADERS, _PADDED, _PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20

_HEADER_TABLE_SIZE, _ENABLE_PUSH, _INITIAL_WINDOW_SIZE, _MAX_FRAME_SIZE = 1, 2, 4, 5
_CANCEL = 8
_FIRST_STREAM = 1
_NEVER = float("inf")
_LAST_STREAM = (1 << 31) - 1

# RFC 9113's initial values, which hold until the peer's settings come.
_DEFAULT_WINDOW = 65_535
_DEFAULT_FRAME = 16_384
# What the peer may send before we say that we have taken it: a watch that catches up sends tens of MiB.
_WINDOW = 64 << 20

# Seconds. etcd closes connections that ping without a call or within --grpc-keepalive-min-time, 5 s.
_PING_AFTER = 6.0
_PING_PATIENCE = 3.0
_WATCH_INTERVAL = 1.0
# Go's gRPC pings at the first data after each answer to a ping, to measure how much the connection holds.
# A Txn by itself would wake both sides twice. The answer is of use at once only where a request waits for
# the window of the peer; else it is held back for so long, and then leaves with other frames.
_ACK_PATIENCE = 0.1


def _frame(kind: int, flags: int, stream: int, payload: bytes | memoryview = b"") -> bytes:
    return _FRAME.pack(len(payload) << 8 | kind, flags, stream) + payload


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
def _headers_of(block: bytes) -> dict[str, str]:
    """The fields of a header block. Raises hpack.HPACKError."""
    decoder = hpack.Decoder()
    decoder.header_table_size = 0
    decoder.max_allowed_table_size = 0
    fields = decoder.decode(block, raw=True)
    return {bytes(name).decode("latin-1"): bytes(value).decode("latin-1") for name, value in fields}


class Call:
    """One call on a connection: a request or a stream of them, and the answer or answers."""

    __slots__ = (
        "_answer",
        "_connection",
        "_messages",
        "_on_answer",
        "_on_message",
        "_partial",
        "_taken",
        "closed_here",
        "deadline",
        "ended",
        "failure",
        "pending",
        "stream",
        "trouble",
        "window",
    )

    def __init__(self, connection: "Connection", stream: int, window: int) -> None:
        self._connection = connection
        self._answer: asyncio.Future[None] | None = None  # whoever waits for a message or the end
        self._on_answer: Callable[[bytes | RpcError], None] | None = None
        self._messages: deque[bytes] = deque()
        self._on_message: Callable[[bytes], None] | None = None  # whoever takes them as they come
        self._partial = bytearray()
        self._taken = 0  # bytes received that the peer has not been told of
        self.stream = stream
        self.window = window  # bytes that we may still send
        self.deadline = _NEVER  # the loop's time
        self.pending: deque[memoryview] = deque()  # to be sent when the windows allow it
        self.closed_here = False  # no more will be sent
        self.ended = False
        self.failure: RpcError | None = None
        self.trouble: Exception | None = None  # what `_on_message` has raised

    # -- the caller's side ---------------------------------------------------------------------------------

    async def result(self, timeout: float) -> bytes:
        """The one answer of a unary call. `timeout`: seconds. Raises RpcError."""
        if not self.ended:
            self._connection.expire(self, timeout)
        try:
            while not self.ended:
                await self._wait()
        finally:
            self.cancel()  # nothing, unless the caller was cancelled
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
        """Pass on the messages of a stream the moment they come, until the server ends it.

        Raises RpcError, and what `on_message` raises.
        """
        self._on_message = on_message
        self._pass_on()
        try:
            while not self.ended and self.trouble is None:
                await self._wait()
        finally:
            self._on_message = None
        failure = self.trouble or self.failure
        if failure is not None:
            raise failure

    def write(self, message: bytes) -> None:
        """Send one message of a stream, as soon as flow control lets it. Raises RpcError if it is over."""
        if self.failure is not None:
            raise self.failure
        if self.ended:
            raise RpcError("the stream was ended")
        self._connection.send(self, message, last=False)

    def cancel(self) -> None:
        """End the call; whoever waits gets RpcError. Nothing if it is over."""
        if not self.ended:
            self._connection.reset(self)
            self.fail("cancelled")

    async def _wait(self) -> None:
        answer = self._answer = self._connection.loop.create_future()
        try:
            await answer
        finally:
            self._answer = None

    # -- the connection's side -----------------------------------------------------------------------------

    def fail(self, details: str) -> None:
        """The call is over without an answer."""
        self.end(details)
        self.wake()

    def end(self, failure: str | None = None) -> None:
        """Nothing more will come; whoever waits is still to be woken."""
        if failure is not None:
            self.failure = RpcError(failure)
        self.ended = True
        self.pending.clear()

    def feed(self, payload: bytes) -> int:
        """Take bytes of messages; returns how many to tell the peer of. Raises ValueError if garbled."""
        partial = self._partial
        if partial:
            partial += payload
        elif len(payload) >= 5 and _MESSAGE.unpack_from(payload) == (0, len(payload) - 5):
            self._messages.append(payload[5:])  # the usual case: one whole message
        else:
            partial += payload
        while len(partial) >= 5:
            compressed, length = _MESSAGE.unpack_from(partial)
            if compressed:
                raise ValueError("a compressed message, though none was allowed")
            if len(partial) < 5 + length:
                break
            self._messages.append(bytes(partial[5 : 5 + length]))
            del partial[: 5 + length]
        # The answer to a single request is waited for until the end, which comes at once.
        if self._on_message is not None:
            self._pass_on()
        self._taken += len(payload)
        if self._taken < _WINDOW // 2:
            return 0
        taken, self._taken = self._taken, 0
        return taken

    def _pass_on(self) -> None:
        """Give the messages of a stream to whoever listens: no task has to be woken for each."""
        messages = self._messages
        try:
            while messages and self._on_message is not None:
                self._on_message(messages.popleft())
        except Exception as error:  # noqa: BLE001 - it is `listen`'s to raise
            self._on_message = None
            self.trouble = error
            self.wake()

    def wake(self) -> None:
        """Let whoever waits go on."""
        if self._on_answer is not None:
            on_answer, self._on_answer = self._on_answer, None
            on_answer(self._outcome())
        elif self._answer is not None and not self._answer.done():
            self._answer.set_result(None)


class Connection(asyncio.Protocol):
    """One connection. `usable` until it breaks, is closed, or the server says that it goes away."""

    def __init__(self, loop: asyncio.AbstractEventLoop, address: str) -> None:
        """`address` names the peer in errors."""
        self.loop = loop
        self.usable = False
        self._address = address
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []  # frames that leave in one write, for each costs a system call
        self._calls: dict[int, Call] = {}
        self._blocked: dict[int, Call] = {}  # calls with something to send that has not fit
        self._next_stream = _FIRST_STREAM
        self._rest = b""
        self._headers: tuple[int, int, bytes] | None = None  # stream, flags and block still to be continued
        self._window = _DEFAULT_WINDOW
        self._call_window = _DEFAULT_WINDOW
        self._frame_size = _DEFAULT_FRAME
        self._taken = 0
        self._heard = loop.time()
        self._pinged = 0.0
        self._acks: list[bytes] = []  # answers to pings that are not sent yet, and since when
        self._acks_since = 0.0
        self._watch: asyncio.TimerHandle | None = None
        # One timer for the deadlines of all calls: nearly every call is answered long before its own.
        self._deadline = _NEVER
        self._expiry: asyncio.TimerHandle | None = None

    # -- the caller's side ---------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether calls are under way."""
        return bool(self._calls)

    def open(self, headers: bytes) -> Call:
        """Begin a call with a block of request headers, which leave with the first message or by `flush`.

        Raises RpcError if the connection is not usable.
        """
        if not self.usable:
            raise RpcError(f"no connection to {self._address}")
        stream = self._next_stream
        self._next_stream += 2
        if self._next_stream > _LAST_STREAM:
            self.usable = False  # the numbers are used up: another connection takes over
        call = self._calls[stream] = Call(self, stream, self._call_window)
        self._write(_frame(_HEADERS, _END_HEADERS, stream, headers))
        return call

    def send(self, call: Call, message: bytes, *, last: bool) -> None:
        """Send one message of a call; `last`: nothing follows it."""
        call.closed_here = last
        call.pending.append(memoryview(_MESSAGE.pack(0, len(message)) + message))
        self._blocked[call.stream] = call
        self._unblock()
        self.flush()

    def reset(self, call: Call) -> None:
        """Tell the server that nobody waits for this call any more."""
        self._calls.pop(call.stream, None)
        self._blocked.pop(call.stream, None)
        self._write(_frame(_RST_STREAM, 0, call.stream, _WORD.pack(_CANCEL)))
        self.flush()

    def expire(self, call: Call, timeout: float) -> None:
        """Let a call fail if it is not answered in so many seconds."""
        call.deadline = self.loop.time() + timeout
        if call.deadline < self._deadline:
            self._wake_at(call.deadline)

    def _wake_at(self, deadline: float) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._deadline = deadline
        self._expiry = self.loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        """Let the calls fail whose time is over."""
        self._deadline = _NEVER
        self._expiry = None
        now = self.loop.time()
        for call in [call for call in self._calls.values() if call.deadline <= now]:
            self.reset(call)
            call.fail("deadline exceeded")
        following = min((call.deadline for call in self._calls.values()), default=_NEVER)
        if following < self._deadline:
            self._wake_at(following)

    def flush(self) -> None:
        """Send what has gathered."""
        acks = self._acks
        if acks and (self._blocked or self.loop.time() - self._acks_since >= _ACK_PATIENCE):
            self._out += acks
            acks.clear()
        out = self._out
        if out:
            self._out = []
            if self._transport is not None:
                self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def close(self) -> None:
        """Close at once; calls under way fail."""
        self._lose("closed")

    # -- asyncio's side ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello. Calls may follow at once: initial values hold until the settings of the server come."""
        self._transport = cast(asyncio.Transport, transport)
        settings = ((_HEADER_TABLE_SIZE, 0), (_ENABLE_PUSH, 0), (_INITIAL_WINDOW_SIZE, _WINDOW))
        self._transport.write(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + _frame(_SETTINGS, 0, 0, b"".join(_SETTING.pack(*setting) for setting in settings))
            + _frame(_WINDOW_UPDATE, 0, 0, _WORD.pack(_WINDOW - _DEFAULT_WINDOW))
        )
        self.usable = True
        self._watch = self.loop.call_later(_WATCH_INTERVAL, self._look)

    def data_received(self, data: bytes) -> None:
        """Handle all whole frames."""
        self._heard = self.loop.time()
        if self._rest:
            data = self._rest + data
        position = 0
        size = len(data)
        try:
            while size - position >= _FRAME_SIZE:
                word, flags, stream = _FRAME.unpack_from(data, position)
                length = word >> 8
                if length > _DEFAULT_FRAME:
                    raise ValueError(f"a frame of {length} bytes")
                begin = position + _FRAME_SIZE
                if begin + length > size:
                    break
                position = begin + length
                self._take(word & 0xFF, flags, stream & _LAST_STREAM, data[begin:position])
        except (ValueError, IndexError, struct.error, hpack.HPACKError) as error:
            self._lose(f"not understood: {error}")
            return
        self._rest = data[position:]
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, and with it every call."""
        self._lose(str(exc) if exc else "closed by the peer")

    def _lose(self, why: str) -> None:
        self.usable = False
        for timer in (self._watch, self._expiry):
            if timer is not None:
                timer.cancel()
        self._watch = self._expiry = None
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        calls, self._calls = self._calls, {}
        self._blocked.clear()
        for call in calls.values():
            call.fail(f"connection to {self._address}: {why}")

    def _look(self) -> None:
        """See whether the peer still answers; a silent one is asked."""
        now = self.loop.time()
        if self._pinged and now - self._pinged >= _PING_PATIENCE:
            self._lose(f"no answer to a ping in {_PING_PATIENCE:.0f} s")
            return
        if not self._pinged and self._calls and now - self._heard >= _PING_AFTER:
            self._pinged = now
            self._write(_frame(_PING, 0, 0, bytes(8)))
        self.flush()
        self._watch = self.loop.call_later(_WATCH_INTERVAL, self._look)

    def _write(self, data: bytes) -> None:
        self._out.append(data)

    # -- frames --------------------------------------------------------------------------------------------

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        """One frame. Raises ValueError, IndexError, struct.error and HPACKError for what breaks the rules."""
        if self._headers is not None and kind != _CONTINUATION:
            raise ValueError("headers without their end")
        if kind == _DATA:
            self._take_data(flags, stream, payload)
        elif kind == _HEADERS:
            if flags & _PADDED:
                payload = payload[1 : len(payload) - payload[0]]
            if flags & _PRIORITY:
                payload = payload[5:]
            self._headers = (stream, flags, payload)
            if flags & _END_HEADERS:
                self._take_headers()
        elif kind == _CONTINUATION:
            if self._headers is None or self._headers[0] != stream:
                raise ValueError("a continuation of nothing")
            self._headers = (stream, self._headers[1], self._headers[2] + payload)
            if flags & _END_HEADERS:
                self._take_headers()
        elif kind == _WINDOW_UPDATE:
            self._take_window(stream, _WORD.unpack(payload)[0] & _LAST_STREAM)
        elif kind == _SETTINGS:
            if not flags & _ACK:
                self._take_settings(payload)
        elif kind == _PING:
            if flags & _ACK:
                self._pinged = 0.0
            else:
                if not self._acks:
                    self._acks_since = self.loop.time()
                self._acks.append(_frame(_PING, _ACK, 0, payload))
        elif kind == _RST_STREAM:
            (code,) = _WORD.unpack(payload)  # before the call is out of reach of `_lose`
            call = self._calls.pop(stream, None)
            self._blocked.pop(stream, None)
            if call is not None:
                call.fail(f"reset by the server, code {code}")
        elif kind == _GOAWAY:
            self._take_goaway(_WORD.unpack_from(payload)[0] & _LAST_STREAM)
        # Other kinds are to be passed over (RFC 9113, 4.1).

    def _take_data(self, flags: int, stream: int, payload: bytes) -> None:
        self._taken += len(payload)
        if self._taken >= _WINDOW // 2:
            self._write(_frame(_WINDOW_UPDATE, 0, 0, _WORD.pack(self._taken)))
            self._taken = 0
        call = self._calls.get(stream)
        if call is None:
            return  # cancelled meanwhile
        if flags & _PADDED:
            payload = payload[1 : len(payload) - payload[0]]
        taken = call.feed(payload)
        if taken:
            self._write(_frame(_WINDOW_UPDATE, 0, stream, _WORD.pack(taken)))
        if flags & _END_STREAM:
            self._end(call, "the stream ended without a status")

    def _take_headers(self) -> None:
        assert self._headers is not None
        stream, flags, block = self._headers
        self._headers = None
        headers = _headers_of(block)
        call = self._calls.get(stream)
        if call is None or not flags & _END_STREAM:
            return
        status = headers.get("grpc-status")
        if status == "0":
            self._end(call, None)
        elif status is None:
            self._end(call, f"HTTP status {headers.get(':status')} without a gRPC status")
        else:
            self._end(call, unquote(headers.get("grpc-message", "")) or f"gRPC status {status}")

    def _end(self, call: Call, failure: str | None) -> None:
        """The server has said its last word on a call."""
        if call.pending or not call.closed_here:
            self.reset(call)  # it does not wait for the rest of the request
        else:
            del self._calls[call.stream]
        call.end(failure)
        # A turn of the loop later: what comes on a stream with it goes first, and what follows from that. For
        # clients wait for what the watch shows, and nobody for the answer to the Txn.
        self.loop.call_soon(call.wake)

    def _take_settings(self, payload: bytes) -> None:
        for name, value in _SETTING.iter_unpack(payload):
            if name == _INITIAL_WINDOW_SIZE:
                for call in self._calls.values():
                    call.window += value - self._call_window
                self._call_window = value
            elif name == _MAX_FRAME_SIZE:
                self._frame_size = value
        self._write(_frame(_SETTINGS, _ACK, 0))
        self._unblock()

    def _take_window(self, stream: int, size: int) -> None:
        if stream == 0:
            self._window += size
        else:
            call = self._calls.get(stream)
            if call is not None:
                call.window += size
        self._unblock()

    def _take_goaway(self, last: int) -> None:
        """New calls need another connection; the ones behind `last` have not been looked at."""
        self.usable = False
        for stream in [stream for stream in self._calls if stream > last]:
            self._blocked.pop(stream, None)
            self._calls.pop(stream).fail(f"{self._address} goes away")

    def _unblock(self) -> None:
        """Send what the windows allow, a frame of each call in turn."""
        blocked = self._blocked
        while blocked:
            sent = False
            for call in list(blocked.values()):
                data = call.pending[0]
                room = min(self._frame_size, call.window, self._window)
                if room <= 0:
                    continue
                if len(data) <= room:
                    call.pending.popleft()
                else:
                    call.pending[0], data = data[room:], data[:room]
                last = call.closed_here and not call.pending
                self._write(_frame(_DATA, _END_STREAM if last else 0, call.stream, data))
                call.window -= len(data)
                self._window -= len(data)
                if not call.pending:
                    del blocked[call.stream]
                sent = True
            if not sent:
                return
