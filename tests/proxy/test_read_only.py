"""Read-only sessions: who gets one while etcd is silent, and how it ends."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from codec.constants import ErrorCode
from codec.jute import pack_buffer
from proxy.config import parse
from proxy.server import Server
from tests.fakes.etcd import FakeEtcd, FakeEtcdClient
from tests.proxy import packets
from tests.proxy.packets import ConnectReply, framed
from tests.proxy.test_server import Client

_CONFIG = parse(
    ["--listen", "127.0.0.1:0", "--tick-time", "200", "--four-letter-words", "*", "--read-only-mode", "on"]
)
_ZERO = bytes(16)


class EtcdClient(FakeEtcdClient):
    """A fake etcd that may be silent; the server's clock is the loop's."""

    silent = False

    @property
    def last_contact(self) -> float:
        return asyncio.get_running_loop().time() - (60 if self.silent else 0)

    @last_contact.setter
    def last_contact(self, _seconds: float) -> None:
        pass


@asynccontextmanager
async def _serving(**settings: Any) -> AsyncIterator[tuple[Server, EtcdClient]]:
    """A server with a node /a, and its etcd."""
    etcd = EtcdClient(FakeEtcd())
    server = Server(replace(_CONFIG, **settings), etcd)
    await server.start(lambda _count: None)
    writer = await Client.connected(server)
    writer.send(packets.create(1, "/a", b"data"), packets.close(2))
    await writer.rest()
    try:
        yield server, etcd
    finally:
        etcd.silent = False
        await server.stop()
        while Client.opened:
            await Client.opened.pop().close()


def _connect(session_id: int = 0, password: bytes = _ZERO, *, read_only: bool = True, zxid: int = 0) -> bytes:
    fields = struct.pack(">iqiq", 0, zxid, 4000, session_id) + pack_buffer(password)
    return framed(fields + bytes((read_only,)))


async def _reader(server: Server, request: bytes | None = None) -> Client:
    """A client with a read-only session."""
    client = await Client.open(server)
    client.send(request or _connect())
    response = await client.frame()
    assert response.endswith(b"\1")
    client.session = packets.connect_reply(response)
    return client


async def _answer(server: Server, request: bytes) -> bytes:
    """All that a client hears until the server closes."""
    client = await Client.open(server)
    client.send(request)
    return await client.rest()


async def test_reads_go_on_from_what_was_known() -> None:
    async with _serving() as (server, etcd):
        etcd.silent = True
        client = await _reader(server)
        assert client.session.timeout_ms == 4000
        client.send(packets.get(1, "/a"), packets.put(2, "/a", b"new"), packets.get(3, "/a"), packets.ping())
        first, refused, second, ping = [await client.reply() for _ in range(4)]
        assert (first.data, second.data) == (b"data", b"data")
        assert refused.err == ErrorCode.NOT_READ_ONLY
        assert ping.xid == -2
        client.send(packets.close(4))
        assert packets.replies([await client.frame()])[0].err == 0
        assert await client.rest() == b""


async def test_who_is_not_served() -> None:
    async with _serving() as (server, etcd):
        etcd.silent = True
        for request in (
            _connect(read_only=False),
            _connect(zxid=server.zxid + 1),
            _connect(4711),  # others may know of it
        ):
            assert await _answer(server, request) == b""
        client = await _reader(server)
        assert await _answer(server, _connect(client.session.session_id, b"wrong" * 3 + b"!")) == b""


async def test_a_clickhouse_is_sent_to_another_server() -> None:
    wide = struct.pack(">iibqiq", 45, 11, 0, 0, 4000, 0) + pack_buffer(_ZERO) + b"\1"
    async with _serving() as (server, etcd):
        etcd.silent = True
        assert struct.unpack_from(">ii", await _answer(server, wide)) == (37, 42)


async def test_a_client_may_come_back_to_its_session() -> None:
    async with _serving() as (server, etcd):
        etcd.silent = True
        client = await _reader(server)
        known = client.session
        again = await _reader(server, _connect(known.session_id, known.password))
        assert again.session == known
        assert await client.rest() == b""
        again.send(packets.get(1, "/a"))
        assert (await again.reply()).data == b"data"


async def test_a_silent_client_loses_its_session() -> None:
    async with _serving(max_session_timeout=400) as (server, etcd):
        etcd.silent = True
        client = await _reader(server)
        assert await client.rest() == b""
        assert await _answer(server, _connect(client.session.session_id, client.session.password)) == b""


async def test_all_end_when_etcd_is_back() -> None:
    async with _serving() as (server, etcd):
        etcd.silent = True
        client = await _reader(server)
        known = client.session
        client.send(packets.get(1, "/a", watch=True))
        assert (await client.reply()).err == 0
        etcd.silent = False
        assert await client.rest() == b""
        # No other server knew of it: to the client the session is over.
        expired = await _answer(server, _connect(known.session_id, known.password))
        assert packets.connect_reply(expired[4:]) == ConnectReply(0, 0, _ZERO)
        writer = await Client.open(server)
        writer.send(_connect())
        assert (await writer.frame()).endswith(b"\0")
        writer.send(packets.put(1, "/a", b"new"))
        assert (await writer.reply()).err == 0


@pytest.mark.parametrize(("read_only_mode", "word"), [(True, b"ro"), (False, b"null")])
async def test_isro_tells_where_writes_are_taken(read_only_mode: bool, word: bytes) -> None:
    async with _serving(read_only_mode=read_only_mode) as (server, etcd):
        assert await _answer(server, b"isro") == b"rw"
        etcd.silent = True
        assert await _answer(server, b"isro") == word


async def test_without_the_option_nobody_is_served_read_only() -> None:
    async with _serving(read_only_mode=False) as (server, etcd):
        etcd.silent = True
        assert await _answer(server, _connect()) == b""
