"""The walk: every node of a running ensemble, read as any client reads it.

The protocol does not show which nodes are containers or have a TTL (they look persistent), nor the sessions'
timeouts, nor the state at one moment: the walk reports whether the tree changed meanwhile.
"""

import asyncio
import contextlib
import re
import socket
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from typing import Any

from codec import client as zk
from codec.client import Children, Dialogue, NodeAcl, NullableData, Request, ZooKeeperError
from codec.constants import ErrorCode, Xid
from codec.errors import MalformedPacket
from codec.jute import OPEN_ACL
from pipeline.addresses import Identity
from pipeline.errors import Failure
from pipeline.table import AclRow, ZnodeRow
from schema.paths import ROOT, join
from schema.znode import wrap_int

#: What a walk cannot read.
LOSSES = (
    "container and TTL nodes come as persistent nodes: the wire does not tell them apart",
    "sessions and their timeouts cannot be seen: ephemerals are dropped",
)

_TIMEOUT_MS = 30_000
_WORD_TIMEOUT = 0.5  # seconds for the answer to a four-letter word
_LONGEST_WORD = 1 << 16  # bytes of that
_COUNT = re.compile(rb"^Node count: (\d{1,18})$", re.MULTILINE)
CONNECT_S = 4.0  # of all servers together, each at least a second
_LEAST_CONNECT_S = 1.0
_WINDOW = 300  # requests in flight
_LARGEST_FRAME = (1 << 31) - 1  # independent of the server's jute.maxbuffer
_CHUNK = 1 << 18
_ROWS = 4096  # in one page


class WalkFailed(Failure):
    """The ensemble cannot be read, or not completely; the message says why."""


class Walk:
    """One walk; after `rows` is exhausted the other attributes have its results."""

    def __init__(
        self,
        servers: Sequence[tuple[str, int]],
        identities: Sequence[Identity] = (),
        roots: Sequence[str] = (ROOT,),
        levels: int | None = None,
        page: int = _ROWS,
    ) -> None:
        """`servers` are tried in turn. `page`: rows that are returned together.

        For a part of the tree: the nodes below `roots`, for so many levels.
        """
        self._servers = servers
        self._page = page
        self._identities = identities
        self._roots = roots
        self._levels = levels
        self.first_zxid = 0  # the server's last one when the walk began
        self.last_zxid = 0  # and when it ended
        self.newest = 0  # the largest zxid in any node's Stat
        self.vanished = 0  # nodes that were deleted during the walk

    @property
    def changed(self) -> bool:
        """Whether the tree changed during the walk, so that the tree as read never existed."""
        return self.newest > self.first_zxid or self.vanished > 0

    async def rows(self) -> AsyncGenerator[list[ZnodeRow]]:
        """All nodes, page by page, each parent before its children. Raises WalkFailed."""
        connection = await _connect(self._servers, self._identities)
        try:
            self.first_zxid = await connection.sync()
            page: list[ZnodeRow] = []
            async for row in self._nodes(connection):
                page.append(row)
                if len(page) == self._page:
                    yield page
                    page = []
            yield page
            self.last_zxid = await connection.sync()
        except (OSError, TimeoutError, MalformedPacket, EOFError) as error:
            raise WalkFailed(f"{connection.address} broke off: {_words(error)}") from error
        finally:
            await connection.close()

    async def _nodes(self, connection: "_Connection") -> AsyncIterator[ZnodeRow]:
        # Each with the number of levels below it; the deepest last, so that few wait.
        waiting = [(path, self._levels) for path in reversed(self._roots)]
        asked: deque[tuple[str, int | None]] = deque()
        while waiting or asked:
            while waiting and len(asked) * 3 < _WINDOW:
                path, levels = waiting.pop()
                for request in (zk.get_nullable(path), zk.get_acl(path), zk.children(path)):
                    connection.ask(request)
                asked.append((path, levels))
            path, levels = asked.popleft()
            replies = [await connection.answer() for _ in range(3)]
            errors = {reply.code for reply in replies if isinstance(reply, ZooKeeperError)}
            if ErrorCode.NO_NODE in errors:
                self.vanished += 1
                continue
            if errors:
                name = zk.name_of(errors.pop())
                raise WalkFailed(f"{path} cannot be read: {name}. Give an identity that may, with --auth")
            row, names = _row(path, *replies)
            self.newest = max(self.newest, row.czxid, row.mzxid, row.pzxid)
            if levels != 0:
                waiting += [(join(path, name), levels and levels - 1) for name in names]
            yield row


