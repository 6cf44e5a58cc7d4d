"""A ZooKeeper with one of everything in it, and how a server looks to a client that sees all."""

import shutil
from pathlib import Path
from typing import NamedTuple

from lab.oracle.client import Client, Node, tree
from lab.oracle.requests import (
    EPHEMERAL,
    EPHEMERAL_SEQUENTIAL,
    SEQUENTIAL,
    Create,
    CreateContainer,
    CreateTtl,
    Delete,
    Multi,
    SetAcl,
    SetData,
)
from lab.oracle.wire import Session
from lab.servers import ZketcdServer, ZooKeeperServer
from tests.compat.acl_cases import SUPER, SUPER_DIGEST
from tests.compat.conftest import MAX_SESSION_TIMEOUT_MS, NEVER_MS, TICK_TIME_MS, real_zookeeper

#: Sequential creates by which counters are compared.
COUNTED = ("/seq/n-", "/seq-/x", "/container/n-", "/locks/lock-", "/gone/q", "/wide/s", "/s")
_READ_ONLY = ((1, "world", "anyone"),)


class Origin(NamedTuple):
    """A ZooKeeper that was stopped while a client had ephemerals."""

    files: Path
    before: dict[str, Node]  # the client's session alive
    after: dict[str, Node]  # once ZooKeeper had closed it
    session: Session
    ephemerals: list[str]
    next_names: dict[str, str]  # what the next sequential creates were called
    last_zxid: int


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
    return tree(port, below, SUPER)


def populate(client: Client) -> None:
    """One of everything that persists, and counters that have moved on."""
    client.do(
        Create("/null", None),
        Create("/empty", b""),
        Create("/data", b"\0\xff" * 400),
        SetData("/data", b"changed", -1),
        SetData("/data", b"again", 1),
        Create("/large", bytes(range(256)) * 3000),
        Create("/äöü ☃", b"unicode"),
        Create("/acl", b"x", acls=_READ_ONLY),
        Create("/acl2", b"x"),
        SetAcl("/acl2", ((31, "digest", "u:hash"), (17, "ip", "127.0.0.1")), 0),
        SetAcl("/acl2", ((31, "world", "anyone"),), 1),
        CreateContainer("/container", b"c"),
        CreateTtl("/ttl", b"t", 3_600_000),
        Create("/seq"),
        Create("/seq-"),
        Create("/seq.x"),
    )
    for path in ("/seq", "/seq-", "/seq.x", "/container"):
        for _ in range(5):
            client.create(f"{path}/n-", b"s", SEQUENTIAL)
    client.do(
        Delete("/seq/n-0000000001", -1),
        Delete("/seq/n-0000000004", -1),
        Create("/gone"),
        Create("/gone/child"),
        Delete("/gone/child", -1),
        Multi(
            (
                Create("/multi"),
                Create("/multi/a", b"1"),
                SetData("/multi/a", b"2", 0),
                Create("/multi/b"),
                Delete("/multi/b", -1),
            )
        ),
    )
    client.do(Create("/wide"))
    client.do(*(Create(f"/wide/{number:04}", b"%d" % number) for number in range(400)))
    client.do(*(Create(f"/wide/{number:04}/leaf") for number in range(0, 400, 7)))


def ephemerals(client: Client) -> list[str]:
    """Make ephemerals of the client's session, among others that stay; returns their paths."""
    client.do(Create("/eph"), Create("/eph/stays"), Create("/locks"))
    return [
        client.create("/eph/alive", b"me", EPHEMERAL),
        client.create("/locks/lock-", b"", EPHEMERAL_SEQUENTIAL),
        client.create("/locks/lock-", b"", EPHEMERAL_SEQUENTIAL),
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
        names = {path: client.create(path, b"", SEQUENTIAL) for path in COUNTED}
        client.close()
    return Origin(folder / "data", before, after, session, paths, names, zxid)


def max_zxid(nodes: dict[str, Node]) -> int:
    """The largest zxid in any Stat."""
    return max(max(node.stat.czxid, node.stat.mzxid, node.stat.pzxid) for node in nodes.values())
