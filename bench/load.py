"""The ZooKeeper load generator: sockets, epoll and the clock. What is sent and expected comes from elsewhere.

Closed loop: each connection keeps `depth` requests in flight; when n replies arrive, n new requests leave in
one chunk. Costs are per chunk, not per request, so that plain Python keeps ahead of the servers.
"""

import select
import socket
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple, Self

from bench import wire
from bench.errors import BadReply, Stalled
from bench.replies import ReplyChecker
from bench.streams import Stream

HOST = "127.0.0.1"
# Below malloc's mmap threshold: a bigger buffer costs two system calls per recv, three times the CPU in all.
RECEIVE_BYTES = 1 << 16
STALL_SECONDS = 20.0
SESSION_TIMEOUT_MS = 30_000
AT_ONCE = 32
"""How many connections are opened at once. ZooKeeper lets 50 wait; the system tries what is beyond that again
only after a second."""
WINDOW = 256
"""How many requests Admin keeps in flight."""


class Timing(NamedTuple):
    """What one timed phase saw."""

    counts: list[int]
    """Requests answered, per connection."""
    seconds: float
    """From the first send to the last reply."""
    samples: list[tuple[int, int]]
    """(latency in ns, number of requests that had it)."""


class Admin:
    """A session with blocking calls, to prepare, verify and clean up around the timed phase."""

    def __init__(self, port: int) -> None:
        self._socket = _connect(port)
        self._socket.sendall(wire.connect_packet(SESSION_TIMEOUT_MS))
        self._buffer = b""
        accept_session(self._receive_frame())
        self._xid = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def close_session(self) -> None:
        """Ends the session, so that no expiry falls into a later run."""
        self.call_many([(wire.CLOSE_SESSION, b"")])

    def call_many(self, requests: Iterable[tuple[int, bytes]]) -> list[bytes]:
        """The reply bodies of (opcode, body) requests, pipelined; raises BadReply for an error."""
        replies = []
        source = iter(requests)
        while chunk := list(islice(source, WINDOW)):
            first = self._xid + 1
            self._xid += len(chunk)
            self._socket.sendall(
                b"".join(wire.packet(xid, opcode, body) for xid, (opcode, body) in enumerate(chunk, first))
            )
            for expected in range(first, self._xid + 1):
                frame = self._receive_frame()
                _, xid, _zxid, error = wire.REPLY.unpack_from(frame)
                if xid != expected or error:
                    opcode, body = chunk[expected - first]
                    raise BadReply(f"opcode {opcode} {body!r}: xid {xid} (sent {expected}), error {error}")
                replies.append(frame[wire.REPLY_SIZE :])
        return replies

    def call(self, opcode: int, body: bytes) -> bytes:
        """The reply's body; raises BadReply for an error."""
        return self.call_many([(opcode, body)])[0]

    def _receive_frame(self) -> bytes:
        """One frame with its length prefix."""
        while True:
            if len(self._buffer) >= 4:
                end = 4 + wire.INT.unpack_from(self._buffer)[0]
                if len(self._buffer) >= end:
                    frame, self._buffer = self._buffer[:end], self._buffer[end:]
                    return frame
            self._buffer += _receive(self._socket)


class Connection:
    """One session of the timed phase: its stream of requests, its replies, its latencies."""

    def __init__(self, sock: socket.socket, stream: Stream) -> None:
        self.socket = sock
        self.answered = 0
        self.samples: list[tuple[int, int]] = []
        self._stream = stream
        self._checker = ReplyChecker(stream.reply_sizes)
        self._in_flight: deque[tuple[int, int]] = deque()

    @property
    def idle(self) -> bool:
        """Nothing is in flight."""
        return not self._in_flight

    def send(self, count: int) -> None:
        """Sends the next `count` requests, or what's left of them."""
        count = min(count, self._stream.remaining)
        if not count:
            return
        chunk = self._stream.take(count)
        self._in_flight.append((time.perf_counter_ns(), count))
        # What's in flight is bounded by the depth, a few kilobytes: it always fits the socket's buffer.
        if self.socket.send(chunk) != len(chunk):
            raise Stalled("the socket's send buffer is full: the server doesn't read")

    def receive(self) -> int:
        """Reads what's there and returns how many replies that completed."""
        data = _receive(self.socket)
        now = time.perf_counter_ns()
        count = left = self._checker.feed(data)
        self.answered += count
        in_flight = self._in_flight
        while left:
            sent, waiting = in_flight[0]
            if waiting > left:
                in_flight[0] = (sent, waiting - left)
                waiting = left
            else:
                in_flight.popleft()
            self.samples.append((now - sent, waiting))
            left -= waiting
        return count


