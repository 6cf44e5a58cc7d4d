"""A ZooKeeper client that takes its replies slowly, or not at all, and pings meanwhile as all clients do.

It has a small receive buffer, so that the replies wait at the server and not in the client's kernel.
"""

import contextlib
import ctypes
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any, Self

from codec import client as zk
from codec.client import Dialogue, Request

_TIMEOUT = 60.0  # seconds for the server's next bytes
_BUFFER = 16 << 10  # bytes; the kernel doubles it
_SO_ATTACH_FILTER = 26  # Linux's, which Python does not name
_BPF_RETURN_0 = struct.pack("HBBI", 0x06, 0, 0, 0)  # an instruction: accept no byte of a packet
_LOOK = 0.02  # seconds between two looks at the clock


class SlowClient:
    """One session, on one connection."""

    def __init__(
        self,
        port: int,
        timeout_ms: int,
        *,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        former: "SlowClient | None" = None,
    ) -> None:
        """Open a new session, or continue the `former` client's."""
        self.session: int
        self.password: bytes
        self.timeout = timeout_ms / 1000
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        plain.settimeout(_TIMEOUT)
        plain.connect((host, port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
        self._dialogue = Dialogue()
        self._frames: list[bytes] = []
        self._sending = threading.Lock()
        self._asked = 0.0  # when it last sent something
        self.session, self.password = (former.session, former.password) if former else (0, bytes(16))
        self._socket.sendall(zk.connect(timeout_ms, 0, self.session, self.password))
        while self._dialogue.granted is None:
            self._receive()
        self.session, self.password, granted = self._dialogue.granted
        assert granted == timeout_ms, "the session has ended"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def drop(self) -> None:
        """Close the connection without a closeSession; what another thread sends fails."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        self._socket.close()

    def ask(self, *requests: Request[Any]) -> None:
        """Send requests in one go; wait until the server has taken them, not for their replies.

        Pings of another thread's `live` wait behind them.
        """
        packets = [self._dialogue.request(request)[1] for request in requests]
        with self._sending:
            self._socket.sendall(b"".join(packets))
            self._asked = time.monotonic()

    def vanish(self) -> None:
        """Drop everything that comes from now on, also in the kernel: as if this host were gone."""
        drop = ctypes.create_string_buffer(_BPF_RETURN_0)
        program = struct.pack("HP", 1, ctypes.addressof(drop))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)

    def live(self, seconds: float, *, rate: int = 0, pings: bool = True) -> None:
        """For so many seconds, read so many bytes a second, and ping as Java's client does."""
        begun = now = time.monotonic()
        read = 0
        while now < begun + seconds:
            if pings:
                self._ping()
            room = min(int((now - begun) * rate) - read, _BUFFER)
            if room > 0 and self._has_some:
                read += self._receive(room)
            time.sleep(_LOOK)
            now = time.monotonic()

    def errors(self, count: int) -> Sequence[int]:
        """Read the replies to so many requests, in their order; returns their errors. Pings are left out.

        It pings meanwhile: on a busy machine megabytes take longer than a session lives.
        Raises ConnectionError if the server closes the connection before.
        """
        errors: list[int] = []
        while len(errors) < count:
            while not self._frames:
                self._ping()
                self._receive()
            header = zk.header(self._frames.pop(0))
            if header.xid > 0:
                errors.append(header.error)
        return errors

    def _ping(self) -> None:
        """If it is time, and no other thread is sending."""
        now = time.monotonic()
        if now - self._asked > self.timeout / 3 and self._sending.acquire(blocking=False):
            self._socket.sendall(zk.PING)
            self._asked = now
            self._sending.release()

    @property
    def _has_some(self) -> bool:
        decrypted = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()
        return bool(decrypted or select.select([self._socket], (), (), 0)[0])

    def _receive(self, most: int = 1 << 16) -> int:
        """Read some bytes; returns their number."""
        data = self._socket.recv(most)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        self._frames += self._dialogue.feed(data)
        return len(data)
