"""Which requests take a zxid, and which one a reply shows: the same history on ZooKeeper and on zketcd.

A session of its own writes a node behind each step: what lies between two of these zxids is what the step
took.
"""

import os
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import pytest

from lab.oracle import wire
from lab.oracle.wire import Closed, Connection, Event, Reply, Session, Silent
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer, free_port, wait_until
from lab.servers.operator import count_keys, metric
from lab.servers.relay import Quality, Relays
from tests.compat.conftest import real_zookeeper, zketcd_proxy

pytestmark = pytest.mark.real

_OPEN = wire.pack_acls([(31, "world", "anyone")])
_NULL = wire.pack_int(-1)
_ANY = wire.pack_int(-1)
_MULTI_HEADER = struct.Struct(">i?i")
_LONG_MS = 60_000
_END = _MULTI_HEADER.pack(-1, True, -1)
_NO_ID = wire.pack_int(1) + wire.pack_int(1) + wire.pack_string("ip") + _NULL


def _create(path: str | None, flags: int = 0, acl: bytes = _OPEN) -> bytes:
    return wire.pack_string(path) + wire.pack_buffer(b"data") + acl + wire.pack_int(flags)


def _set(path: str | None, version: int = -1) -> bytes:
    return wire.pack_string(path) + wire.pack_buffer(b"x") + wire.pack_int(version)


def _delete(path: str | None, version: int = -1) -> bytes:
    return wire.pack_string(path) + wire.pack_int(version)


def _set_acl(path: str | None, acl: bytes = _OPEN) -> bytes:
    return wire.pack_string(path) + acl + _ANY


def _multi(*parts: tuple[int, bytes], end: bytes = _END) -> bytes:
    return b"".join(_MULTI_HEADER.pack(opcode, False, -1) + body for opcode, body in parts) + end


_READ = wire.pack_string("/") + b"\0"
_TTL = wire.pack_long(60_000)

