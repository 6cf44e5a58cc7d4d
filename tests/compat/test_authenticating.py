"""The order of identities, where the reply to an auth packet stands, and how long a client may be silent."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from lab.oracle import wire
from lab.oracle.requests import AddAuth, CloseSession, Create, GetAcl, Ping, Request, WhoAmI, encode
from lab.oracle.wire import Closed, Connection, Reply
from lab.servers import ZketcdServer, ZooKeeperServer
from lab.servers.process import ServerProcess
from proxy.frontend.opening import SESSIONLESS_TIMEOUT

pytestmark = pytest.mark.real

_WRITES = range(1, 21)
_LAST = 23  # the close, behind an auth packet and a ping
_LATE = 5  # seconds that a busy host may be late


@contextmanager
def _connected(server: ServerProcess) -> Iterator[Connection]:
    with closing(Connection(server.port)) as connection:
        connection.connect()
        yield connection


def _sent(*requests: Request) -> bytes:
    """Requests with xids from 1 on."""
    return b"".join(wire.frame(encode(request, xid)) for xid, request in enumerate(requests, 1))


def _auth(user: str) -> Request:
    return AddAuth("digest", user.encode() + b":word")


def _reply(connection: Connection) -> Reply:
    reply = connection.receive()
    assert isinstance(reply, Reply)
    return reply


def _listed(
    server: ServerProcess, users: list[str]
) -> tuple[bytes, list[tuple[int, str | None, str | None]]]:
    """What whoAmI answers, and the ACL that `auth` stands for."""
    with _connected(server) as connection:
        connection.send(_sent(*map(_auth, users)))
        assert all(_reply(connection).err == 0 for _ in users)
        listed = Create("/listed", flags=1, acls=((31, "auth", ""),))
        connection.send(_sent(WhoAmI(), listed, GetAcl("/listed"), CloseSession()))
        who, _, acl, _ = (_reply(connection) for _ in range(4))
    return who.body, wire.Cursor(acl.body).acls()


@pytest.mark.parametrize("count", [1, 4, 10])
def test_identities_are_listed_as_by_zookeeper(
    zookeeper_server: ZooKeeperServer, zketcd_server: ZketcdServer, count: int
) -> None:
    users = [
        f"user \N{GREEK SMALL LETTER ALPHA}\N{GRINNING FACE} {number * number}" for number in range(count)
    ]
    assert _listed(zookeeper_server, users) == _listed(zketcd_server, users)


def _order(server: ServerProcess) -> list[int]:
    """The replies to pipelined writes and an auth packet behind them, by their xids."""
    with _connected(server) as connection:
        creates = [Create(f"/order-{xid}", flags=1) for xid in _WRITES]
        connection.send(_sent(*creates, _auth("amy"), Ping(), CloseSession()))
        return [_reply(connection).xid for _ in (*_WRITES, "auth", "ping", "close")]


def test_only_zookeepers_reply_to_an_auth_packet_may_come_before_earlier_ones(
    zookeeper_server: ZooKeeperServer, zketcd_server: ZketcdServer
) -> None:
    """Clients find it by its xid, so they do not see the difference."""
    theirs = _order(zookeeper_server)
    assert _order(zketcd_server) == [*_WRITES, wire.AUTH_XID, wire.PING_XID, _LAST]
    assert sorted(theirs) == sorted([*_WRITES, wire.AUTH_XID, wire.PING_XID, _LAST])
    assert [xid for xid in theirs if xid > 0] == [*_WRITES, _LAST]


def test_zookeeper_closes_a_client_without_a_session_as_well(zookeeper_server: ZooKeeperServer) -> None:
    """When ours is, tests/proxy/frontend/test_connection.py says by a clock of its own."""
    with closing(Connection(zookeeper_server.port)) as theirs:
        assert theirs.receive_frame(time.monotonic() + SESSIONLESS_TIMEOUT + _LATE) == Closed()
