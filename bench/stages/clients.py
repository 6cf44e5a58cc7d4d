"""Clients in the proxy's own process: each is its connection's transport, takes replies and gives requests.

They honour what the server asks of a transport: while it does not read, they give nothing.
"""

import asyncio
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from typing_extensions import override

from bench import wire
from bench.errors import BadReply, BenchError, Stalled
from bench.load import accept_session
from bench.replies import ReplyChecker
from bench.stages.meter import ORDER, OUTSIDE, Meter
from bench.streams import Stream
from proxy.server import Server

TIMEOUT_MS = 600_000
_WINDOW = 512
_MOST_AT_ONCE = 256  # what a Stream gives
_LONGEST = 60.0  # seconds of CPU time, since nothing here waits, that a condition may take


class Client(asyncio.Transport):
    """One connection with its session."""

    def __init__(
        self, server: Server, meter: Meter, timeout_ms: int = TIMEOUT_MS, hello: bytes = b""
    ) -> None:
        """Connects, and asks for a session, or says `hello` instead."""
        super().__init__()
        self._meter = meter
        self._paused = False
        self._is_connected = False  # with a session
        self.is_closed = False
        self.failure: BenchError | None = None  # what is wrong with the replies
        self._connection = server.connection()
        self._connection.connection_made(self)
        self.give(hello or wire.connect_packet(timeout_ms))

    @abstractmethod
    def _take(self, data: bytes) -> None:
        """Some replies, or a part of them."""

    def give(self, data: bytes) -> None:
        """Let the proxy have bytes that came from the client."""
        former = self._meter.enter(ORDER)
        self._connection.data_received(data)
        self._meter.enter(former)

    async def connected(self) -> None:
        """Wait for the session."""
        await until(lambda: self._is_connected)

    # What the server sees

    @override
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        former = self._meter.enter(OUTSIDE)
        try:
            if self._is_connected:
                self._take(bytes(data))
            else:
                accept_session(bytes(data))
                self._is_connected = True
        except BenchError as error:
            self.failure = error  # the proxy could do nothing with it
        self._meter.enter(former)

    @override
    def pause_reading(self) -> None:
        self._paused = True

    @override
    def resume_reading(self) -> None:
        self._paused = False

    @override
    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)

    @override
    def abort(self) -> None:
        self.close()


class Asker(Client):
    """Keeps the replies: prepares and verifies, waits for watches."""

    def __init__(self, server: Server, meter: Meter, timeout_ms: int = TIMEOUT_MS) -> None:
        self.frames: list[bytes] = []
        """Replies and events, with their lengths."""
        self._rest = b""
        self._xid = 0
        super().__init__(server, meter, timeout_ms)

    @override
    def _take(self, data: bytes) -> None:
        data = self._rest + data
        start = 0
        while len(data) >= start + 4 and len(data) >= (
            end := start + 4 + wire.INT.unpack_from(data, start)[0]
        ):
            self.frames.append(data[start:end])
            start = end
        self._rest = data[start:]

    def ask(self, *requests: tuple[int, bytes]) -> None:
        """Send (opcode, body) requests in one chunk, though the server should not wish to read."""
        first = self._xid + 1
        self._xid += len(requests)
        self.give(
            b"".join(wire.packet(xid, opcode, body) for xid, (opcode, body) in enumerate(requests, first))
        )

    def call(self, opcode: int, body: bytes) -> bytes:
        """The body of the reply to a read, which comes at once; raises BadReply for an error."""
        self.ask((opcode, body))
        if not self.frames:  # the time for requests in this turn of the loop is over
            self._connection.take_turn()
        return self._bodies(1)[0]

    async def call_many(self, requests: Iterable[tuple[int, bytes]]) -> None:
        """Send (opcode, body) requests, many at a time, and wait for their replies; raises BadReply."""
        source = iter(requests)
        while chunk := list(islice(source, _WINDOW)):
            self.ask(*chunk)
            await self.expect(len(chunk))
            self._bodies(len(chunk))

    async def expect(self, count: int) -> None:
        """Wait for so many frames."""
        await until(lambda: len(self.frames) >= count)

    def _bodies(self, count: int) -> list[bytes]:
        frames, self.frames = self.frames, []
        if len(frames) != count:
            raise BadReply(f"{len(frames)} replies to {count} requests")
        first = self._xid - count + 1
        for expected, frame in enumerate(frames, first):
            _, xid, _zxid, error = wire.REPLY.unpack_from(frame)
            if xid != expected or error:
                raise BadReply(f"xid {xid} (sent {expected}), error {error}")
        return [frame[wire.REPLY_SIZE :] for frame in frames]


class Loader(Client):
    """Sends a workload's requests, so many at a time, and checks the replies."""

    def __init__(self, server: Server, meter: Meter, stream: Stream, depth: int) -> None:
        self.answered = 0
        self._stream = stream
        self._checker = ReplyChecker(stream.reply_sizes)
        self._depth = depth
        self._sent = 0
        self._quota = 0
        super().__init__(server, meter)

    def allow(self, count: int) -> None:
        """So many requests more."""
        self._quota += count

    @property
    def is_idle(self) -> bool:
        """Whether all that was allowed is answered."""
        return self.answered == self._quota

    def go_on(self) -> None:
        """Send what may be sent in place of what was answered. Raises BenchError for a wrong reply."""
        if self.failure is not None:
            raise self.failure
        due = min(self._depth - self._sent + self.answered, self._quota - self._sent, _MOST_AT_ONCE)
        if due > 0 and not self._paused:
            self._sent += due
            self.give(self._stream.take(due))

    @override
    def _take(self, data: bytes) -> None:
        self.answered += self._checker.feed(data)


async def until(condition: Callable[[], bool]) -> None:
    """Let the others run until something holds; raises Stalled if that takes a minute of CPU time."""
    deadline = time.process_time() + _LONGEST
    while not condition():
        if time.process_time() > deadline:
            raise Stalled("the proxy has stopped answering")
        await asyncio.sleep(0)
