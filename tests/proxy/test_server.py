"""A whole server on the fake etcd, with clients on real sockets: start, life of sessions, drain."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, ClassVar
from unittest import mock

import pytest

from codec.constants import ErrorCode, EventType, OpCode
from proxy.config import parse
from proxy.etcd.model import Put, Txn
from proxy.server import Server, bound_socket
from schema.keys import Keyspace
from schema.values import OPEN_ACL, encode_counter, encode_node
from tests.fakes.etcd import FakeEtcd, FakeEtcdClient
from tests.proxy import packets
from tests.proxy.packets import ConnectReply, Reply

KEYS = Keyspace("/zketcd")
_CONFIG = parse(["--listen", "127.0.0.1:0", "--tick-time", "200", "--four-letter-words", "*"])


class Client:
    """A client on a socket; closed at the end of its test."""

    opened: ClassVar[list["Client"]] = []

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened.append(self)
        self._reader = reader
        self._writer = writer
        self.session = ConnectReply(0, 0, b"")

    @classmethod
    async def open(cls, server: Server) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", server.port))

    @classmethod
    async def connected(cls, server: Server, *, timeout_ms: int = 4000) -> "Client":
        client = await cls.open(server)
        client.send(packets.connect(timeout_ms=timeout_ms))
        client.session = packets.connect_reply(await client.frame())
        return client

    def send(self, *chunks: bytes) -> None:
        self._writer.write(b"".join(chunks))

    async def frame(self) -> bytes:
        async with asyncio.timeout(10):
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            return await self._reader.readexactly(size)

    async def reply(self) -> Reply:
        (reply,) = packets.replies([await self.frame()])
        return reply

    async def rest(self) -> bytes:
        """What comes until the server closes."""
        async with asyncio.timeout(10):
            return await self._reader.read()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


@pytest.fixture(autouse=True)
async def _clients_are_closed() -> AsyncIterator[None]:
    yield
    while Client.opened:
        await Client.opened.pop().close()


class EtcdClient(FakeEtcdClient):
    """A fake etcd that has always answered just now; the server's clock is the loop's."""

    @property
    def last_contact(self) -> float:
        return asyncio.get_running_loop().time()

    @last_contact.setter
    def last_contact(self, _seconds: float) -> None:
        pass


@asynccontextmanager
async def serving(store: FakeEtcd, **settings: Any) -> AsyncIterator[Server]:
    """A server on a free port."""
    server = Server(replace(_CONFIG, **settings), EtcdClient(store))
    await server.start(lambda _count: None)
    try:
        yield server
    finally:
        await server.stop()


async def _until_gone(server: Server, path: str) -> None:
    async with asyncio.timeout(10):
        while path in server.mirror.tree.nodes:  # noqa: ASYNC110 - the server has no event for this
            await asyncio.sleep(0.005)


async def test_requests_of_all_kinds_are_answered_in_order() -> None:
    async with serving(FakeEtcd()) as server:
        client = await Client.connected(server)
        client.send(
            packets.create(1, "/a", b"1"),
            packets.get(2, "/a", watch=True),
            packets.put(3, "/a", b"2"),
            packets.ping(),
            packets.create(4, "/a/e", flags=1),
            packets.delete(5, "/a"),
        )
        replies = [await client.reply() for _ in range(7)]
        assert [reply.xid for reply in replies] == [1, 2, -1, 3, -2, 4, 5]
        assert replies[1].data == b"1"
        assert replies[2].event == (EventType.NODE_DATA_CHANGED, "/a")
        assert replies[6].err == ErrorCode.NOT_EMPTY
        assert [reply.zxid for reply in replies if reply.xid > 0] == sorted(
            reply.zxid for reply in replies if reply.xid > 0
        )


async def test_a_closed_session_takes_its_ephemerals_and_lease() -> None:
    store = FakeEtcd()
    async with serving(store) as server:
        watcher = await Client.connected(server)
        client = await Client.connected(server)
        client.send(packets.create(1, "/e", flags=1))
        await client.reply()
        watcher.send(packets.read(1, OpCode.EXISTS, "/e", watch=True))
        await watcher.reply()
        client.send(packets.close(2))
        assert (await client.reply()).xid == 2
        assert await client.rest() == b""
        assert (await watcher.reply()).event == (EventType.NODE_DELETED, "/e")
        async with asyncio.timeout(10):
            while store.lease_time_to_live(client.session.session_id).ttl != -1:  # noqa: ASYNC110
                await asyncio.sleep(0.005)


async def test_a_silent_client_expires_though_its_connection_is_open() -> None:
    async with serving(FakeEtcd(), min_session_timeout=100) as server:
        client = await Client.connected(server, timeout_ms=100)
        assert client.session.timeout_ms == 100
        client.send(packets.create(1, "/e", flags=1))
        await client.reply()
        await _until_gone(server, "/e")
        assert await client.rest() == b""
        again = await Client.open(server)
        again.send(packets.connect(session_id=client.session.session_id, password=client.session.password))
        assert packets.connect_reply(await again.frame()) == (0, 0, bytes(16))


async def test_a_session_lives_on_with_another_server() -> None:
    store = FakeEtcd()
    async with serving(store) as second:
        async with serving(store) as first:
            client = await Client.connected(first)
            client.send(packets.create(1, "/e", flags=1))
            await client.reply()
        assert await client.rest() == b""
        moved = await Client.open(second)
        moved.send(packets.connect(session_id=client.session.session_id, password=client.session.password))
        assert packets.connect_reply(await moved.frame()).session_id == client.session.session_id
        moved.send(packets.delete(1, "/e"))
        assert (await moved.reply()).err == 0


async def test_what_a_session_leaves_whose_lease_runs_out_is_cleared_up() -> None:
    store = FakeEtcd()
    async with serving(store) as second:
        async with serving(store) as first:
            client = await Client.connected(first)
            client.send(packets.create(1, "/e", flags=1))
            await client.reply()
        store.advance(100)
        await _until_gone(second, "/e")


async def test_a_server_that_starts_ends_the_sessions_that_ran_out_before() -> None:
    store = FakeEtcd()
    async with serving(store):
        pass
    owned = encode_node(b"", OPEN_ACL, 4711, 1, 1, 0, 0)
    store.txn(Txn((), (Put(KEYS.node("/e"), owned), Put(KEYS.counter("/"), encode_counter(9)))))
    async with serving(store) as server:
        assert "/e" not in server.mirror.tree.nodes


async def test_a_server_that_stops_leaves_no_keys_of_its_own() -> None:
    store = FakeEtcd()
    async with serving(store) as server:
        client = await Client.connected(server)
        client.send(packets.create(1, "/a"))
        await client.reply()
    left = [kv.key for kv in store.snapshot()]
    assert not [key for key in left if key.startswith((KEYS.markers, KEYS.proxies))]
    assert [key for key in left if key.startswith(KEYS.sessions)]


async def test_a_drain_answers_what_is_here() -> None:
    store = FakeEtcd()
    async with serving(store) as server:
        client = await Client.connected(server)
        client.send(packets.put(1, "/", b"1"), packets.get(2, "/"))
        async with asyncio.timeout(10):
            while not server.committer.outstanding and server.zxid < 8:  # noqa: ASYNC110
                await asyncio.sleep(0)
    rest = packets.replies(packets.take_apart(await client.rest()))
    assert [reply.xid for reply in rest] == [1, 2]


async def test_too_many_connections_of_one_address_are_closed() -> None:
    async with serving(FakeEtcd(), max_client_connections=1) as server:
        first = await Client.connected(server)
        second = await Client.open(server)
        assert await second.rest() == b""
        await second.close()
        await first.close()
        async with asyncio.timeout(10):
            while server.connections:  # noqa: ASYNC110 - the server has no event for this
                await asyncio.sleep(0.005)
        third = await Client.connected(server)
        assert third.session.session_id


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("ruok", b"imok"),
        ("isro", b"rw"),
        ("srvr", b"Mode: standalone"),
        ("stat", b"Clients:"),
        ("mntr", b"zk_znode_count"),
        ("conf", b"tickTime=200"),
        ("cons", b"sid=0x"),
        ("wchs", b"1 connections watching 1 paths"),
    ],
)
async def test_four_letter_words(word: str, expected: bytes) -> None:
    async with serving(FakeEtcd()) as server:
        client = await Client.connected(server)
        client.send(packets.get(1, "/", watch=True))
        await client.reply()
        asking = await Client.open(server)
        asking.send(word.encode())
        assert expected in await asking.rest()


async def test_a_fault_of_the_feed_is_told() -> None:
    with mock.patch("proxy.server._DRAIN_TIMEOUT", 0.1):
        async with serving(FakeEtcd()) as server:
            with mock.patch.object(server.mirror, "apply", side_effect=ZeroDivisionError):
                client = await Client.open(server)
                client.send(packets.connect())
                fault = await asyncio.wait_for(server.failed(), 10)
            assert isinstance(fault, ZeroDivisionError)


def test_an_address_that_is_taken_is_named() -> None:
    with bound_socket("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{port}: Address already in use"):
            bound_socket("127.0.0.1", port)


def test_an_address_that_is_not_ours_is_named() -> None:
    with pytest.raises(OSError, match=r"cannot listen on 192\.0\.2\.1:2181"):
        bound_socket("192.0.2.1", 2181)
