"""A ZooKeeper client for tests of faults: sends without waiting, keeps every message in order.

Here: one session on one connection at a time, on the wire of tests.compat. Nothing happens by itself: no
pings, no reconnect.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

from lab.oracle import wire
from lab.oracle.wire import Closed, Connection, Cursor, Event, Reply, Session, Silent, Stat
from lab.servers import wait_until

PERSISTENT, EPHEMERAL, SEQUENTIAL, EPHEMERAL_SEQUENTIAL = range(4)
OK, SYSTEM_ERROR, RUNTIME_INCONSISTENCY, CONNECTION_LOSS, BAD_ARGUMENTS = 0, -1, -2, -4, -8
NO_NODE, BAD_VERSION, NODE_EXISTS, NOT_EMPTY = -101, -103, -110, -111
SESSION_EXPIRED, SESSION_MOVED = -112, -118
CREATED, DELETED, CHANGED, CHILDREN = 1, 2, 3, 4

LONG_MS = 30_000
_PATIENCE_S = 60.0
_OPEN_ACL = wire.pack_acls([(31, "world", "anyone")])


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error {code}")
        self.code = code


class Disconnected(Exception):
    """The server closed the connection (`closed`), refused the session, or said nothing."""

    def __init__(self, message: str, *, closed: bool = False) -> None:
        super().__init__(message)
        self.closed = closed


class Request(NamedTuple):
    """An opcode and its arguments, packed."""

    opcode: int
    arguments: bytes


class Part(NamedTuple):
    """One part of a multi: opcode (-1: an error), error, and path and Stat where it has them."""

    opcode: int
    error: int
    path: str | None
    stat: Stat | None


def create(path: str, data: bytes | None = b"", mode: int = PERSISTENT) -> Request:
    """Make a request for a new node."""
    arguments = wire.pack_string(path) + wire.pack_buffer(data) + _OPEN_ACL + wire.pack_int(mode)
    return Request(wire.CREATE, arguments)


def delete(path: str, version: int = -1) -> Request:
    """Make a request to delete a node."""
    return Request(wire.DELETE, wire.pack_string(path) + wire.pack_int(version))


def set_data(path: str, data: bytes, version: int = -1) -> Request:
    """Make a request for new data."""
    return Request(wire.SET_DATA, wire.pack_string(path) + wire.pack_buffer(data) + wire.pack_int(version))


def check(path: str, version: int = -1) -> Request:
    """Make a part of a multi that checks a version."""
    return Request(wire.CHECK, wire.pack_string(path) + wire.pack_int(version))


def exists(path: str, watch: bool = False) -> Request:
    """Make a request for a Stat."""
    return Request(wire.EXISTS, wire.pack_string(path) + bytes([watch]))


def get_data(path: str, watch: bool = False) -> Request:
    """Make a request for data and Stat."""
    return Request(wire.GET_DATA, wire.pack_string(path) + bytes([watch]))


def get_children(path: str, watch: bool = False) -> Request:
    """Make a request for children and Stat."""
    return Request(wire.GET_CHILDREN2, wire.pack_string(path) + bytes([watch]))


def add_watch(path: str, *, recursive: bool) -> Request:
    """Make a request for a watch that lasts."""
    return Request(wire.ADD_WATCH, wire.pack_string(path) + wire.pack_int(recursive))


def multi(parts: Sequence[Request]) -> Request:
    """Make one request of several."""
    packed = (wire.pack_int(opcode) + b"\0" + wire.pack_int(-1) + arguments for opcode, arguments in parts)
    return Request(wire.MULTI, b"".join(packed) + wire.pack_int(-1) + b"\1" + wire.pack_int(-1))


SYNC = Request(wire.SYNC, wire.pack_string("/"))
CLOSE = Request(wire.CLOSE_SESSION, b"")


class Client:
    """A session, on one connection at a time."""

    def __init__(self, port: int, timeout_ms: int = LONG_MS, patience_s: float = _PATIENCE_S) -> None:
        """Open a new session. Raises Disconnected. `patience_s`: how long to wait for any answer."""
        self.wanted_ms = timeout_ms
        self._patience_s = patience_s
        self._xid = 0
        self.zxid = 0  # of the last reply
        self.session: Session | None = None
        self.events: list[Event] = []
        self.log: list[Reply | Event] = []  # everything that came, in order
        self._connections: list[Connection] = []
        self.reconnect(port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    @property
    def id(self) -> int:
        """The session's id."""
        assert self.session is not None
        return self.session.id

    @property
    def timeout_ms(self) -> int:
        """The session's timeout as the server gave it."""
        assert self.session is not None
        return self.session.timeout_ms

    def drop(self) -> None:
        """Close all connections without a word; the session stays."""
        for connection in self._connections:
            connection.close()

    def reconnect(self, port: int) -> None:
        """Go on with the session on another connection, the old one staying open. Raises Disconnected."""
        connection = Connection(port, self._patience_s)
        self._connections.append(connection)
        known = self.session
        answer = connection.connect(
            session=known.id if known else 0,
            password=known.password if known else bytes(16),
            timeout_ms=self.wanted_ms,
            last_zxid=self.zxid,
        )
        if not isinstance(answer, Session) or answer.id == 0:
            connection.close()
            raise Disconnected(f"connect to port {port}: {answer}")
        self.session = answer

    def close(self) -> None:
        """End the session."""
        self.call(CLOSE)

    def ping(self) -> None:
        """Keep the session alive. Raises Disconnected."""
        self._transmit(wire.frame(wire.pack_int(wire.PING_XID) + wire.pack_int(wire.PING)))
        self.reply_to(wire.PING_XID)

    def send(self, *requests: Request) -> list[int]:
        """Send requests in one piece; returns their xids."""
        xids, packed = [], []
        for opcode, arguments in requests:
            self._xid += 1
            xids.append(self._xid)
            packed.append(wire.frame(wire.pack_int(self._xid) + wire.pack_int(opcode) + arguments))
        self._transmit(b"".join(packed))
        return xids

    def receive(self, connection: int = -1) -> Reply | Event:
        """Return the next message. Raises Disconnected."""
        message = self._connections[connection].receive()
        if isinstance(message, Closed | Silent):
            raise Disconnected(f"{message}", closed=isinstance(message, Closed))
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
                assert message.xid == xid, "replies come in the order of the requests"
                return message

    def call(self, request: Request) -> Cursor:
        """Send a request and return the body of its reply. Raises Refused or Disconnected."""
        return self.result(self.send(request)[0])

    def result(self, xid: int) -> Cursor:
        """Return the body of the reply to `xid`, the next one. Raises Refused or Disconnected."""
        reply = self.reply_to(xid)
        if reply.err:
            raise Refused(reply.err)
        return Cursor(reply.body)

    def refusal(self, request: Request) -> int:
        """Send a request and return its error, 0 if it has none. Raises Disconnected."""
        return self.reply_to(self.send(request)[0]).err

    def transact(self, parts: Sequence[Request]) -> list[Part]:
        """Send a multi and return its parts' results; a part that failed is an error part. Raises Refused."""
        return results_of(self.call(multi(parts)))

    def create(self, path: str, data: bytes | None = b"", mode: int = PERSISTENT) -> str:
        """Return the path of the new node."""
        return str(self.call(create(path, data, mode)).string())

    def stat(self, path: str, watch: bool = False) -> Stat | None:
        """Return the Stat of a node, None if there is no such node."""
        try:
            return self.call(exists(path, watch)).stat()
        except Refused as refused:
            if refused.code == NO_NODE:
                return None
            raise

    def read(self, path: str, watch: bool = False) -> tuple[bytes, Stat]:
        """Return data and Stat."""
        cursor = self.call(get_data(path, watch))
        return cursor.buffer() or b"", cursor.stat()

    def write(self, path: str, data: bytes, version: int = -1) -> Stat:
        """Set data."""
        return self.call(set_data(path, data, version)).stat()

    def children(self, path: str, watch: bool = False) -> tuple[set[str], Stat]:
        """Return the names of the children and the Stat of the node."""
        cursor = self.call(get_children(path, watch))
        return {str(name) for name in cursor.strings()}, cursor.stat()

    def sync(self) -> None:
        """Make this client's server catch up with all that was written before."""
        self.call(SYNC)

    def until_closed(self, connection: int = -1) -> list[Reply]:
        """Read on until the server closes the connection; returns the replies."""
        replies: list[Reply] = []
        while True:
            try:
                message = self.receive(connection)
            except Disconnected as end:
                if not end.closed:
                    raise
                return replies
            if isinstance(message, Reply):
                replies.append(message)

    def _transmit(self, data: bytes) -> None:
        self._connections[-1].send(data)


def results_of(cursor: Cursor) -> list[Part]:
    """Take a multi's reply apart."""
    parts: list[Part] = []
    while True:
        opcode, done, error = cursor.integer(), cursor.boolean(), cursor.integer()
        if done:
            cursor.finish()
            return parts
        path = cursor.string() if opcode in (wire.CREATE, wire.CREATE2) else None
        stat = cursor.stat() if opcode in (wire.SET_DATA, wire.CREATE2) else None
        if opcode == wire.ERROR:
            assert cursor.integer() == error
        parts.append(Part(opcode, error, path, stat))


def events_of(client: Client, count: int) -> list[tuple[int, str]]:
    """Return the first `count` events that come to a client, as (type, path)."""

    def there() -> bool:
        if len(client.events) < count:
            client.ping()
        return len(client.events) >= count

    wait_until(there, f"{count} events; so far {client.events}")
    return [(event.type, event.path) for event in client.events]
