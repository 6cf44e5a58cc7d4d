"""A session whose requests are asked one after the other, or several at once; a tree as it sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

from lab.oracle import wire
from lab.oracle.requests import CloseSession, Create, GetAcl, GetChildren, GetData, Request, encode
from lab.oracle.wire import Closed, Connection, Cursor, Event, Reply, Session, Silent, Stat

_WINDOW = 100  # nodes asked for at once
TIMEOUT_MS = 60_000  # it sends no pings, and waits for others


class Client:
    """One session of one server."""

    def __init__(self, port: int, session: int = 0, password: bytes = bytes(16), last_zxid: int = 0) -> None:
        """Open a session, or continue one."""
        self.connection = Connection(port)
        answer = self.connection.connect(
            session=session, password=password, timeout_ms=TIMEOUT_MS, last_zxid=last_zxid
        )
        assert isinstance(answer, Session), answer
        assert answer.id, "the server knows no such session"
        self.session = answer
        self.last_zxid = 0
        self._xid = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def send(self, *requests: Request) -> None:
        """Send requests in one go."""
        packets = b""
        for request in requests:
            self._xid += 1
            packets += wire.frame(encode(request, self._xid))
        self.connection.send(packets)

    def receive(self) -> Reply | Closed | Silent:
        """Return the next reply, or why there is none. Events are passed over."""
        while isinstance(message := self.connection.receive(), Event):
            pass
        return message

    def ask(self, request: Request) -> Reply | Closed | Silent:
        """Send a request and return what it is answered."""
        self.send(request)
        return self.receive()

    def ask_for_reply(self, request: Request) -> Reply:
        """As `ask`, of a server that must reply."""
        reply = self.ask(request)
        assert isinstance(reply, Reply), (request, reply)
        return reply

    def do(self, *requests: Request) -> list[Reply]:
        """Send requests at once; raises AssertionError unless all succeed."""
        self.send(*requests)
        replies = []
        for request in requests:
            reply = self.receive()
            assert isinstance(reply, Reply), (request, reply)
            assert reply.err == 0, (request, reply)
            self.last_zxid = max(self.last_zxid, reply.zxid)
            replies.append(reply)
        return replies

    def create(self, path: str, data: bytes | None = b"", flags: int = 0) -> str:
        """Create a node; returns its path."""
        (reply,) = self.do(Create(path, data, flags))
        return str(Cursor(reply.body).string())

    def leave(self) -> None:
        """Close the connection; the session lives on."""
        self.connection.close()

    def close(self) -> None:
        """End the session."""
        self.ask(CloseSession())
        self.leave()


class Node(NamedTuple):
    """A node as a client sees it."""

    data: bytes | None
    acl: tuple[tuple[int, str | None, str | None], ...]
    stat: Stat
    children: tuple[str, ...]


def tree(port: int, path: str = "/", *before: Request) -> dict[str, Node]:
    """Return all nodes from `path` down, read after these requests, which prove an identity."""
    found: dict[str, Node] = {}
    waiting = [path]
    with Client(port) as client:
        client.do(*before)
        while waiting:
            paths, waiting = waiting[:_WINDOW], waiting[_WINDOW:]
            requests: list[Request] = []
            for path in paths:
                requests += [GetData(path), GetAcl(path), GetChildren(path, with_stat=True)]
            replies = client.do(*requests)
            for index, path in enumerate(paths):
                found[path] = node = _node(replies[3 * index : 3 * index + 3])
                waiting += [f"{path.rstrip('/')}/{name}" for name in node.children]
        client.close()
    return found


def _node(replies: Sequence[Reply]) -> Node:
    data, acl, children = (Cursor(reply.body) for reply in replies)
    content, stat, entries = data.buffer(), data.stat(), tuple(acl.acls())
    names = tuple(sorted(map(str, children.strings())))
    assert stat == acl.stat() == children.stat()
    return Node(content, entries, stat, names)
