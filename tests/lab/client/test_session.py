"""The client on real ZooKeeper, and what it does when a server misbehaves."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from unittest.mock import ANY

import pytest

from codec import client as zk
from codec.constants import CreateMode, ErrorCode, EventType
from codec.jute import pack_buffer
from lab.client.meter import Meter
from lab.client.session import (
    Address,
    ConnectionLost,
    MultiFailed,
    Session,
    ZooKeeperError,
    connect,
)
from lab.servers import ZooKeeperServer
from lab.servers.ports import free_port

_LIMIT_S = 60.0
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
def address(zookeeper_server: ZooKeeperServer) -> Address:
    return Address("127.0.0.1", zookeeper_server.port)


async def test_nodes(address: Address) -> None:
    meter = Meter()
    session = await Session.open(address, meter=meter)
    path = await session.call(zk.create("/client-", b"data", CreateMode.EPHEMERAL_SEQUENTIAL))
    data, stat = await session.call(zk.get(path))
    assert (data, stat.ephemeral_owner) == (b"data", session.id)
    assert (await session.call(zk.set_data(path, b"new", 0))).version == 1
    assert path.removeprefix("/") in (await session.call(zk.children("/"))).names
    await session.call(zk.delete(path, 1))
    assert await session.call(zk.exists(path)) is None
    assert await session.call(zk.maybe(zk.get(path))) is None
    with pytest.raises(ZooKeeperError, match=f"GET_DATA {path}: NO_NODE") as refused:
        await session.call(zk.get(path))
    assert refused.value.code == ErrorCode.NO_NODE
    meter.stop()
    assert await session.call(zk.sync("/")) == "/"
    await session.close()
    counted = {"CREATE": 1, "GET_DATA": 3, "SET_DATA": 1, "GET_CHILDREN2": 1, "DELETE": 1, "EXISTS": 1}
    assert meter.requests == counted
    assert meter.latencies.total() == 8
    meter.restart()
    assert (meter.requests.total(), meter.latencies.total(), meter.events) == (0, 0, 0)


async def test_multis_and_requests_in_flight(address: Address) -> None:
    session = await Session.open(address)
    made = session.send(zk.multi([zk.create("/m", b""), zk.create("/m/n-", b"", CreateMode(2))]))
    read = session.send(zk.children("/m"))
    assert await made == ["/m", "/m/n-0000000000"]
    assert (await read).names == ["n-0000000000"]
    with pytest.raises(MultiFailed, match="part 1 of a MULTI: NODE_EXISTS") as failed:
        await session.multi(zk.check("/m"), zk.create("/m"), zk.delete("/m"))
    assert failed.value.failed == 1
    assert failed.value.codes == [0, ErrorCode.NODE_EXISTS, ErrorCode.RUNTIME_INCONSISTENCY]
    assert await session.multi(zk.delete("/m/n-0000000000"), zk.delete("/m")) == [None, None]
    assert await session.multi() == []
    await session.close()


async def test_watches(address: Address) -> None:
    async with asyncio.timeout(_LIMIT_S):
        session, other = await Session.open(address), await Session.open(address)
        nothing, coming = await session.watched(zk.exists("/w"))
        _, of_root = await session.watched(zk.children("/"))
        assert nothing is None
        assert not coming.fired
        assert not await coming.wait(0.0)
        await other.call(zk.create("/w"))
        assert await coming.wait()
        assert coming.event == zk.Event(EventType.NODE_CREATED, "/w", ANY)
        assert await of_root.wait()
        assert of_root.event == zk.Event(EventType.NODE_CHILDREN_CHANGED, "/", ANY)
        _, changing = await session.watched(zk.get("/w"))
        _, children = await session.watched(zk.children("/w"))
        await other.call(zk.set_data("/w", b"new"))
        assert await changing.wait()
        assert not children.fired
        await other.call(zk.delete("/w"))
        assert await children.wait()
        assert children.event == zk.Event(EventType.NODE_DELETED, "/w", ANY)
        # ZooKeeper sets none for a read that fails, so a task that waited would wait for ever.
        missing, none_set = await session.watched(zk.maybe(zk.get("/w")))
        assert missing is None
        assert none_set.fired
        _, lost = await session.watched(zk.exists("/w"))
        session.drop()
        assert await lost.wait()
        assert lost.event is None
        await other.close()


async def test_a_dropped_session_answers_nothing_more(address: Address) -> None:
    session = await Session.open(address)
    waiting = session.send(zk.get("/"))
    session.drop()
    for call in (waiting, session.call(zk.get("/"))):
        with pytest.raises(ConnectionLost, match="dropped"):
            await call
    await session.close()


async def test_pings_keep_an_idle_session(address: Address) -> None:
    session = await Session.open(address, timeout_ms=3000)
    assert session.timeout_ms == 3000
    await asyncio.sleep(4.5)
    await session.call(zk.get("/"))
    await session.close()


async def test_connect_takes_the_first_server_that_answers(address: Address) -> None:
    nobody = Address("127.0.0.1", free_port())
    session = await connect([nobody, address], 0)
    assert session.address == address
    await session.close()
    with pytest.raises(ConnectionLost, match=f"no session at {nobody}: "):
        await connect([nobody], timeout_s=0.0)


@asynccontextmanager
async def _server(serve: Serve) -> AsyncIterator[Address]:
    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    async with server:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])


def _greeting(timeout_ms: int) -> bytes:
    return pack_buffer(bytes(4) + timeout_ms.to_bytes(4) + (7).to_bytes(8) + pack_buffer(bytes(16)) + b"\0")


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(_greeting(400))
    while await reader.read(1000):
        pass


async def test_a_server_that_falls_silent_or_never_greets_is_given_up() -> None:
    async with asyncio.timeout(_LIMIT_S), _server(_silent) as address:
        idle = await Session.open(address)
        await idle.lost.wait()
        with pytest.raises(ConnectionLost, match="was silent for a session's timeout"):
            await idle.call(zk.get("/"))
        asking = await Session.open(address)
        asking._operation_timeout_s = 0.05  # from here on: a busy machine needs longer to open a session
        with pytest.raises(ConnectionLost, match=r"did not answer in 0\.05 s"):
            await asking.call(zk.get("/"))
    async with asyncio.timeout(_LIMIT_S), _server(_deaf) as address:
        with pytest.raises(ConnectionLost, match=r"did not answer in 0\.05 s"):
            await Session.open(address, operation_timeout_s=0.05)
        with pytest.raises(TimeoutError):  # cancelled: no connection stays open, which would be a warning
            await asyncio.wait_for(Session.open(address), 0.05)


async def _deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (pack_buffer((99).to_bytes(4) + bytes(12)), "a reply with xid 99 answers nothing"),
        (pack_buffer(bytes(3)), "a reply of 3 bytes"),
        (pack_buffer((1).to_bytes(4) + bytes(12)), "malformed"),
    ],
)
async def test_a_server_that_sends_nonsense_is_given_up(reply: bytes, reason: str) -> None:
    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.write(_greeting(60_000))
        await reader.readuntil(b"/a")
        writer.write(reply)
        await reader.read()

    async with asyncio.timeout(_LIMIT_S), _server(nonsense) as address:
        session = await Session.open(address)
        with pytest.raises(ConnectionLost, match=reason):
            await session.call(zk.get("/a"))
