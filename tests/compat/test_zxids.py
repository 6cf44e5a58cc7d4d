"""Which requests take a zxid, and which one a reply shows: the same history on ZooKeeper and on zketcd.

A session of its own writes a node behind each step: what lies between two of these zxids is what the step
took.
"""

import os
import struct
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from lab.oracle import wire
from lab.oracle.requests import (
    EPHEMERAL,
    PERSISTENT,
    SEQUENTIAL,
    WITH_TTL,
    AclList,
    AddAuth,
    Check,
    CloseSession,
    Create,
    CreateContainer,
    CreateTtl,
    Delete,
    Exists,
    GetData,
    Multi,
    MultiRead,
    Payload,
    Reconfig,
    Request,
    Sasl,
    SetAcl,
    SetData,
    SetWatches,
    Sync,
    WhoAmI,
    encode,
)
from lab.oracle.wire import Closed, Connection, Event, Reply, Session, Silent
from lab.servers import EtcdServer, ZketcdServer, free_port, wait_until
from lab.servers.clusters import running_ensemble
from lab.servers.operator import count_keys, metric
from lab.servers.relay import Quality, Relays
from tests.compat.conftest import real_zookeeper, zketcd_proxy

pytestmark = pytest.mark.real

_LONG_MS = 60_000
_END_OF_PARTS = 9  # bytes
_NO_ID: AclList = ((1, "ip", None),)


def _cut(request: Request, size: int) -> Payload:
    """A request without its last bytes."""
    return Payload(encode(request, 1)[:-size])


STEPS: list[Request] = [
    Create("/a"),
    Create("/b", with_stat=True),
    Create("/ephemeral", flags=EPHEMERAL),
    Create("/a/s", flags=SEQUENTIAL),
    Create("/a"),
    Create("/missing/x"),
    Create("relative"),
    Create("/x", flags=9),
    Create("/x", flags=WITH_TTL),
    Create("/x", acls=((31, "x", "y"),)),
    Create("/x", acls=None),
    Create("/x", acls=_NO_ID),
    Create(None),
    _cut(Create("/x"), 2),
    CreateContainer("/container"),
    CreateTtl("/ttl"),
    CreateTtl("/x", flags=PERSISTENT),
    CreateTtl(None),
    _cut(CreateTtl("/x"), 8),
    *(SetData("/a"), SetData("/missing"), SetData("/a", version=77), SetData(None), _cut(SetData("/a"), 1)),
    *(SetAcl("/a"), SetAcl(None), SetAcl("/a", None), SetAcl("/a", _NO_ID), _cut(SetAcl("/a"), 1)),
    *(Delete("/b"), Delete("/b"), Delete("/a"), Delete(None), _cut(Delete("/a"), 1)),
    *(Sync("/"), Sync(None), _cut(Sync("/"), 4)),
    *(GetData("/"), GetData("/missing")),
    *(Reconfig(), _cut(Reconfig(), 16)),
    Multi((Create("/m"), Delete("/m"))),
    Multi((Create("/m"), Delete("/b"))),
    Multi(),
    _cut(Multi((Create("/m"),)), _END_OF_PARTS + 1),
    _cut(Multi((Create("/m"),)), _END_OF_PARTS),
    Payload(encode(Multi(), 1)[:8] + struct.pack(">i?i", 99, False, -1)),
    Multi((Create(None),)),
    Multi((Delete(None),)),
    Multi((SetData(None),)),
    Multi((Check(None),)),
    Multi((Create("/m", acls=None),)),
    Multi((Create("/m", acls=_NO_ID),)),
    Multi((Create("/m", flags=99),)),
    Multi((Create("/m", flags=WITH_TTL),)),
    Multi((CreateTtl("/m", ttl=-5),)),
    Multi((GetData("/"),)),
    MultiRead((GetData("/"),)),
    *(WhoAmI(), AddAuth("digest", b"a:b"), Sasl(b""), SetWatches(0)),
]


# ACLs with a null id: alone, behind a good entry, before one, and where ZooKeeper does not look at the id (of
# "auth", and of no scheme).
_WITHOUT_IDS: list[AclList] = [
    ((31, "world", None),),
    ((31, "world", "anyone"), (31, "ip", None)),
    ((31, "digest", None), (31, "world", "anyone")),
    ((31, "auth", None),),
    ((31, None, None),),
]


# ACLs in which ZooKeeper meets a null early, late, or not at all: it compares the entries first, and then
# looks at one after another.
_NULLS_AND_MORE: list[AclList] = [
    ((31, "ip", "10.0.0.1"), (31, "ip", None)),
    ((1, "ip", "10.0.0.1"), (31, "ip", None), (31, "ip", None)),
    ((31, "ip", "nowhere"), (31, "ip", None)),
    ((1, "ip", "nowhere"), (31, "ip", None)),
    ((31, "ip", None), (31, "ip", "")),
    ((31, "unknown", "x"), (31, "ip", None)),
    ((31, "unknown", None),),
    ((31, "super", None),),
    ((31, "x509", None),),
    ((31, "sasl", None),),
    ((31, "auth", None), (31, "auth", None)),
    ((31, "auth", None), (1, "auth", None)),
    ((31, "auth", None), (31, "auth", "")),
    ((31, "world", "anyone"), (31, None, "x")),
    ((31, "world", "anyone"), (1, None, "x")),
    ((31, None, "x"), (31, None, "x")),
]


