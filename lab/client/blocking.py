"""A ZooKeeper client on a blocking socket: sends without waiting, keeps every message in order.

One session on one connection at a time. It sends nothing on its own: no pings, no reconnect. For clients in
threads that look at each message; programs use `lab.client.session`.
"""

import socket
import time
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, Self, TypeVar

from codec import client as zk
from codec.client import NO_SESSION, Connected, Data, Dialogue, Event, Request, Stat, ZooKeeperError
from codec.constants import CreateMode, ErrorCode, EventType, Xid
from codec.jute import Reader
from lab.client.replies import Part, Reply, message_of, parts_of
from lab.servers import wait_until

PERSISTENT, EPHEMERAL = CreateMode.PERSISTENT, CreateMode.EPHEMERAL
SEQUENTIAL, EPHEMERAL_SEQUENTIAL = CreateMode.PERSISTENT_SEQUENTIAL, CreateMode.EPHEMERAL_SEQUENTIAL
OK, SYSTEM_ERROR, RUNTIME_INCONSISTENCY = (
    ErrorCode.OK,
    ErrorCode.SYSTEM_ERROR,
    ErrorCode.RUNTIME_INCONSISTENCY,
)
CONNECTION_LOSS, BAD_ARGUMENTS = ErrorCode.CONNECTION_LOSS, ErrorCode.BAD_ARGUMENTS
NO_NODE, BAD_VERSION = ErrorCode.NO_NODE, ErrorCode.BAD_VERSION
NODE_EXISTS, NOT_EMPTY = ErrorCode.NODE_EXISTS, ErrorCode.NOT_EMPTY
SESSION_EXPIRED, SESSION_MOVED = ErrorCode.SESSION_EXPIRED, ErrorCode.SESSION_MOVED
CREATED, DELETED = EventType.NODE_CREATED, EventType.NODE_DELETED
CHANGED, CHILDREN = EventType.NODE_DATA_CHANGED, EventType.NODE_CHILDREN_CHANGED

LONG_MS = 30_000
_TIMEOUT_S = 60.0

T = TypeVar("T")


class Disconnected(Exception):
    """The connection was closed by the server (`closed`), was silent, or the session is `expired`."""

    def __init__(self, message: str, *, closed: bool = False, expired: bool = False) -> None:
        super().__init__(message)
        self.closed = closed
        self.expired = expired


