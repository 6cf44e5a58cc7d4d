"""A whole server on the fake etcd, with clients on real sockets: start, life of sessions, drain."""

import asyncio
import contextlib
import errno
import gc
import os
import socket
import struct
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar
from unittest import mock

import pytest

from codec.client import NO_SESSION, connect, connected, create, delete, exists, get, packet
from codec.constants import ErrorCode, EventType
from lab.client.replies import Reply, reply_of
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.base_server import BaseServer
from proxy.config import parse
from proxy.etcd.access import Access
from proxy.etcd.model import Get
from proxy.frontend.listener import bound_socket
from proxy.log.follow.catch_up import Loaded
from proxy.log.follow.staleness import Staleness
from proxy.log.status import Freshness
from proxy.log.upkeep.snapshots import run_process
from proxy.server import Server
from schema.keys import Keyspace
from tests.pipeline.follow.test_target import opened
from tests.proxy.log.proxies import until
from tests.proxy.log.test_standby import Follower
from tests.table import one_by_one

KEYS = Keyspace("/zketcd")
_CONFIG = parse(["--listen", "127.0.0.1:0", "--tick-time", "200", "--four-letter-words", "*"])
_WRITER = partial(run_process, Access(()))  # no test here writes a snapshot


class Client:
    """A client on a socket; closed at the end of its test."""

    opened: ClassVar[list["Client"]] = []

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened.append(self)
        self._reader = reader
        self._writer = writer
        self.session = NO_SESSION

    @classmethod
    async def open(cls, server: BaseServer) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", server.port))

    @classmethod
    async def connected(cls, server: BaseServer, *, timeout_ms: int = 4000) -> "Client":
        client = await cls.open(server)
        client.send(connect(timeout_ms))
        client.session = connected(await client.frame())
        return client

    async def moved(self, server: Server) -> "Client":
        """Another client that continues this one's session, if it may."""
        client = await Client.open(server)
        session, password, _ = self.session
        client.send(connect(4000, session=session, password=password))
        client.session = connected(await client.frame())
        return client

    def send(self, *chunks: bytes) -> None:
        self._writer.write(b"".join(chunks))

    async def frame(self) -> bytes:
        async with asyncio.timeout(10):
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            return await self._reader.readexactly(size)

    async def reply(self) -> Reply:
        (reply,) = [*map(reply_of, [await self.frame()])]
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
    server = Server(replace(_CONFIG, **settings), EtcdClient(store), _WRITER)
    await server.start(lambda _count: None)
    try:
        yield server
    finally:
        await server.stop()


def _is_ready(server: Server) -> bool:
    return server.facts.ready


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_tree_that_follows_another_one_is_read_until_it_is_complete(allowed: bool) -> None:
    store = FakeEtcd()
    follower = Follower(FakeEtcdClient(store), await opened(FakeEtcdClient(store)))
    reading: list[bool] = []
    server = Server(replace(_CONFIG, prefix="/t", read_only_mode=allowed), EtcdClient(store), _WRITER)
    starting = asyncio.get_running_loop().create_task(
        server.start(lambda _count: None, reading=lambda: reading.append(True))
    )
    try:
        await until(lambda: server.log.is_copy and server.log.contact().in_touch)
        await until(lambda: bool(reading) is allowed)
        assert server.facts.ready is allowed
        assert await server.kill(1, "somebody") == ErrorCode.NOT_READ_ONLY
        client = await Client.open(server)
        client.send(connect(4000)[:-1] + b"\1")  # it allows a read-only session
        if allowed:
            connected(await client.frame())
            client.send(packet(1, get("/n1", watch=True)), packet(2, exists("/n1", watch=True)))
            assert [(await client.reply()).err for _ in "12"] == [ErrorCode.NO_NODE] * 2
            await follower.follow()
            assert (await client.reply()).event == (EventType.NODE_CREATED, "/n1")
            client.send(packet(3, delete("/n1")))
            assert (await client.reply()).err == ErrorCode.NOT_READ_ONLY
            assert server.facts.state == "read-only"
        assert not starting.done()
        await follower.finish()
        await starting
        assert await client.rest() == b""
        assert server.facts.ready
        assert server.facts.state == "standalone"
        client = await Client.connected(server)
        client.send(packet(1, create("/a")))
        assert (await client.reply()).err == 0
    finally:
        starting.cancel()
        await server.stop()