def _second_faults() -> Iterator[Request]:
    """Requests with nulls in their ACLs, and with another fault: which one is answered?"""
    for acls in (*_WITHOUT_IDS, *_NULLS_AND_MORE):
        whole = Create("/x", acls=acls)
        yield from (whole, Create("/x", b"", 9, acls), Create("/x", b"", WITH_TTL, acls))
        yield from (Create(path, acls=acls) for path in ("relative", "/x\0", "/x//y"))
        yield from (Create(path, acls=acls, with_stat=True) for path in ("/missing/x", "/a"))
        yield CreateContainer("/a", acls=acls)
        yield from (CreateTtl("/a", flags=PERSISTENT, acls=acls), CreateTtl("/a", ttl=-2, acls=acls))
        yield from (SetAcl(path, acls) for path in ("/missing", "relative", None))
        yield SetAcl("/a", acls, 77)
        yield from (Multi((Delete("/missing"), whole)), Multi((whole, Delete("/missing"))))
        yield Multi((Create("relative", acls=acls),))


def _without_ids() -> Iterator[Request]:
    """Requests whose ACLs have no ids: cut at every byte behind the beginning of the ACL, and whole."""
    for acls in _WITHOUT_IDS:
        for request in (
            Create("/x", acls=acls),
            Create(None, acls=acls, with_stat=True),
            CreateContainer("/x", acls=acls),
            CreateTtl("/x", acls=acls),
            SetAcl("/missing", acls),
            Multi((SetData("/a"), Create("/x", acls=acls))),
        ):
            whole = encode(request, 1)
            for size in range(whole.index(wire.pack_acls(acls)), len(whole) + 1):
                yield Payload(whole[:size])


class Taken(NamedTuple):
    """What a step was answered, which zxid that showed, and how many it took."""

    step: Request | str
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

    def ask(self, connection: Connection, request: Request) -> Reply | Closed | Silent:
        self._xid += 1
        connection.send(wire.frame(encode(request, self._xid)))
        while True:
            message = connection.receive()
            if not isinstance(message, Event):
                return message

    def _behind(self) -> int:
        self._probes += 1
        reply = self.ask(self._probe, Create(f"/probe-{self._probes}"))
        assert isinstance(reply, Reply), reply
        assert reply.err == 0
        return reply.zxid

    def taken(self, step: Request | str, reply: object = None) -> Taken:
        before, self._last = self._last, self._behind()
        spent = self._last - before - 1
        if not isinstance(reply, Reply):
            return Taken(step, None, None, spent)
        return Taken(step, reply.err, reply.zxid - before if reply.zxid > 0 else None, spent)


def _play(port: int) -> Iterator[Taken]:
    history = _History(port)
    connection, session = history.session()
    yield history.taken("a session begins")
    for step in (*STEPS, *_without_ids(), *_second_faults()):
        yield history.taken(step, history.ask(connection, step))
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
    yield history.taken("closeSession", history.ask(connection, CloseSession()))
    silent, _ = history.session(timeout_ms=2000)
    history.ask(silent, Create("/silent", flags=EPHEMERAL))
    history.taken("a session with an ephemeral")
    silent.close()
    observer, _ = history.session()
    history.taken("another session")
    deadline = time.monotonic() + 30
    while history.ask(observer, Exists("/silent")).err == 0:  # type: ignore[union-attr]
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield history.taken("a session expires")
    yield history.taken("an unknown request", history.ask(observer, Payload(struct.pack(">ii", 1, 99))))
    for each in history.connections:
        each.close()


def test_zxids_are_counted_as_zookeepers(etcd_server: EtcdServer) -> None:
    with real_zookeeper() as zookeeper, zketcd_proxy(etcd_server, "/zxids") as proxy:
        expected, found = list(_play(zookeeper.port)), list(_play(proxy.port))
    assert found == expected
    assert {taken.spent for taken in expected} == {0, 1}


# Reads and sync are left out: ZooKeeper's old server answers them until it is notified of the move. So is
# closeSession, whose sender ZooKeeper does not check (PrepRequestProcessor).
MOVED: list[Request] = [
    Create("/moved"),
    SetData("/"),
    SetData("/missing"),
    SetAcl("/"),
    Delete("/missing"),
    Multi((Create("/moved"), SetData("/"))),
    Multi((Delete("/missing"),)),
]


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
    for step in MOVED:
        connection = Connection(first)
        history.connections.append(connection)
        session = connection.connect(timeout_ms=_LONG_MS)  # its end would take a zxid
        assert isinstance(session, Session)
        request = wire.frame(encode(step, 1))
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
    # One alone knows no other server that a session could have moved to. Of 20 ticks is the longest timeout.
    with running_ensemble(tick_time=_LONG_MS // 20) as (first, second, _):
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
