"""A connection with 64-bit xids, one that is refused, and one that may only read."""

import struct
from typing import NamedTuple

import pytest

from codec.client import PING, auth, close, connect, connected, create, framed, get, packet, set_data
from codec.constants import ErrorCode, EventType, OpCode, Xid
from codec.jute import pack_buffer, pack_string
from codec.packets import ConnectRequest
from lab.fakes.connection import PASSWORD, SESSION, Client
from proxy.state.operation import Operations
from proxy.state.ops import EXTENDED, PLAIN
from tests.table import one_by_one

_HUGE = (1 << 40) + 7


class WideReply(NamedTuple):
    """One packet of the server."""

    xid: int
    zxid: int
    err: int
    body: bytes


def _handshake(version: int = 11, *, compression: bool = False, wide: bool = False) -> bytes:
    asked = {11: bytes((compression,)), 12: bytes((wide, compression))}.get(version, b"")
    fields = struct.pack(">qiq", 0, 4000, 0) + pack_buffer(bytes(16)) + b"\1"
    return struct.pack(">ii", 45, version) + asked + fields


def _wide(narrow: bytes, xid: int) -> bytes:
    """A request with another xid."""
    return pack_buffer(struct.pack(">q", xid) + narrow[8:])


def _narrow(narrow: bytes, _xid: int) -> bytes:
    return narrow


def _replies(client: Client) -> list[WideReply]:
    return [WideReply._make((*struct.unpack_from(">qqi", raw), raw[20:])) for raw in client.received()]


def _outcomes(client: Client) -> list[tuple[int, int]]:
    return [(reply.xid, reply.err) for reply in _replies(client)]


def _opened(handshake: bytes, operations: Operations = EXTENDED) -> Client:
    client = Client(operations)
    client.send(handshake)
    return client


def _connected() -> Client:
    client = _opened(_handshake())
    client.establish()
    (response,) = client.received()
    assert struct.unpack_from(">iiq", response) == (11, 4000, SESSION)
    assert response[20:] == PASSWORD + b"\0"
    return client


@pytest.mark.parametrize("wide", [False, True])
def test_trace_contexts_do_not_disturb_the_packets(wide: bool) -> None:
    client = _opened(_handshake(12, wide=wide))
    client.establish()
    (response,) = client.received()
    assert struct.unpack_from(">iiq", response) == (12, 4000, SESSION)
    assert client.connection.is_keepers
    xids = (_HUGE, 6) if wide else (5, 6)
    requests = [(_wide if wide else _narrow)(packet(xid & 0xFF, get("/none")), xid) for xid in xids]
    context = b"\1" + b"0af76519-16cd-43dd-8448-eb211c80319c\n7\n\n1\n"
    client.send(requests[0] + context, requests[1] + b"\0")
    assert (_outcomes(client) if wide else client.outcomes()) == [(xid, ErrorCode.NO_NODE) for xid in xids]


def test_the_handshake_cut_at_every_byte() -> None:
    stream = _handshake()
    for split in range(1, len(stream)):
        client = Client()
        client.send(stream[:split], stream[split:])
        assert client.host.attached == [ConnectRequest(11, 0, 4000, 0, bytes(16), True)]
        client.establish()
        assert len(client.received()) == 1


def test_reads_writes_pings_and_events_have_xids_of_64_bits() -> None:
    client = _connected()
    client.send(
        _wide(packet(0, create("/a", b"old")), _HUGE),
        _wide(packet(0, get("/a", watch=True)), _HUGE + 1),
        _wide(PING, -2),
        _wide(packet(0, set_data("/a", b"new")), _HUGE + 2),
        _wide(packet(0, get("/missing")), _HUGE + 3),
    )
    client.commit()
    client.commit()
    created, read, ping, event, changed, missing = _replies(client)
    assert [reply.xid for reply in (created, read, ping)] == [_HUGE, _HUGE + 1, -2]
    assert created.body == pack_string("/a")
    assert read.body.startswith(pack_buffer(b"old"))
    assert event.xid == -1
    assert event.body == struct.pack(">ii", EventType.NODE_DATA_CHANGED, 3) + pack_string("/a")
    assert (changed.xid, changed.err) == (_HUGE + 2, 0)
    assert (missing.xid, missing.err, missing.body) == (_HUGE + 3, ErrorCode.NO_NODE, b"")