class _Connection:
    """A socket, and the frames that it receives."""

    def __init__(self, port: int, timeout_s: float, xids: Iterator[int]) -> None:
        self._timeout_s = timeout_s
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames: list[bytes] = []
        self.dialogue = Dialogue(xids)

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes, even to a server that has closed the connection."""
        try:
            self._socket.sendall(data)
        except OSError:
            return

    def greeting(self) -> Connected:
        """The answer to the connect request. Raises Disconnected."""
        while self.dialogue.granted is None:
            self._receive_some(time.monotonic() + self._timeout_s)
        return self.dialogue.granted

    def receive(self) -> bytes:
        """The next frame. Raises Disconnected."""
        deadline = time.monotonic() + self._timeout_s
        while not self._frames:
            self._receive_some(deadline)
        return self._frames.pop(0)

    def _receive_some(self, deadline: float) -> None:
        self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            data = self._socket.recv(1 << 16)
        except TimeoutError:
            raise Disconnected(f"no message in {self._timeout_s:g} s") from None
        except OSError:
            data = b""
        if not data:
            raise Disconnected("the server closed the connection", closed=True)
        self._frames += self.dialogue.feed(data)


class Client:
    """A session, on one connection at a time."""

    def __init__(self, port: int, timeout_ms: int = LONG_MS, timeout_s: float = _TIMEOUT_S) -> None:
        """Open a new session. Raises Disconnected. `timeout_s`: how long to wait for any message."""
        self.wanted_ms = timeout_ms
        self.zxid = 0  # of the last reply
        self.session: Connected | None = None
        self.events: list[Event] = []
        self.log: list[Reply | Event] = []  # all messages, in order
        self._timeout_s = timeout_s
        self._xids = count(1)
        self._sent: dict[int, Request[Any]] = {}
        self._connections: list[_Connection] = []
        self.reconnect(port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    @property
    def id(self) -> int:
        """The session's id."""
        assert self.session is not None
        return self.session.session

    @property
    def timeout_ms(self) -> int:
        """The session's timeout as the server gave it."""
        assert self.session is not None
        return self.session.timeout_ms

    def drop(self) -> None:
        """Close all connections and leave the session open."""
        for connection in self._connections:
            connection.close()

    def reconnect(self, port: int) -> None:
        """Continue the session on another connection; the old one stays open. Raises Disconnected."""
        connection = _Connection(port, self._timeout_s, self._xids)
        self._connections.append(connection)
        known = self.session or NO_SESSION
        connection.send(zk.connect(self.wanted_ms, self.zxid, known.session, known.password))
        try:
            answer = connection.greeting()
        except Disconnected as error:
            connection.close()
            raise Disconnected(f"connect to port {port}: {error}", closed=error.closed) from None
        if answer.session == 0:
            connection.close()
            raise Disconnected(f"connect to port {port}: the session has expired", expired=True)
        self.session = answer

    def close(self) -> None:
        """End the session."""
        self.call(zk.close())

    def ping(self) -> None:
        """Keep the session alive. Raises Disconnected."""
        self._connections[-1].send(zk.PING)
        self.reply_to(Xid.PING)

    def prove(self, scheme: str, credentials: bytes) -> None:
        """Have one more identity."""
        self._connections[-1].send(zk.packet(Xid.AUTH, zk.auth(scheme, credentials)))
        self.reply_to(Xid.AUTH)

    def send(self, *sent: Request[Any]) -> list[int]:
        """Send requests in one piece; returns their xids."""
        connection = self._connections[-1]
        packed = [connection.dialogue.request(request) for request in sent]
        xids = [xid for xid, _ in packed]
        self._sent |= dict(zip(xids, sent, strict=True))
        connection.send(b"".join(packet for _, packet in packed))
        return xids

    def receive(self, connection: int = -1) -> Reply | Event:
        """Return the next message. Raises Disconnected."""
        message = message_of(self._connections[connection].receive())
        self.log.append(message)
        if isinstance(message, Event):
            self.events.append(message)
        else:
            self.zxid = max(self.zxid, message.zxid)
        return message

    def reply_to(self, xid: int) -> Reply:
        """Return the next reply, which must be the one to `xid`. Raises Disconnected."""
        while True:
            message = self.receive()
            if isinstance(message, Reply):
                assert message.xid == xid, "replies arrive in the order of the requests"
                return message

    def call(self, request: Request[T]) -> T:
        """Send a request and return its answer. Raises ZooKeeperError or Disconnected."""
        answer: T = self.result(self.send(request)[0])
        return answer

    def result(self, xid: int) -> Any:
        """Return the answer to the request `xid`, the next reply. Raises ZooKeeperError or Disconnected."""
        reply = self.reply_to(xid)
        return zk.answer_of(self._sent.pop(xid), reply.err, Reader(reply.body))

    def refusal(self, request: Request[Any]) -> int:
        """Send a request and return its error, 0 if it has none. Raises Disconnected."""
        return self.reply_to(self.send(request)[0]).err

    def transact(self, parts: Sequence[Request[Any]]) -> list[Part]:
        """Send a multi and return its parts' results, some perhaps errors. Raises ZooKeeperError."""
        reply = self.reply_to(self.send(zk.multi(parts))[0])
        if reply.err:
            raise ZooKeeperError(reply.err, "MULTI")
        return parts_of(reply.body)

    def create(self, path: str, data: bytes | None = b"", mode: int = PERSISTENT) -> str:
        """Return the path of the new node."""
        return self.call(zk.create(path, data, mode))

    def stat(self, path: str, watch: bool = False) -> Stat | None:
        """Return the Stat of a node, None if there is no such node."""
        return self.call(zk.exists(path, watch))

    def owner(self, path: str) -> int:
        """Return the id of the session that an ephemeral node belongs to, 0 for any other and for none."""
        stat = self.stat(path)
        return stat.ephemeral_owner if stat is not None else 0

    def read(self, path: str, watch: bool = False) -> Data:
        """Return data and Stat."""
        return self.call(zk.get(path, watch))

    def write(self, path: str, data: bytes, version: int = -1) -> Stat:
        """Set data."""
        return self.call(zk.set_data(path, data, version))

    def children(self, path: str, watch: bool = False) -> tuple[set[str], Stat]:
        """Return the names of the children and the Stat of the node."""
        names, stat = self.call(zk.children(path, watch))
        return set(names), stat

    def sync(self) -> None:
        """Wait until this client's server has applied all writes that were acknowledged before."""
        self.call(zk.sync())

    def until_closed(self) -> list[Reply]:
        """Receive until the server closes the connection; returns the replies."""
        replies: list[Reply] = []
        while True:
            try:
                message = self.receive()
            except Disconnected as end:
                if not end.closed:
                    raise
                return replies
            if isinstance(message, Reply):
                replies.append(message)


def events_of(client: Client, count: int) -> list[tuple[int, str]]:
    """Return the first `count` events that a client receives, as (type, path)."""

    def received() -> bool:
        if len(client.events) < count:
            client.ping()
        return len(client.events) >= count

    wait_until(received, f"{count} events; so far {client.events}")
    return [(event.type, event.path) for event in client.events]
