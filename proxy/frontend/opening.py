"""The beginning of a connection: the connect request and what is received with it, or a four-letter word."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

from codec.constants import ProtocolVersion
from codec.errors import FrameTooLong
from codec.jute import INT
from codec.keeper import decode_traced_connect, decode_wide_connect
from codec.packets import ConnectRequest, decode_connect, encode_connect_response
from proxy.frontend.replies import NARROW, TRACED_NARROW, TRACED_WIDE, WIDE, Wire
from proxy.frontend.sessions import PASSWORD_BYTES
from proxy.log.slices import Slices
from proxy.state.pause import Pause
from proxy.support.environment import Clock

#: Answers a four-letter word, line by line; None if it is no word. It gets the bytes received with the word.
AnswerWord: TypeAlias = Callable[[bytes, bytes, Pause], Iterator[str] | None]

#: Seconds until a connection without a session is closed; also for its PROXY header, its
#: first byte and its TLS handshake. ZooKeeper: zookeeper.nio.sessionlessCnxnTimeout, by default 10 s, which
#: ExpiryQueue rounds up to whole tens, so that a connection ends after 10 to 20 s.
SESSIONLESS_TIMEOUT = 20
# Versions of the handshake that request another form of packets than ZooKeeper's.
_FORMS_OF_KEEPER = (ProtocolVersion.COMPRESSION, ProtocolVersion.WIDE_XIDS, ProtocolVersion.TRACING)

#: The answer to a client that should try another server, in Keeper's form of the protocol.
ELSEWHERE = encode_connect_response(0, 0, bytes(PASSWORD_BYTES), False, ProtocolVersion.REJECTED)


class WordAnswer:
    """One answer, while it is made."""

    def __init__(self, lines: Iterator[str], slices: Slices) -> None:
        self._slices = slices
        self._made: list[bytes] = []
        slices.prepare(partial(self._make, lines))

    def _make(self, lines: Iterator[str]) -> None:
        for some in self._slices.texts(lines):
            self._made.append("".join(some).encode())

    def make(self) -> list[bytes]:
        """Do one slice; returns what it has made."""
        self._slices.resume()
        made = self._made[:]
        self._made.clear()
        return made

    def cancel(self) -> None:
        """Stop making it: the connection is closed."""
        self._slices.cancel()

    @property
    def is_over(self) -> bool:
        """Whether it is made, or will not be."""
        return self._slices.done


class LongWords:
    """The answers that take more than one slice: one after the other, one slice in a turn of the loop."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[WordAnswer, Callable[[], None]]] = deque()

    def add(self, loop: asyncio.AbstractEventLoop, word: WordAnswer, go_on: Callable[[], None]) -> None:
        """Call `go_on`, which raises nothing, for each slice, until the answer is over."""
        self._waiting.append((word, go_on))
        if len(self._waiting) == 1:
            loop.call_soon(partial(self._turn, loop))

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        word, go_on = self._waiting[0]
        go_on()
        if word.is_over:
            self._waiting.popleft()
        if self._waiting:
            loop.call_soon(partial(self._turn, loop))


class Opening:
    """The beginning of one connection: its connect request, and for how long that is waited for."""

    __slots__ = ("_loop", "_request", "_timer", "due", "requested")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._request: ConnectRequest | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.due = 0.0  # the loop's time at which the connection is closed if it has no session
        self.requested = 0  # nanoseconds, when the connect request was received

    def wait(self, seconds: float, give_up: Callable[[], None] | None) -> None:
        """Call `give_up` after so many seconds, unless the timer is stopped or set. None: `thaw` sets it."""
        self.stop_timer()
        self.due = self._loop.time() + seconds
        if give_up is not None:
            self._timer = self._loop.call_later(seconds, give_up)

    def stop_timer(self) -> None:
        """What the timer waits for has come, or the connection is closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def is_timed(self) -> bool:
        """Whether the timer runs."""
        return self._timer is not None

    def take(self, request: ConnectRequest, received: int) -> None:
        """The connect request was received, at so many nanoseconds."""
        self.stop_timer()
        self._request, self.requested = request, received

    @property
    def continues(self) -> int:
        """The session that the client wants to continue; 0: none, or there is no request."""
        return 0 if self._request is None else self._request.session_id

    def response(
        self, wire: Wire, timeout_ms: int, session_id: int, password: bytes, *, read_only: bool = False
    ) -> bytes:
        """The answer to the connect request. With session 0 it says that the client has to open a new one."""
        assert self._request is not None
        # Only clients that send the read-only byte get one.
        byte = None if self._request.read_only is None else read_only and self._request.read_only
        return encode_connect_response(timeout_ms, session_id, password, byte, wire.version)


def read_opening(packet: bytes, *, keeper: bool) -> tuple[ConnectRequest, Wire | None]:
    """Read a connect request, and find the form of packets that it requests; None: it is not offered.

    `keeper`: whether the server offers Keeper's. Raises MalformedPacket.

    A ClickHouse that requested compression connects again without it; other clients log the error.
    """
    version = INT.unpack_from(packet)[0] if len(packet) >= INT.size else ProtocolVersion.ZOOKEEPER
    if version not in _FORMS_OF_KEEPER or not keeper:
        return decode_connect(packet), NARROW  # ZooKeeper treats any version as its own
    if version == ProtocolVersion.COMPRESSION:
        return ConnectRequest(version, 0, 0, 0, None, read_only=False), None
    is_traced = version == ProtocolVersion.TRACING
    request, is_wide, is_compressed = (decode_traced_connect if is_traced else decode_wide_connect)(packet)
    if is_compressed:
        return request, None
    if is_traced:
        return request, TRACED_WIDE if is_wide else TRACED_NARROW
    return request, WIDE


def word_answer(answer: AnswerWord, packet: FrameTooLong, clock: Clock) -> WordAnswer | None:
    """The answer to bytes that were received in place of a packet; None if they are no four-letter word."""
    slices = Slices(clock)
    lines = answer(INT.pack(packet.length), packet.rest, slices)
    return None if lines is None else WordAnswer(lines, slices)
