"""A client in a few lines, for tests with a hundred of them: one socket, no threads, one request at a time.

Here: the calls that recipes need, on the wire of tests.compat. Not here: reconnecting by itself, pings.
"""

from typing import Self

from tests.compat import wire
from tests.compat.wire import Closed, Connection, Cursor, Reply, Session, Silent, Stat

PERSISTENT, EPHEMERAL, SEQUENTIAL, EPHEMERAL_SEQUENTIAL = range(4)
NO_NODE, BAD_VERSION, SESSION_EXPIRED, SESSION_MOVED = -101, -103, -112, -118

_OPEN_ACL = wire.pack_acls([(31, "world", "anyone")])
# Servers under test share two cores with a hundred clients.
_PATIENCE_S = 60.0


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error {code}")
        self.code = code


class Disconnected(Exception):
    """The server closed the connection, or refused the session."""


class Client:
    """A session, on one connection at a time."""

    def __init__(self, port: int, timeout_ms: int) -> None:
        """Open a new session. Raises Disconnected."""
        self._timeout_ms = timeout_ms
        self._xid = 0
        self._zxid = 0
        self.session: Session | None = None
        self._connections: list[Connection] = []
        self.reconnect(port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections:
            connection.close()

    def reconnect(self, port: int) -> None:
        """Go on with the session on another connection, leaving the old one open. Raises Disconnected."""
        connection = Connection(port, _PATIENCE_S)
        self._connections.append(connection)
        known = self.session
        answer = connection.connect(
            session=known.id if known else 0,
            password=known.password if known else bytes(16),
            timeout_ms=self._timeout_ms,
            last_zxid=self._zxid,
        )
        if not isinstance(answer, Session) or answer.id == 0:
            connection.close()
            raise Disconnected(f"connect to port {port}: {answer}")
        self.session = answer

    def close(self) -> None:
        """End the session."""
        self.call(wire.CLOSE_SESSION)

    def ping(self) -> None:
        """Keep the session alive."""
        self._exchange(wire.PING_XID, wire.PING, b"")

    def create(self, path: str, data: bytes = b"", mode: int = PERSISTENT) -> str:
        """Return the path of the new node."""
        arguments = wire.pack_string(path) + wire.pack_buffer(data) + _OPEN_ACL + wire.pack_int(mode)
        return str(self.call(wire.CREATE, arguments).string())

    def exists(self, path: str) -> bool:
        """Tell whether there is such a node."""
        try:
            self.call(wire.EXISTS, wire.pack_string(path) + b"\0")
        except Refused as refused:
            if refused.code == NO_NODE:
                return False
            raise
        return True

    def read(self, path: str) -> tuple[bytes, Stat]:
        """Return data and Stat."""
        reply = self.call(wire.GET_DATA, wire.pack_string(path) + b"\0")
        return reply.buffer() or b"", reply.stat()

    def write(self, path: str, data: bytes, version: int) -> Stat:
        """Set data if the node has this version."""
        arguments = wire.pack_string(path) + wire.pack_buffer(data) + wire.pack_int(version)
        return self.call(wire.SET_DATA, arguments).stat()

    def children(self, path: str) -> tuple[set[str], Stat]:
        """Return the names of the children and the Stat of the node."""
        reply = self.call(wire.GET_CHILDREN2, wire.pack_string(path) + b"\0")
        return {str(name) for name in reply.strings()}, reply.stat()

    def sync(self) -> None:
        """Make this client's server catch up with all that was written before."""
        self.call(wire.SYNC, wire.pack_string("/"))

    def call(self, opcode: int, arguments: bytes = b"") -> Cursor:
        """Send a request and return the body of its reply. Raises Refused or Disconnected."""
        self._xid += 1
        return Cursor(self._exchange(self._xid, opcode, arguments).body)

    def _exchange(self, xid: int, opcode: int, arguments: bytes) -> Reply:
        request = wire.pack_int(xid) + wire.pack_int(opcode) + arguments
        connection = self._connections[-1]
        connection.send(wire.frame(request))
        message = connection.receive()
        if isinstance(message, Closed | Silent):
            raise Disconnected(f"{message} after opcode {opcode}")
        assert isinstance(message, Reply), "nobody here sets a watch"
        assert message.xid == xid, "replies come in the order of the requests"
        self._zxid = max(self._zxid, message.zxid)
        if message.err:
            raise Refused(message.err)
        return message
