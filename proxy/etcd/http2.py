"""gRPC calls on one HTTP/2 connection: frames, flow control, pings. Knows nothing of etcd; does not connect.

grpc.aio spends most of a short call's time on itself (docs/decisions/0007); this implements what a client of
Go's gRPC server needs of RFC 9113 and of gRPC's PROTOCOL-HTTP2, on the event loop's own transport.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from typing import cast
from urllib.parse import unquote

import hpack

from proxy.etcd.frames import (
    ACK,
    CANCEL,
    CONTINUATION,
    DATA,
    DEFAULT_FRAME,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEAD,
    HEADERS,
    LARGEST,
    MESSAGE,
    PING,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    WORD,
    ReceiveWindow,
    frame,
    header_fields,
    preface,
    read_settings,
    without_padding,
)
from proxy.etcd.sender import Sender
from proxy.etcd.tls import explained
from proxy.etcd.transport import RpcError

_NEVER = float("inf")

# Seconds. etcd closes connections that ping without a call or within --grpc-keepalive-min-time, 5 s.
_PING_AFTER = 6.0
_PING_TIMEOUT = 3.0
_CHECK_INTERVAL = 1.0


class Call:
    """One call on a connection: a request or a stream of them, and the answer or answers."""

    __slots__ = (
        "_answered",
        "_connection",
        "_messages",
        "_on_answer",
        "_on_message",
        "_partial",
        "deadline",
        "ended",
        "failure",
        "listener_error",
        "received",
        "upload",
    )

    def __init__(self, connection: "Connection", stream: int) -> None:
        self._connection = connection
        self._answered: asyncio.Future[None] | None = None  # for a task that waits for a message or the end
        self._on_answer: Callable[[bytes | RpcError], None] | None = None
        self._messages: deque[bytes] = deque()
        self._on_message: Callable[[bytes], None] | None = None
        self._partial = bytearray()
        self.received = ReceiveWindow()
        self.upload = connection.sender.upload(stream)
        self.deadline = _NEVER  # the loop's time
        self.ended = False
        self.failure: RpcError | None = None
        self.listener_error: Exception | None = None

    @property
    def stream(self) -> int:
        """The number of the stream."""
        return self.upload.stream

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
        self._connection.send(self, message, last=False)

    def cancel(self) -> None:
        """End the call with RpcError. Does nothing if it is over."""
        if not self.ended:
            self._connection.reset(self)
            self.fail("cancelled")

    async def _wait(self) -> None:
        self._answered = self._connection.loop.create_future()
        try:
            await self._answered
        finally:
            self._answered = None

    # -- the connection's side -----------------------------------------------------------------------------

    def fail(self, details: str) -> None:
        """The call is over without an answer."""
        self.end(details)
        self.wake()

    def end(self, failure: str | None = None) -> None:
        """Nothing more will arrive; `wake` follows."""
        if failure is not None:
            self.failure = RpcError(failure)
        self.ended = True

    def feed(self, payload: bytes) -> None:
        """Take bytes of messages. Raises ValueError if they are garbled."""
        partial = self._partial
        if partial:
            partial += payload
        elif len(payload) >= 5 and MESSAGE.unpack_from(payload) == (0, len(payload) - 5):
            self._messages.append(payload[5:])  # the usual case: one whole message
        else:
            partial += payload
        while len(partial) >= 5:
            compressed, length = MESSAGE.unpack_from(partial)
            if compressed:
                raise ValueError("a compressed message, though none was allowed")
            if len(partial) < 5 + length:
                break
            self._messages.append(bytes(partial[5 : 5 + length]))
            del partial[: 5 + length]
        # The answer to a single request waits for the end of the stream, which follows at once.
        if self._on_message is not None:
            self._pass_on()

    def _pass_on(self) -> None:
        """Give the messages of a stream to its listener: no task has to be woken for each."""
        messages = self._messages
        try:
            while messages and self._on_message is not None:
                self._on_message(messages.popleft())
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


class Connection(asyncio.Protocol):
    """One connection. `usable` until it breaks, is closed, or the server says that it goes away."""

    def __init__(self, loop: asyncio.AbstractEventLoop, address: str) -> None:
        """`address` names the peer in errors."""
        self.loop = loop
        self.usable = False
        self.sender = Sender(loop)
        self._address = address
        self._calls: dict[int, Call] = {}
        self._next_stream = 1
        self._rest = b""
        self._headers: tuple[int, int, bytes] | None = None  # stream, flags and block still to be continued
        self._received = ReceiveWindow()
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

    def open(self, headers: bytes) -> Call:
        """Begin a call with a block of request headers, which leave with the first message or by `flush`.

        Raises RpcError if the connection is not usable.
        """
        if not self.usable:
            raise RpcError(f"no connection to {self._address}")
        stream = self._next_stream
        self._next_stream += 2
        if self._next_stream > LARGEST:
            self.usable = False  # the numbers are used up: another connection takes over
        call = self._calls[stream] = Call(self, stream)
        self.sender.add(frame(HEADERS, END_HEADERS, stream, headers))
        return call

    def send(self, call: Call, message: bytes, *, last: bool) -> None:
        """Send one message of a call; `last`: nothing follows it."""
        self.sender.send(call.upload, message, last=last)

    def flush(self) -> None:
        """Send what has gathered."""
        self.sender.flush()

    def reset(self, call: Call) -> None:
        """Tell the server that this call is not wanted any more."""
        self._forget(call.stream)
        self.sender.add(frame(RST_STREAM, 0, call.stream, WORD.pack(CANCEL)))
        self.sender.flush()

    def expire(self, call: Call, timeout: float) -> None:
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
            while size - position >= HEAD.size:
                word, flags, stream = HEAD.unpack_from(data, position)
                length = word >> 8
                if length > DEFAULT_FRAME:
                    raise ValueError(f"a frame of {length} bytes. Is this an etcd's client URL?")
                begin = position + HEAD.size
                if begin + length > size:
                    break
                position = begin + length
                self._take(word & 0xFF, flags, stream & LARGEST, data[begin:position])
        except (ValueError, IndexError, struct.error, hpack.HPACKError) as error:
            self._lose(f"not understood: {error}")
            return
        self._rest = data[position:]
        self.sender.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, and with it every call."""
        self._lose(explained(exc) if exc else "closed by the peer")

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
            self._forget(call.stream)
            call.fail(f"connection to {self._address}: {why}")

    # -- time ----------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Ping a peer that is silent; end a connection that is silent for too long, or is not needed."""
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
            call.fail("deadline exceeded")
        following = min((call.deadline for call in self._calls.values()), default=_NEVER)
        if following < self._deadline:
            self._expire_at(following)

    # -- frames --------------------------------------------------------------------------------------------

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        """One frame. Raises ValueError, IndexError, struct.error and HPACKError for what breaks the rules."""
        if self._headers is not None and kind != CONTINUATION:
            raise ValueError("headers without their end")
        if kind == DATA:
            self._check_stream(stream)
            self._take_data(flags, stream, payload)
        elif kind == HEADERS:
            self._check_stream(stream)
            block = without_padding(flags, payload)
            self._take_headers(stream, flags, block[5:] if flags & PRIORITY else block)
        elif kind == CONTINUATION:
            if self._headers is None or self._headers[0] != stream:
                raise ValueError("a continuation of nothing")
            _, former, block = self._headers
            self._take_headers(stream, former | flags & END_HEADERS, block + payload)
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
            self._check_stream(stream)
            (code,) = WORD.unpack(payload)  # first: if it raises, `_lose` must still find the call
            call = self._forget(stream)
            if call is not None:
                call.fail(f"reset by the server, code {code}")
        elif kind == GOAWAY:
            self._take_goaway(WORD.unpack_from(payload)[0] & LARGEST)
        # Frames of other types are ignored (RFC 9113, 4.1).

    def _check_stream(self, stream: int) -> None:
        """Raises ValueError for a stream that we have not opened."""
        if stream >= self._next_stream or not stream % 2:
            raise ValueError(f"stream {stream} is not open")

    def _take_data(self, flags: int, stream: int, payload: bytes) -> None:
        size = len(payload)
        increment = self._received.add(size)
        if increment:
            self.sender.add(frame(WINDOW_UPDATE, 0, 0, WORD.pack(increment)))
        data = without_padding(flags, payload)
        call = self._calls.get(stream)
        if call is None:
            return  # cancelled in the meantime
        call.feed(data)
        if flags & END_STREAM:
            self._end(call, "the stream ended without a status")
            return
        increment = call.received.add(size)
        if increment:
            self.sender.add(frame(WINDOW_UPDATE, 0, stream, WORD.pack(increment)))

    def _take_headers(self, stream: int, flags: int, block: bytes) -> None:
        """A block of headers, as far as it has arrived."""
        if not flags & END_HEADERS:
            self._headers = (stream, flags, block)
            return
        self._headers = None
        headers = header_fields(block)
        call = self._calls.get(stream)
        if call is None or not flags & END_STREAM:
            return
        status = headers.get("grpc-status")
        if status == "0":
            self._end(call, None)
        elif status is None:
            self._end(call, f"HTTP status {headers.get(':status')} without a gRPC status")
        else:
            self._end(call, unquote(headers.get("grpc-message", "")) or f"gRPC status {status}")

    def _end(self, call: Call, failure: str | None) -> None:
        """The server has ended a call."""
        if call.upload.finished:
            self._forget(call.stream)
        else:
            self.reset(call)  # the server does not wait for the rest of the request
        call.end(failure)
        # One turn of the loop later, so that a watch event of the same packet is handled first: clients wait
        # for the event, not for the answer to the Txn.
        self.loop.call_soon(call.wake)

    def _forget(self, stream: int) -> Call | None:
        """A stream is over."""
        call = self._calls.pop(stream, None)
        if call is not None:
            self.sender.discard(call.upload)
        return call

    def _take_settings(self, flags: int, stream: int, payload: bytes) -> None:
        if stream or (flags & ACK and payload):
            raise ValueError(f"settings of {len(payload)} bytes on stream {stream}")
        if not flags & ACK:
            self.sender.apply(read_settings(payload), [call.upload for call in self._calls.values()])

    def _take_window(self, stream: int, size: int) -> None:
        if not stream:
            self.sender.widen(size)
            return
        self._check_stream(stream)
        call = self._calls.get(stream)
        if call is not None and not self.sender.widen_stream(call.upload, size):
            self.reset(call)
            call.fail(f"window of stream {stream}: {size} bytes more")

    def _take_goaway(self, last: int) -> None:
        """New calls need another connection; the server has not looked at those behind `last`."""
        self.usable = False
        for stream in [stream for stream in self._calls if stream > last]:
            call = self._forget(stream)
            if call is not None:
                call.fail(f"{self._address} goes away")