STEPS: list[tuple[str, int, bytes]] = [
    ("create", wire.CREATE, _create("/a")),
    ("create2", wire.CREATE2, _create("/b")),
    ("ephemeral", wire.CREATE, _create("/ephemeral", 1)),
    ("sequential", wire.CREATE, _create("/a/s", 2)),
    ("node exists", wire.CREATE, _create("/a")),
    ("no parent", wire.CREATE, _create("/missing/x")),
    ("bad path", wire.CREATE, _create("relative")),
    ("bad flags", wire.CREATE, _create("/x", 9)),
    ("flags of a TTL", wire.CREATE, _create("/x", 5)),
    ("bad ACL", wire.CREATE, _create("/x", 0, wire.pack_acls([(31, "x", "y")]))),
    ("null ACL", wire.CREATE, _create("/x", 0, _NULL)),
    ("null id in the ACL", wire.CREATE, _create("/x", 0, _NO_ID)),
    ("null path", wire.CREATE, _create(None)),
    ("create cut", wire.CREATE, _create("/x")[:-2]),
    ("container", wire.CREATE_CONTAINER, _create("/container", 4)),
    ("TTL node", wire.CREATE_TTL, _create("/ttl", 5) + _TTL),
    ("TTL node, bad mode", wire.CREATE_TTL, _create("/x", 0) + _TTL),
    ("TTL node, null path", wire.CREATE_TTL, _create(None, 5) + _TTL),
    ("TTL node cut", wire.CREATE_TTL, _create("/x", 5)),
    ("set", wire.SET_DATA, _set("/a")),
    ("set, no node", wire.SET_DATA, _set("/missing")),
    ("set, bad version", wire.SET_DATA, _set("/a", 77)),
    ("set, null path", wire.SET_DATA, _set(None)),
    ("set cut", wire.SET_DATA, _set("/a")[:-1]),
    ("setACL", wire.SET_ACL, _set_acl("/a")),
    ("setACL, null path", wire.SET_ACL, _set_acl(None)),
    ("setACL, null ACL", wire.SET_ACL, _set_acl("/a", _NULL)),
    ("setACL, null id", wire.SET_ACL, _set_acl("/a", _NO_ID)),
    ("setACL cut", wire.SET_ACL, _set_acl("/a")[:-1]),
    ("delete", wire.DELETE, _delete("/b")),
    ("delete, no node", wire.DELETE, _delete("/b")),
    ("delete, not empty", wire.DELETE, _delete("/a")),
    ("delete, null path", wire.DELETE, _delete(None)),
    ("delete cut", wire.DELETE, _delete("/a")[:-1]),
    ("sync", wire.SYNC, wire.pack_string("/")),
    ("sync, null path", wire.SYNC, _NULL),
    ("sync cut", wire.SYNC, b"\0"),
    ("getData", wire.GET_DATA, _READ),
    ("getData, no node", wire.GET_DATA, wire.pack_string("/missing") + b"\0"),
    ("reconfig", wire.RECONFIG, _NULL * 3 + wire.pack_long(-1)),
    ("reconfig cut", wire.RECONFIG, _NULL),
    ("multi", wire.MULTI, _multi((wire.CREATE, _create("/m")), (wire.DELETE, _delete("/m")))),
    ("multi that fails", wire.MULTI, _multi((wire.CREATE, _create("/m")), (wire.DELETE, _delete("/b")))),
    ("empty multi", wire.MULTI, _multi()),
    ("multi cut", wire.MULTI, _multi((wire.CREATE, _create("/m")[:-1]), end=b"")),
    ("multi without an end", wire.MULTI, _multi((wire.CREATE, _create("/m")), end=b"")),
    ("multi, unknown part", wire.MULTI, _multi((99, b""))),
    ("multi, create of a null path", wire.MULTI, _multi((wire.CREATE, _create(None)))),
    ("multi, delete of a null path", wire.MULTI, _multi((wire.DELETE, _delete(None)))),
    ("multi, set of a null path", wire.MULTI, _multi((wire.SET_DATA, _set(None)))),
    ("multi, check of a null path", wire.MULTI, _multi((wire.CHECK, _delete(None)))),
    ("multi, null ACL", wire.MULTI, _multi((wire.CREATE, _create("/m", 0, _NULL)))),
    ("multi, null id", wire.MULTI, _multi((wire.CREATE, _create("/m", 0, _NO_ID)))),
    ("multi, bad flags", wire.MULTI, _multi((wire.CREATE, _create("/m", 99)))),
    ("multi, flags of a TTL", wire.MULTI, _multi((wire.CREATE, _create("/m", 5)))),
    ("multi, bad TTL", wire.MULTI, _multi((wire.CREATE_TTL, _create("/m", 5) + wire.pack_long(-5)))),
    ("multi with a read", wire.MULTI, _multi((wire.GET_DATA, _READ))),
    ("multiRead", wire.MULTI_READ, _multi((wire.GET_DATA, _READ))),
    ("whoAmI", wire.WHO_AM_I, b""),
    ("auth", wire.AUTH, wire.pack_int(0) + wire.pack_string("digest") + wire.pack_buffer(b"a:b")),
    ("sasl", wire.SASL, wire.pack_buffer(b"")),
    ("setWatches", wire.SET_WATCHES, wire.pack_long(0) + wire.pack_strings([]) * 3),
]


# ACLs with a null id: alone, behind a good entry, before one, and where ZooKeeper does not look at the id (of
# "auth", and of no scheme).
_WITHOUT_IDS = [
    wire.pack_acls(entries)
    for entries in (
        [(31, "world", None)],
        [(31, "world", "anyone"), (31, "ip", None)],
        [(31, "digest", None), (31, "world", "anyone")],
        [(31, "auth", None)],
        [(31, None, None)],
    )
]


