"""A small synchronous ZooKeeper client on a plain socket that hides nothing.

It records every frame in arrival order, sends several requests at once or arbitrary bytes, and never
reconnects unasked. Layouts follow ZooKeeper 3.9's zookeeper.jute. What requests mean lives in `script`.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

Acls = Sequence[tuple[int, str | None, str | None]]

CREATE, DELETE, EXISTS, GET_DATA, SET_DATA, GET_ACL, SET_ACL, GET_CHILDREN, SYNC = range(1, 10)
PING, GET_CHILDREN2, CHECK, MULTI, CREATE2 = 11, 12, 13, 14, 15
RECONFIG, CHECK_WATCHES, REMOVE_WATCHES = 16, 17, 18
CREATE_CONTAINER, DELETE_CONTAINER, CREATE_TTL, MULTI_READ = 19, 20, 21, 22
AUTH, SET_WATCHES, SASL, GET_EPHEMERALS, GET_ALL_CHILDREN_NUMBER = range(100, 105)
SET_WATCHES2, ADD_WATCH, WHO_AM_I = 105, 106, 107
CLOSE_SESSION = -11
# ClickHouse Keeper's.
FILTERED_LIST, CHECK_NOT_EXISTS, CREATE_IF_NOT_EXISTS, REMOVE_RECURSIVE = 500, 501, 502, 503
CHECK_STAT, TRY_REMOVE, LIST_WITH_STAT_AND_DATA, LIST_RECURSIVE = 504, 505, 506, 507
ERROR = -1

EVENT_XID, PING_XID, AUTH_XID, SET_WATCHES_XID = -1, -2, -4, -8

HEADER = struct.Struct(">iqi")
STAT = struct.Struct(">qqqqiiiqiiq")
_INT = struct.Struct(">i")


class Stat(NamedTuple):
    """ZooKeeper's Stat; ctime and mtime are milliseconds since the epoch."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class Reply(NamedTuple):
    """One reply: its header and the raw body."""

    xid: int
    zxid: int
    err: int
    body: bytes


class Event(NamedTuple):
    """One watch notification."""

    zxid: int
    type: int
    state: int
    path: str


class Closed(NamedTuple):
    """The server closed the connection."""


class Silent(NamedTuple):
    """The server did not answer before the deadline."""


Message = Reply | Event | Closed | Silent


class Session(NamedTuple):
    """The answer to a connect request; `trailer` is what follows the password (the readOnly byte)."""

    protocol: int
    timeout_ms: int
    id: int
    password: bytes
    trailer: bytes


def pack_int(value: int) -> bytes:
    """Return a jute int."""
    return _INT.pack(value)


def pack_long(value: int) -> bytes:
    """Return a jute long."""
    return struct.pack(">q", value)


def pack_buffer(value: bytes | None) -> bytes:
    """Return a jute buffer; None is ZooKeeper's null."""
    return _INT.pack(-1) if value is None else _INT.pack(len(value)) + value


def pack_string(value: str | None) -> bytes:
    """Return a jute string; None is ZooKeeper's null."""
    return pack_buffer(None if value is None else value.encode("utf-8", "surrogatepass"))


def pack_strings(values: Iterable[str | None]) -> bytes:
    """Return a jute vector of strings."""
    items = list(values)
    return _INT.pack(len(items)) + b"".join(map(pack_string, items))


def pack_acls(acls: Acls | None) -> bytes:
    """Return a jute vector of ACLs; None is ZooKeeper's null."""
    if acls is None:
        return _INT.pack(-1)
    entries = (_INT.pack(perms) + pack_string(scheme) + pack_string(name) for perms, scheme, name in acls)
    return _INT.pack(len(acls)) + b"".join(entries)


def frame(payload: bytes) -> bytes:
    """Return `payload` with its length before it."""
    return _INT.pack(len(payload)) + payload


#: What a Cursor raises where the bytes end early, or a length is impossible.
UNREADABLE = struct.error, IndexError


