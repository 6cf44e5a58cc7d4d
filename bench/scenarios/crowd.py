"""Many sessions that mostly wait: they watch, or are just there, and keep themselves alive."""

import select
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

from bench import wire
from bench.errors import BadReply, Stalled
from bench.load import STALL_SECONDS, open_sessions

PING = wire.HEADER.pack(8, -2, 11)
PIECE = 500
"""How many sessions are opened at once; those before them are pinged then, lest they expire meanwhile."""


class Crowd:
    """Sessions whose messages are counted, not read: their sizes are known beforehand."""

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        self.sockets = sockets
        self._poller = select.epoll()
        self._by_descriptor = {}
        for sock in sockets:
            sock.setblocking(False)
            self._by_descriptor[sock.fileno()] = sock
            self._poller.register(sock.fileno(), select.EPOLLIN)

    def ask(self, requests: bytes, reply_size: int) -> None:
        """Send the same bytes on every session, and wait until each has got `reply_size` bytes back."""
        for sock in self.sockets:
            if sock.send(requests) != len(requests):
                raise Stalled("the socket's send buffer is full: the server doesn't read")
        self.arrivals(reply_size)

    def arrivals(self, size: int) -> None:
        """Wait until every session has got `size` more bytes."""
        left = dict.fromkeys(self._by_descriptor, size)
        while left:
            ready = self._poller.poll(STALL_SECONDS)
            if not ready:
                raise Stalled(f"nothing for {STALL_SECONDS:.0f} s on {len(left)} sessions")
            for descriptor, _ in ready:
                data = self._by_descriptor[descriptor].recv(1 << 16)
                if not data:
                    raise Stalled("the server closed a connection")
                if descriptor not in left or len(data) > left[descriptor]:
                    raise BadReply(f"more than was asked for: {data[:60].hex()}")
                left[descriptor] -= len(data)
                if not left[descriptor]:
                    del left[descriptor]

    def stay(self, seconds: float, ping_every: float) -> None:
        """Do nothing but ping, for so long; the pings spread over each interval as real clients' do."""
        start = time.perf_counter()
        sent = answered = 0
        count = len(self.sockets)
        while (elapsed := time.perf_counter() - start) < seconds:
            due = int(elapsed / ping_every * count)
            while sent < due:
                self.sockets[sent % count].send(PING)
                sent += 1
            for descriptor, _ in self._poller.poll(0.05):
                answered += len(self._by_descriptor[descriptor].recv(1 << 16)) // wire.REPLY_SIZE
        if answered < 0.9 * sent - count / 10:
            raise Stalled(f"{answered} answers to {sent} pings")

    def close(self) -> None:
        """Close the selector; `crowd` closes the sockets."""
        self._poller.close()


@contextmanager
def crowd(port: int, size: int) -> Iterator[Crowd]:
    """`size` new sessions."""
    sockets: list[socket.socket] = []
    with ExitStack() as stack:
        while len(sockets) < size:
            sockets += stack.enter_context(open_sessions(port, min(PIECE, size - len(sockets))))
            if len(sockets) > PIECE:
                with closing(Crowd(sockets)) as opened:
                    opened.ask(PING, wire.REPLY_SIZE)
        yield stack.enter_context(closing(Crowd(sockets)))