def _proxies(store: FakeEtcd) -> int:
    return store.range(Get(KEYS.proxies, KEYS.proxies_end)).count


async def test_a_session_is_not_killed_while_another_process_takes_over() -> None:
    """The request waited, and had no answer when this process ended."""
    async with serving(FakeEtcd()) as server:
        client = await Client.connected(server)
        server.freeze()
        assert await server.kill(client.session.session, "somebody") == ErrorCode.CONNECTION_LOSS
        await server.thaw()


async def test_a_server_that_is_frozen_ends_no_session() -> None:
    """Both a handover and a stop wait until no request is without an outcome."""
    async with serving(FakeEtcd()) as server:
        sessions, contact, outbox = server.sessions, server.log.contact(), server.log.outbox
        for session_id in range(1, 1000):
            sessions.began(session_id, 4000).heard -= 60
        await until(lambda: bool(outbox.outstanding))
        server.freeze()
        assert await server.log.drain(60.0)
        sessions.check(contact)
        assert outbox.outstanding == 0
        await server.thaw()
        await until(lambda: bool(outbox.outstanding))  # the log does not know them, so they stay due


async def test_a_server_that_is_behind_closes_its_connections_and_lets_nobody_in() -> None:
    async with serving(FakeEtcd()) as server:
        client = await Client.connected(server)
        with mock.patch.object(Staleness, "freshness", Freshness.OLD):
            server.stopped_serving("a test")
            assert await client.rest() == b""
            assert not _is_ready(server)
            late = await Client.open(server)
            late.send(connect(4000))
            assert await late.rest() == b""
        assert _is_ready(server)
        assert (await client.moved(server)).session.session == client.session.session


async def test_clients_of_a_server_that_applies_too_slowly_wait_and_keep_their_connections() -> None:
    async with serving(FakeEtcd()) as server:
        staleness, applier = server.log.follower.staleness, server.log.applier
        writer, reader = [await Client.connected(server) for _ in "12"]
        applier.worker.hold()
        writer.send(packet(1, create("/a")))
        await until(lambda: applier.backlog > 0)
        await staleness.ask()
        for question in staleness._open:
            question.began -= 60
        await until(lambda: staleness.is_behind)
        reader.send(packet(1, get("/a")))
        await until(lambda: server.state_gate.first_parked is not None)
        assert not _is_ready(server)
        asked = await Client.open(server)
        asked.send(b"ruok")
        assert await asked.rest() == b"imok"
        applier.worker.release()
        assert [(await client.reply()).err for client in (writer, reader)] == [0, 0]
        await until(lambda: _is_ready(server))


async def test_a_server_that_distrusts_its_state_serves_nobody_read_only() -> None:
    async with serving(FakeEtcd(), read_only_mode=True) as server:
        client = await Client.connected(server)
        may_load = asyncio.Event()
        load_anew = server.log.load_anew

        async def load_later(*, is_wrong: bool) -> Loaded:
            await may_load.wait()
            return await load_anew(is_wrong=is_wrong)

        with mock.patch.object(server.log, "load_anew", load_later):
            server.log.follower.distrust()
            assert await client.rest() == b""
            late = await Client.open(server)
            late.send(connect(4000)[:-1] + b"\1")  # it may be served read-only
            assert await late.rest() == b""
            asked = await Client.open(server)
            asked.send(b"isro")
            assert await asked.rest() == b"null"
            may_load.set()
            await until(lambda: _is_ready(server))
        assert (await client.moved(server)).session.session == client.session.session