class Cursor:
    """Reads jute fields from a body. Raises one of UNREADABLE."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.position = 0

    def integer(self) -> int:
        """Return the next int."""
        (value,) = _INT.unpack_from(self.body, self.position)
        self.position += 4
        return int(value)

    def long(self) -> int:
        """Return the next long."""
        (value,) = struct.unpack_from(">q", self.body, self.position)
        self.position += 8
        return int(value)

    def byte(self) -> int:
        """Return the next byte, unsigned."""
        value = self.body[self.position]
        self.position += 1
        return value

    def boolean(self) -> bool:
        """Return the next boolean."""
        return self.byte() != 0

    def buffer(self) -> bytes | None:
        """Return the next buffer."""
        length = self.integer()
        if length == -1:
            return None
        value = self.body[self.position : self.position + length]
        if length < 0 or len(value) != length:
            raise IndexError(f"buffer of {length} bytes in the {len(value)} that are left")
        self.position += length
        return value

    def string(self) -> str | None:
        """Return the next string."""
        value = self.buffer()
        return None if value is None else value.decode("utf-8", "surrogateescape")

    def strings(self) -> list[str | None]:
        """Return the next vector of strings."""
        return [self.string() for _ in range(self.integer())]

    def acls(self) -> list[tuple[int, str | None, str | None]]:
        """Return the next vector of ACLs."""
        return [(self.integer(), self.string(), self.string()) for _ in range(self.integer())]

    def stat(self) -> Stat:
        """Return the next Stat."""
        fields = STAT.unpack_from(self.body, self.position)
        self.position += STAT.size
        return Stat(*fields)

    def finish(self) -> None:
        """Raise IndexError unless the whole body was read."""
        if self.position != len(self.body):
            raise IndexError(f"{len(self.body) - self.position} bytes left over")


def pack_connect(
    *, session: int = 0, password: bytes | None = b"\0" * 16, timeout_ms: int = 10000, last_zxid: int = 0
) -> bytes:
    """Return the payload of a connect request of a current client."""
    head = struct.pack(">iqiq", 0, last_zxid, timeout_ms, session)
    return head + pack_buffer(password) + b"\0"


class Connection:
    """One TCP connection to a ZooKeeper server; every wait ends after `timeout` seconds."""

    def __init__(
        self, port: int, timeout: float = 60.0, tls: ssl.SSLContext | None = None, *, host: str = "127.0.0.1"
    ) -> None:
        self.timeout = timeout
        self._socket = socket.create_connection((host, port), timeout=timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname="127.0.0.1")
        self._pending = bytearray()
        self._ended = False

    def close(self) -> None:
        """Close the socket without a closeSession."""
        self._socket.close()

    def shut_writing(self) -> None:
        """Send the end of the stream and keep reading."""
        self._socket.shutdown(socket.SHUT_WR)

    def send(self, data: bytes) -> None:
        """Send raw bytes; a connection that the server already closed swallows them."""
        try:
            self._socket.sendall(data)
        except OSError:
            return

    def receive_frame(self, deadline: float | None = None) -> bytes | Closed | Silent:
        """Return the next frame's payload, or why there is none by `deadline` (time.monotonic())."""
        if deadline is None:
            deadline = time.monotonic() + self.timeout
        while True:
            if len(self._pending) >= 4:
                (length,) = _INT.unpack_from(self._pending)
                if len(self._pending) >= 4 + length:
                    payload = bytes(self._pending[4 : 4 + length])
                    del self._pending[: 4 + length]
                    return payload
            problem = self._fill(deadline)
            if problem is not None:
                return problem

    def receive_rest(self) -> bytes:
        """Return everything that comes until the server closes, or the timeout passes."""
        deadline = time.monotonic() + self.timeout
        while self._fill(deadline) is None:
            pass
        rest = bytes(self._pending)
        self._pending.clear()
        return rest

    def receive(self, deadline: float | None = None) -> Message:
        """Return the next message."""
        payload = self.receive_frame(deadline)
        if not isinstance(payload, bytes):
            return payload
        if len(payload) < HEADER.size:
            return Reply(0, 0, 0, payload)
        xid, zxid, err = HEADER.unpack_from(payload)
        reply = Reply(xid, zxid, err, payload[HEADER.size :])
        return (_event(reply) or reply) if reply.xid == EVENT_XID else reply

    def connect(
        self,
        *,
        session: int = 0,
        password: bytes | None = b"\0" * 16,
        timeout_ms: int = 10000,
        last_zxid: int = 0,
    ) -> Session | Closed | Silent:
        """Do the handshake and return the server's answer."""
        request = pack_connect(session=session, password=password, timeout_ms=timeout_ms, last_zxid=last_zxid)
        self.send(frame(request))
        return self.receive_session()

    def receive_session(self) -> Session | Closed | Silent:
        """Return the server's answer to a connect request already sent."""
        payload = self.receive_frame()
        if not isinstance(payload, bytes):
            return payload
        protocol, timeout_ms, session = struct.unpack_from(">iiq", payload)
        cursor = Cursor(payload)
        cursor.position = 16
        password = cursor.buffer() or b""
        return Session(protocol, timeout_ms, session, password, payload[cursor.position :])

    def _fill(self, deadline: float) -> Closed | Silent | None:
        if self._ended:
            return Closed()
        left = deadline - time.monotonic()
        if left <= 0:
            return Silent()
        self._socket.settimeout(left)
        try:
            data = self._socket.recv(1 << 16)
        except TimeoutError:
            return Silent()
        except OSError:
            data = b""
        if not data:
            self._ended = True
            return Closed()
        self._pending += data
        return None


def _event(reply: Reply) -> Event | None:
    """Return the event in a notification; None if it is a reply to a request that was numbered like one."""
    cursor = Cursor(reply.body)
    try:
        kind, state, path = cursor.integer(), cursor.integer(), cursor.string()
        cursor.finish()
    except UNREADABLE:
        return None
    return Event(reply.zxid, kind, state, str(path))