def _row(path: str, node: NullableData, acls: NodeAcl, children: Children) -> tuple[ZnodeRow, list[str]]:
    # The last of the three: a change between them shows in its zxids.
    names, stat = children
    row = ZnodeRow(
        path,
        node.data,
        None if acls.acl == OPEN_ACL else tuple(AclRow(*entry) for entry in acls.acl),
        stat.czxid,
        stat.mzxid,
        stat.pzxid,
        stat.ctime,
        stat.mtime,
        stat.version,
        # ZooKeeper makes cversion from it: 2 * created - numChildren.
        wrap_int(stat.cversion + stat.num_children) // 2,
        stat.aversion,
        stat.ephemeral_owner,
    )
    return row, names


class _Connection:
    """A session, which answers requests in the order in which they were sent."""

    def __init__(self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.address = address
        self._reader = reader
        self._writer = writer
        self._dialogue = Dialogue(max_frame=_LARGEST_FRAME)
        self._frames: deque[bytes] = deque()
        self._asked: deque[Request[Any]] = deque()

    async def open_session(self, identities: Sequence[Identity]) -> None:
        """Open the session, and prove who we are. Raises WalkFailed."""
        self._writer.write(zk.connect(_TIMEOUT_MS))
        while self._dialogue.granted is None:
            await self._receive()
        if not self._dialogue.granted.session:
            raise WalkFailed(f"{self.address} gives no session")
        for scheme, identity in identities:
            self._writer.write(zk.packet(Xid.AUTH, zk.auth(scheme, identity)))
            if zk.header(await self._frame()).error:
                raise WalkFailed(f"{self.address} does not accept the identity of scheme {scheme}")

    def ask(self, request: Request[Any]) -> None:
        """Send a request."""
        self._asked.append(request)
        self._writer.write(self._dialogue.request(request)[1])

    async def answer(self) -> Any:
        """What the oldest request without an answer is answered; a ZooKeeperError if it is refused."""
        while (header := zk.header(frame := await self._frame())).xid <= 0:
            pass
        try:
            return zk.answer_of(self._asked.popleft(), header.error, zk.body(frame))
        except ZooKeeperError as error:
            return error

    async def sync(self) -> int:
        """The server's zxid once it has applied all that was committed before."""
        self.ask(zk.stamped(zk.sync()))
        _, zxid = await self.answer()
        return int(zxid)

    async def close(self) -> None:
        """End the session, if the server still listens."""
        with contextlib.suppress(OSError):
            self.ask(zk.close())
            await self._writer.drain()
            self._writer.close()
            await self._writer.wait_closed()

    async def _frame(self) -> bytes:
        while not self._frames:
            await self._receive()
        return self._frames.popleft()

    async def _receive(self) -> None:
        await self._writer.drain()
        async with asyncio.timeout(_TIMEOUT_MS / 1000):
            chunk = await self._reader.read(_CHUNK)
        if not chunk:
            raise EOFError("the server closed the connection")
        self._frames += self._dialogue.feed(chunk)


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):  # has no message
        return "no answer in time (is this ZooKeeper's client port, and without TLS?)"
    return str(error) or type(error).__name__


async def _connect(servers: Sequence[tuple[str, int]], identities: Sequence[Identity]) -> _Connection:
    reasons = []
    for host, port in servers:
        address = f"{host}:{port}"
        connection = None
        try:
            async with asyncio.timeout(max(_LEAST_CONNECT_S, CONNECT_S / len(servers))):
                connection = _Connection(address, *await asyncio.open_connection(host, port))
                await connection.open_session(identities)
                return connection
        except (OSError, TimeoutError, EOFError, MalformedPacket) as error:
            reasons.append(f"{address}: {_words(error)}")
        except WalkFailed:
            assert connection is not None
            await connection.close()
            raise
        if connection is not None:
            await connection.close()
    raise WalkFailed("no server answers: " + "; ".join(reasons))


def node_count(servers: Iterable[tuple[str, int]]) -> int | None:
    """How many znodes a running server has, for an estimate: what the first one's `srvr` reports.

    None if none does. Blocks for a second a server.
    """
    for server in servers:
        with contextlib.suppress(OSError), socket.create_connection(server, _WORD_TIMEOUT) as connection:
            connection.sendall(b"srvr")
            answer = b""
            while len(answer) < _LONGEST_WORD and (chunk := connection.recv(4096)):
                answer += chunk
            if found := _COUNT.search(answer):
                return int(found[1])
    return None