@contextmanager
def open_sessions(port: int, count: int) -> Iterator[list[socket.socket]]:
    """The sockets of `count` new sessions; ends them all afterwards."""
    sockets: list[socket.socket] = []
    try:
        while len(sockets) < count:
            opening = [_connect(port) for _ in range(min(AT_ONCE, count - len(sockets)))]
            sockets += opening
            for sock in opening:
                sock.sendall(wire.connect_packet(SESSION_TIMEOUT_MS))
            for sock in opening:
                length = wire.INT.unpack(receive_exactly(sock, 4))[0]
                accept_session(receive_exactly(sock, length), prefix=0)
        yield sockets
        for sock in sockets:
            sock.settimeout(STALL_SECONDS)
            sock.sendall(wire.packet(1, wire.CLOSE_SESSION))
        for sock in sockets:
            # The reply may be followed, or on some servers replaced, by the close.
            while sock.recv(RECEIVE_BYTES):
                pass
    finally:
        for sock in sockets:
            sock.close()


@contextmanager
def connected(port: int, streams: Sequence[Stream]) -> Iterator[list[Connection]]:
    """One new session for each stream; ends them all afterwards."""
    with open_sessions(port, len(streams)) as sockets:
        yield [Connection(sock, stream) for sock, stream in zip(sockets, streams, strict=True)]


def drive(connections: Sequence[Connection], depth: int, seconds: float) -> Timing:
    """Keeps `depth` requests in flight on every connection for `seconds`, then waits for the last replies.

    Raises Stalled when nothing arrives for STALL_SECONDS or a connection ends, BadReply for any reply but
    success.
    """
    by_descriptor = {}
    poller = select.epoll()
    try:
        for connection in connections:
            connection.socket.setblocking(False)
            descriptor = connection.socket.fileno()
            by_descriptor[descriptor] = connection
            poller.register(descriptor, select.EPOLLIN)
        start = time.perf_counter()
        deadline = start + seconds
        for connection in connections:
            connection.send(depth)
        busy = sum(not connection.idle for connection in connections)
        now = start
        while busy:
            ready = poller.poll(STALL_SECONDS)
            if not ready:
                raise Stalled(f"no reply for {STALL_SECONDS:.0f} s on {busy} connections")
            now = time.perf_counter()
            for descriptor, _ in ready:
                connection = by_descriptor[descriptor]
                count = connection.receive()
                if count and now < deadline:
                    connection.send(count)
                if connection.idle:
                    busy -= 1
        finished = time.perf_counter()
    finally:
        poller.close()
    return Timing(
        [connection.answered for connection in connections],
        finished - start,
        [sample for connection in connections for sample in connection.samples],
    )


def _connect(port: int) -> socket.socket:
    sock = socket.create_connection((HOST, port), timeout=STALL_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _receive(sock: socket.socket) -> bytes:
    try:
        data = sock.recv(RECEIVE_BYTES)
    except TimeoutError:
        raise Stalled(f"no reply for {STALL_SECONDS:.0f} s") from None
    except ConnectionResetError:
        data = b""
    if not data:
        raise Stalled("the server closed the connection")
    return data


def receive_exactly(sock: socket.socket, count: int) -> bytes:
    """So many bytes. Raises Stalled."""
    data = b""
    while len(data) < count:
        try:
            chunk = sock.recv(count - len(data))
        except TimeoutError:
            raise Stalled(f"no reply for {STALL_SECONDS:.0f} s") from None
        if not chunk:
            raise Stalled("the server closed the connection")
        data += chunk
    return data


def accept_session(frame: bytes, prefix: int = 4) -> None:
    """Raises Stalled unless the ConnectResponse grants a session (a timeout above 0)."""
    _, timeout = wire.INT.unpack_from(frame, prefix)[0], wire.INT.unpack_from(frame, prefix + 4)[0]
    if timeout <= 0:
        raise Stalled("the server refused the session")