def test_auth_multi_what_is_malformed_and_the_end_of_the_session() -> None:
    client = _connected()
    last = (1 << 63) - 1
    client.send(
        _wide(packet(Xid.AUTH, auth("digest", b"user:word")), -4),
        _wide(framed(0, OpCode.MULTI, struct.pack(">i?i", -1, True, -1)), 1),
        _wide(framed(0, OpCode.CREATE, b"\0"), 2),
        _wide(framed(0, OpCode.GET_DATA, b"\0"), 3),
        _wide(packet(0, close()), last),
    )
    client.commit()
    marshalling = ErrorCode.MARSHALLING_ERROR
    assert _outcomes(client) == [(-4, 0), (1, 0), (2, marshalling), (3, marshalling), (last, 0)]
    assert client.transport.is_closed()


@one_by_one("size", range(12))
def test_a_packet_without_a_whole_header(size: int) -> None:
    client = _connected()
    client.send(pack_buffer(bytes(size)))
    assert client.received() == []
    assert client.transport.is_closed()


def test_an_unknown_operation() -> None:
    client = _connected()
    client.send(_wide(framed(0, 999), _HUGE))
    assert _replies(client) == [WideReply(_HUGE, -1, ErrorCode.UNIMPLEMENTED, b"")]
    assert client.transport.is_closed()


@pytest.mark.parametrize(
    "handshake", [_handshake(10), _handshake(11, compression=True), _handshake(12, compression=True)]
)
def test_what_is_not_offered_is_told_by_version_0(handshake: bytes) -> None:
    client = _opened(handshake)
    assert client.host.attached == []
    (response,) = client.received()
    assert struct.unpack_from(">iiq", response) == (0, 0, 0)
    assert len(response) == 37
    assert client.transport.is_closed()


def test_without_extensions_the_version_says_nothing() -> None:
    client = _opened(_handshake(10), PLAIN)
    assert client.host.attached == [ConnectRequest(10, 0, 4000, 0, bytes(16), True)]
    client.establish()
    (response,) = client.received()
    assert connected(response) == (SESSION, PASSWORD, 4000)
    client.send(framed(1, 500, pack_string("/") + bytes(2)))
    assert client.outcomes() == [(1, ErrorCode.UNIMPLEMENTED)]


@one_by_one("version", [-1, 1, 9, 13, 42, 2**31 - 1])
def test_other_versions_are_not_looked_at(version: int) -> None:
    client = _opened(_handshake(version))
    assert client.host.attached == [ConnectRequest(version, 0, 4000, 0, bytes(16), True)]


@pytest.mark.parametrize("is_keepers", [True, False])
def test_who_is_turned_away_is_told_so_only_if_it_understands(is_keepers: bool) -> None:
    client = _opened(_handshake() if is_keepers else connect(4000))
    assert client.connection.is_keepers is is_keepers
    client.connection.send_elsewhere()
    assert [struct.unpack_from(">i", response) for response in client.received()] == [(42,)] * is_keepers
    assert client.transport.is_closed()


@pytest.mark.parametrize("takes", [True, False])
def test_a_session_that_may_only_read(takes: bool) -> None:
    """Also if its client takes nothing until it has closed the session."""
    client = _opened(connect(4000)[:-1] + b"\1")  # its client takes a server that may only read
    client.connection.established(client.session, PASSWORD, read_only=True)
    (response,) = client.received()
    assert response.endswith(b"\1")
    if not takes:
        client.connection.pause_writing()
    sync = framed(3, OpCode.SYNC, pack_string("/"))
    client.send(packet(1, create("/a")), packet(2, get("/")), sync, PING, packet(4, close()))
    if not takes:
        assert client.received() == []
        client.connection.resume_writing()
        client.loop.run()
    refused = ErrorCode.NOT_READ_ONLY
    assert client.outcomes() == [(1, refused), (2, 0), (3, refused), (-2, 0), (4, 0)]
    assert client.transport.is_closed()
    client.lose()
    assert client.host.pending == []