# ACLs in which ZooKeeper meets a null early, late, or not at all: it compares the entries first, and then
# looks at one after another.
_NULLS_AND_MORE: list[list[tuple[int, str | None, str | None]]] = [
    [(31, "ip", "10.0.0.1"), (31, "ip", None)],
    [(1, "ip", "10.0.0.1"), (31, "ip", None), (31, "ip", None)],
    [(31, "ip", "nowhere"), (31, "ip", None)],
    [(1, "ip", "nowhere"), (31, "ip", None)],
    [(31, "ip", None), (31, "ip", "")],
    [(31, "unknown", "x"), (31, "ip", None)],
    [(31, "unknown", None)],
    [(31, "super", None)],
    [(31, "x509", None)],
    [(31, "sasl", None)],
    [(31, "auth", None), (31, "auth", None)],
    [(31, "auth", None), (1, "auth", None)],
    [(31, "auth", None), (31, "auth", "")],
    [(31, "world", "anyone"), (31, None, "x")],
    [(31, "world", "anyone"), (1, None, "x")],
    [(31, None, "x"), (31, None, "x")],
]


def _second_faults() -> Iterator[tuple[str, int, bytes]]:
    """Requests with nulls in their ACLs, and with another fault: which one is answered?"""
    for acl in (*_WITHOUT_IDS, *(wire.pack_acls(entries) for entries in _NULLS_AND_MORE)):
        whole = (wire.CREATE, _create("/x", 0, acl))
        missing = (wire.DELETE, _delete("/missing"))
        for name, opcode, body in (
            ("create", *whole),
            ("flags", wire.CREATE, _create("/x", 9, acl)),
            ("flags of a TTL", wire.CREATE, _create("/x", 5, acl)),
            ("path", wire.CREATE, _create("relative", 0, acl)),
            ("path with a null byte", wire.CREATE, _create("/x\0", 0, acl)),
            ("invalid path", wire.CREATE, _create("/x//y", 0, acl)),
            ("parent", wire.CREATE2, _create("/missing/x", 0, acl)),
            ("node", wire.CREATE2, _create("/a", 0, acl)),
            ("container", wire.CREATE_CONTAINER, _create("/a", 4, acl)),
            ("mode without a TTL", wire.CREATE_TTL, _create("/a", 0, acl) + _TTL),
            ("negative TTL", wire.CREATE_TTL, _create("/a", 5, acl) + wire.pack_long(-2)),
            ("setACL", wire.SET_ACL, _set_acl("/missing", acl)),
            ("setACL, path", wire.SET_ACL, _set_acl("relative", acl)),
            ("setACL, null path", wire.SET_ACL, _set_acl(None, acl)),
            ("setACL, version", wire.SET_ACL, wire.pack_string("/a") + acl + wire.pack_int(77)),
            ("multi, part before", wire.MULTI, _multi(missing, whole)),
            ("multi, part behind", wire.MULTI, _multi(whole, missing)),
            ("multi, path", wire.MULTI, _multi((wire.CREATE, _create("relative", 0, acl)))),
        ):
            yield f"{name}, {acl!r}", opcode, body


def _without_ids() -> Iterator[tuple[str, int, bytes]]:
    """Requests whose ACLs have no ids: cut at every byte behind the beginning of the ACL, and whole."""
    for acl in _WITHOUT_IDS:
        for name, opcode, body in (
            ("create", wire.CREATE, _create("/x", 0, acl)),
            ("create2, null path", wire.CREATE2, _create(None, 0, acl)),
            ("container", wire.CREATE_CONTAINER, _create("/x", 4, acl)),
            ("TTL node", wire.CREATE_TTL, _create("/x", 5, acl) + _TTL),
            ("setACL", wire.SET_ACL, _set_acl("/missing", acl)),
            ("multi", wire.MULTI, _multi((wire.SET_DATA, _set("/a")), (wire.CREATE, _create("/x", 0, acl)))),
        ):
            for size in range(body.index(acl), len(body) + 1):
                yield f"{name}, {acl!r}, {len(body) - size} bytes cut", opcode, body[:size]