async def test_a_fault_of_the_log_ends_the_server() -> None:
    with mock.patch("proxy.server._DRAIN_TIMEOUT", 0.1):
        async with serving(FakeEtcd()) as server:
            with mock.patch.object(server.machine, "begin", side_effect=ZeroDivisionError):
                client = await Client.open(server)
                client.send(connect(4000))
                fault = await asyncio.wait_for(server.failed(), 10)
            assert isinstance(fault, ZeroDivisionError)


def test_an_address_that_is_not_ours_is_named() -> None:
    with pytest.raises(OSError, match=r"cannot listen on 192\.0\.2\.1:2181"):
        bound_socket("192.0.2.1", 2181)


def _answers(listener: socket.socket, host: str) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, listener.getsockname()[1]), 10):
        return True
    return False


@pytest.mark.parametrize(
    ("host", "families"),
    [("", (True, True)), ("::", (True, True)), ("0.0.0.0", (True, False)), ("::1", (False, True))],
)
def test_without_a_host_both_families_are_served(host: str, families: tuple[bool, bool]) -> None:
    with bound_socket(host, 0) as listener:
        listener.listen()
        assert (_answers(listener, "127.0.0.1"), _answers(listener, "::1")) == families


@one_by_one("error", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPERM])
@one_by_one("fails", ["socket", "bind"])
def test_a_host_without_ipv6_serves_ipv4(error: int, fails: str) -> None:
    class Socket(socket.socket):
        def __init__(
            self, family: int = -1, kind: int = -1, proto: int = -1, fileno: int | None = None
        ) -> None:
            if fails == "socket" and family == socket.AF_INET6:
                raise OSError(error, os.strerror(error))
            super().__init__(family, kind, proto, fileno)

        def bind(self, address: Any) -> None:
            if self.family == socket.AF_INET6:
                raise OSError(error, os.strerror(error))
            super().bind(address)

    with mock.patch("socket.socket", Socket), bound_socket("", 0) as listener:
        listener.listen()
        assert _answers(listener, "127.0.0.1")


def test_a_port_of_both_families_that_is_taken_is_named() -> None:
    with bound_socket("0.0.0.0", 0) as theirs:
        theirs.listen()
        port = theirs.getsockname()[1]
        with pytest.raises(OSError, match=rf"cannot listen on \*:{port}: Address already in use"):
            bound_socket("", port)


async def test_a_port_that_was_taken_while_the_tree_was_loading_is_named() -> None:
    # Both sockets are bound, as by two servers that start together: only listening fails.
    with bound_socket("127.0.0.1", 0) as ours:
        port = ours.getsockname()[1]
        with bound_socket("127.0.0.1", port) as theirs:
            theirs.listen()
            server = Server(_CONFIG, EtcdClient(FakeEtcd()), _WRITER)
            taken = rf"cannot listen on 127\.0\.0\.1:{port}: Address already in use"
            with pytest.raises(OSError, match=taken):
                await server.start(lambda _count: None, ours)
            await server.stop()


@pytest.mark.parametrize("slow_request", [0, 60_000])
async def test_a_connection_that_is_gone_is_freed_without_the_garbage_collector(slow_request: int) -> None:
    """The collector looks only at young objects: what is old and refers to itself would stay for ever."""
    async with serving(FakeEtcd(), slow_request=slow_request) as server:
        client = await Client.connected(server, timeout_ms=400)
        (connection,) = server.connections
        gone = weakref.ref(connection)
        del connection
        client.send(
            packet(1, create("/a")), packet(2, get("/a", watch=True)), packet(3, create("/e", mode=1))
        )
        for _ in range(3):
            await client.reply()
        gc.disable()
        try:
            await client.close()
            await until(lambda: gone() is None)
        finally:
            gc.enable()
