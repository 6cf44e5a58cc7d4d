"""A ZooKeeper with one of everything in it, and how a server looks to a client that sees all."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lab.oracle import wire
from lab.oracle.wire import Connection, Cursor, Reply, Session, Stat
from lab.servers import ZketcdServer, ZooKeeperServer
from tests.compat import script
from tests.compat.acl_cases import SUPER, SUPER_DIGEST
from tests.compat.conftest import MAX_SESSION_TIMEOUT_MS, NEVER_MS, TICK_TIME_MS, real_zookeeper

TIMEOUT_MS = 60_000  # no client sends pings while commands and servers start
_WINDOW = 100  # nodes asked for at once
#: Sequential creates by which counters are compared.
COUNTED = ("/seq/n-", "/seq-/x", "/container/n-", "/locks/lock-", "/gone/q", "/wide/s", "/s")
_READ_ONLY = ((1, "world", "anyone"),)


class Node(NamedTuple):
    """A node as a client sees it."""

    data: bytes | None
    acl: tuple[tuple[int, str | None, str | None], ...]
    stat: Stat
    children: tuple[str, ...]


class Origin(NamedTuple):
    """A ZooKeeper that was stopped while a client had ephemerals."""

    files: Path
    before: dict[str, Node]  # the client's session alive
    after: dict[str, Node]  # once ZooKeeper had closed it
    session: Session
    ephemerals: list[str]
    next_names: dict[str, str]  # what the next sequential creates were called
    last_zxid: int


class Client:
    """A session that insists on success."""

    def __init__(self, port: int, session: int = 0, password: bytes = bytes(16), last_zxid: int = 0) -> None:
        """Opens a session, or resumes one."""
        self._connection = Connection(port)
        answer = self._connection.connect(
            session=session, password=password, timeout_ms=TIMEOUT_MS, last_zxid=last_zxid
        )
        assert isinstance(answer, Session), answer
        assert answer.id, "the server knows no such session"
        self.session = answer
        self.last_zxid = 0
        self._xid = 0

    def do(self, *requests: script.Request) -> list[Reply]:
        """Send requests at once; raises AssertionError unless all succeed."""
        for request in requests:
            self._xid += 1
            self._connection.send(wire.frame(script.encode(request, self._xid, "", {})))
        replies = []
        for request in requests:
            reply = self._connection.receive()
            assert isinstance(reply, Reply), (request, reply)
            assert reply.err == 0, (request, reply)
            self.last_zxid = max(self.last_zxid, reply.zxid)
            replies.append(reply)
        return replies

    def create(self, path: str, data: bytes | None = b"", flags: int = 0) -> str:
        """Create a node; returns its path."""
        (reply,) = self.do(script.Create(path, data, flags))
        return str(Cursor(reply.body).string())

    def leave(self) -> None:
        """Close the connection; the session lives on."""
        self._connection.close()

    def close(self) -> None:
        """End the session."""
        self._connection.send(wire.frame(wire.pack_int(self._xid + 1) + wire.pack_int(wire.CLOSE_SESSION)))
        self._connection.receive()
        self._connection.close()


def zookeeper(version: str = "") -> ZooKeeperServer:
    """A ZooKeeper with TTL nodes, containers that stay, and a super user; `version`: an older one."""
    return real_zookeeper({"zookeeper.admin.rateLimiterIntervalInMS": "0"}, version)


def zketcd(etcd_endpoint: str, prefix: str, port: int | None = None) -> ZketcdServer:
    """A zketcd with the same settings."""
    return ZketcdServer(
        etcd_endpoint,
        port=port,
        prefix=prefix,
        tick_time=TICK_TIME_MS,
        max_session_timeout=MAX_SESSION_TIMEOUT_MS,
        max_client_connections=0,
        super_digest=SUPER_DIGEST,
        container_check_interval=NEVER_MS,
    )


def view(port: int, *, below: str = "/") -> dict[str, Node]:
    """Every node that there is, read over the wire by the super user."""
    client = Client(port)
    client.do(SUPER)
    found: dict[str, Node] = {}
    waiting = [below]
    while waiting:
        paths, waiting = waiting[:_WINDOW], waiting[_WINDOW:]
        requests = [
            request
            for path in paths
            for request in (
                script.GetData(path),
                script.GetAcl(path),
                script.GetChildren(path, with_stat=True),
            )
        ]
        replies = client.do(*requests)
        for index, path in enumerate(paths):
            found[path] = node = _node(replies[3 * index : 3 * index + 3])
            waiting += [f"{path.rstrip('/')}/{name}" for name in node.children]
    client.close()
    return found


def _node(replies: Sequence[Reply]) -> Node:
    data, acl, children = (Cursor(reply.body) for reply in replies)
    content = data.buffer()
    stat = data.stat()
    entries = tuple(acl.acls())
    names = tuple(sorted(map(str, children.strings())))
    assert stat == acl.stat() == children.stat()
    return Node(content, entries, stat, names)


def populate(client: Client) -> None:
    """One of everything that persists, and counters that have moved on."""
    client.do(
        script.Create("/null", None),
        script.Create("/empty", b""),
        script.Create("/data", b"\0\xff" * 400),
        script.SetData("/data", b"changed", -1),
        script.SetData("/data", b"again", 1),
        script.Create("/large", bytes(range(256)) * 3000),
        script.Create("/äöü ☃", b"unicode"),
        script.Create("/acl", b"x", acls=_READ_ONLY),
        script.Create("/acl2", b"x"),
        script.SetAcl("/acl2", ((31, "digest", "u:hash"), (17, "ip", "127.0.0.1")), 0),
        script.SetAcl("/acl2", ((31, "world", "anyone"),), 1),
        script.CreateContainer("/container", b"c"),
        script.CreateTtl("/ttl", b"t", 3_600_000),
        script.Create("/seq"),
        script.Create("/seq-"),
        script.Create("/seq.x"),
    )
    for path in ("/seq", "/seq-", "/seq.x", "/container"):
        for _ in range(5):
            client.create(f"{path}/n-", b"s", script.SEQUENTIAL)
    client.do(
        script.Delete("/seq/n-0000000001", -1),
        script.Delete("/seq/n-0000000004", -1),
        script.Create("/gone"),
        script.Create("/gone/child"),
        script.Delete("/gone/child", -1),
        script.Multi(
            (
                script.Create("/multi"),
                script.Create("/multi/a", b"1"),
                script.SetData("/multi/a", b"2", 0),
                script.Create("/multi/b"),
                script.Delete("/multi/b", -1),
            )
        ),
    )
    client.do(script.Create("/wide"))
    client.do(*(script.Create(f"/wide/{number:04}", b"%d" % number) for number in range(400)))
    client.do(*(script.Create(f"/wide/{number:04}/leaf") for number in range(0, 400, 7)))


def ephemerals(client: Client) -> list[str]:
    """Make ephemerals of the client's session, among others that stay; returns their paths."""
    client.do(script.Create("/eph"), script.Create("/eph/stays"), script.Create("/locks"))
    return [
        client.create("/eph/alive", b"me", script.EPHEMERAL),
        client.create("/locks/lock-", b"", script.EPHEMERAL_SEQUENTIAL),
        client.create("/locks/lock-", b"", script.EPHEMERAL_SEQUENTIAL),
    ]


def make_origin(folder: Path) -> Origin:
    """Populate a ZooKeeper, stop it amid a session, and note what it shows before and after that one ends."""
    with zookeeper() as server:
        client = Client(server.port)
        populate(client)
        client.leave()
        server.restart()  # it makes a snapshot: what follows is in the log only
        client = Client(server.port, client.session.id, client.session.password)
        paths = ephemerals(client)
        before = view(server.port)
        zxid = client.last_zxid
        client.leave()
        server.kill()
        shutil.copytree(server.data_dir, folder / "data")
        server.start()
        client = Client(server.port, client.session.id, client.session.password)
        session = client.session
        client.close()
        after = view(server.port)
        client = Client(server.port)
        names = {path: client.create(path, b"", script.SEQUENTIAL) for path in COUNTED}
        client.close()
    return Origin(folder / "data", before, after, session, paths, names, zxid)


def max_zxid(nodes: dict[str, Node]) -> int:
    """The largest zxid in any Stat."""
    return max(max(node.stat.czxid, node.stat.mzxid, node.stat.pzxid) for node in nodes.values())