class Taken(NamedTuple):
    """What a step was answered, which zxid that showed, and how many it took."""

    step: str
    err: int | None
    shown: int | None  # from the last one before; None for a reply without a zxid of the server's
    spent: int


class _History:
    """The steps on one server."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._xid = 0
        self.connections: list[Connection] = []
        self._probe, _ = self.session()
        self._probes = 0
        self._last = self._behind()

    def session(self, **kwargs: object) -> tuple[Connection, Session]:
        connection = Connection(self._port)
        self.connections.append(connection)
        session = connection.connect(**kwargs)  # type: ignore[arg-type]
        assert isinstance(session, Session), session
        return connection, session

    def ask(self, connection: Connection, opcode: int, body: bytes) -> Reply | Closed | Silent:
        self._xid += 1
        connection.send(wire.frame(struct.pack(">ii", self._xid, opcode) + body))
        while True:
            message = connection.receive()
            if not isinstance(message, Event):
                return message

    def _behind(self) -> int:
        self._probes += 1
        reply = self.ask(self._probe, wire.CREATE, _create(f"/probe-{self._probes}"))
        assert isinstance(reply, Reply), reply
        assert reply.err == 0
        return reply.zxid

    def taken(self, step: str, reply: object = None) -> Taken:
        before, self._last = self._last, self._behind()
        spent = self._last - before - 1
        if not isinstance(reply, Reply):
            return Taken(step, None, None, spent)
        return Taken(step, reply.err, reply.zxid - before if reply.zxid > 0 else None, spent)


def _play(port: int) -> Iterator[Taken]:
    history = _History(port)
    connection, session = history.session()
    yield history.taken("a session begins")
    for step, opcode, body in (*STEPS, *_without_ids(), *_second_faults()):
        yield history.taken(step, history.ask(connection, opcode, body))
    connection.close()
    connection, again = history.session(session=session.id, password=session.password)
    assert again.id == session.id
    yield history.taken("a client comes back")
    for password, number in ((b"x" * 16, session.id), (b"x" * 16, 12345)):
        stranger, refused = history.session(session=number, password=password)
        assert refused.id == 0
        stranger.close()
        yield history.taken("a stranger is refused")
    connection.close()  # ZooKeeper has ended it because of the wrong password
    connection, _ = history.session(session=session.id, password=session.password)
    yield history.taken("closeSession", history.ask(connection, wire.CLOSE_SESSION, b""))
    silent, _ = history.session(timeout_ms=2000)
    history.ask(silent, wire.CREATE, _create("/silent", 1))
    history.taken("a session with an ephemeral")
    silent.close()
    observer, _ = history.session()
    history.taken("another session")
    deadline = time.monotonic() + 30
    while history.ask(observer, wire.EXISTS, wire.pack_string("/silent") + b"\0").err == 0:  # type: ignore[union-attr]
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield history.taken("a session expires")
    yield history.taken("an unknown request", history.ask(observer, 99, b""))
    for each in history.connections:
        each.close()


def test_zxids_are_counted_as_zookeepers(etcd_server: EtcdServer) -> None:
    with real_zookeeper() as zookeeper, zketcd_proxy(etcd_server, "/zxids") as proxy:
        expected, found = list(_play(zookeeper.port)), list(_play(proxy.port))
    assert found == expected
    assert {taken.spent for taken in expected} == {0, 1}


# Reads and sync are left out: ZooKeeper's old server answers them until it is notified of the move. So is
# closeSession, whose sender ZooKeeper does not check (PrepRequestProcessor).
MOVED: list[tuple[str, int, bytes]] = [
    ("create", wire.CREATE, _create("/moved")),
    ("set", wire.SET_DATA, _set("/")),
    ("set, no node", wire.SET_DATA, _set("/missing")),
    ("setACL", wire.SET_ACL, _set_acl("/")),
    ("delete, no node", wire.DELETE, _delete("/missing")),
    ("multi", wire.MULTI, _multi((wire.CREATE, _create("/moved")), (wire.SET_DATA, _set("/")))),
    ("multi that fails", wire.MULTI, _multi((wire.DELETE, _delete("/missing")))),
]


@contextmanager
def _ensemble() -> Iterator[tuple[ZooKeeperServer, ZooKeeperServer]]:
    """Two ZooKeepers: one alone knows no other server that a session could have moved to."""
    peers = {f"server.{number}": f"127.0.0.1:{free_port()}:{free_port()}:participant" for number in (1, 2)}
    settings = {"initLimit": "50", "syncLimit": "50", **peers}
    with ExitStack() as stack:
        servers = [
            ZooKeeperServer(tick_time=200, max_session_timeout=_LONG_MS, settings=settings) for _ in peers
        ]
        for number, server in enumerate(servers, 1):
            stack.callback(server.close)
            server.data_dir.mkdir()
            (server.data_dir / "myid").write_text(f"{number}\n")
            server.launch()
        for server in servers:
            server.wait_until_serving()
        yield servers[0], servers[1]


_WAY = "proxy", "etcd"


class _Way:
    """The way from a proxy to etcd, which holds back what the proxy sends."""

    def __init__(self, relays: Relays, etcd: EtcdServer, prefix: str, admin: int) -> None:
        self._relays, self._etcd, self._log, self._admin = relays, etcd, f"{prefix}/live/log/", admin

    def stop(self) -> None:
        self._relays.change({_WAY: Quality(stopped=True)})

    def await_append(self) -> None:
        wait_until(lambda: metric(self._admin, "outstanding_requests") == 1, "the request")

    def mend(self) -> None:
        """Returns when the append that was held back is in the log."""
        before = count_keys(self._etcd, self._log)
        self._relays.change({_WAY: Quality()})
        wait_until(lambda: count_keys(self._etcd, self._log) > before, "the append", interval=0.1)


def _play_moved(first: int, second: int, way: _Way | None) -> Iterator[Taken]:
    """Sessions move from the first server to the second with a request on its way.

    ZooKeeper's old server is not notified of the move. Ours is, so its append is held back on its `way`.
    """
    history = _History(second)
    for step, opcode, body in MOVED:
        connection = Connection(first)
        history.connections.append(connection)
        session = connection.connect(timeout_ms=_LONG_MS)  # its end would take a zxid
        assert isinstance(session, Session)
        request = wire.frame(struct.pack(">ii", 1, opcode) + body)
        if way is not None:
            way.stop()
            connection.send(request)
            way.await_append()
        _, again = history.session(session=session.id, password=session.password, timeout_ms=_LONG_MS)
        assert (again.id, again.timeout_ms) == (session.id, _LONG_MS)
        history.taken("the session moves")
        if way is None:
            connection.send(request)
        else:
            way.mend()
        assert isinstance(connection.receive(), Closed), "it is not answered"
        yield history.taken(step)
    for each in history.connections:
        each.close()


def test_requests_of_a_session_that_has_moved(etcd_server: EtcdServer) -> None:
    with _ensemble() as (first, second):
        expected = list(_play_moved(first.port, second.port, None))
    with Relays() as relays:
        prefix, admin = f"/moved-{os.getpid()}", free_port()
        options: dict[str, Any] = {"prefix": prefix, "tick_time": 200, "max_session_timeout": _LONG_MS}
        relayed = f"http://127.0.0.1:{relays.listen('proxy', 'etcd', etcd_server.port)}"
        old = ZketcdServer(relayed, proxy_lease=60, admin_listen=f"127.0.0.1:{admin}", **options)
        with old, ZketcdServer(etcd_server.endpoint, **options) as new:
            way = _Way(relays, etcd_server, prefix, admin)
            found = list(_play_moved(old.port, new.port, way))
    assert found == expected
    assert {taken.spent for taken in expected} == {1}
