"""Connections that come and go under a channel: a server that is away, silent, or not what it should be."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from unittest import mock

import grpc.aio
import pytest

from lab.servers import EtcdServer, free_port
from lab.servers.waiting import eventually
from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.grpc_channel import GrpcChannel
from proxy.etcd.http2 import Http2Channel
from proxy.etcd.tls import Tls
from proxy.etcd.transport import Channel, RpcError

RANGE = "/etcdserverpb.KV/Range"
REQUEST = pb.RangeRequest(key=b"/k").SerializeToString()


_kinds: list[type[Http2Channel] | type[GrpcChannel]] = [Http2Channel]


@pytest.fixture(autouse=True, params=[Http2Channel, GrpcChannel])
def kind(request: pytest.FixtureRequest) -> Iterator[type[Http2Channel] | type[GrpcChannel]]:
    """Each test runs on channels of each kind."""
    _kinds.append(request.param)
    yield request.param
    _kinds.pop()


@contextlib.asynccontextmanager
async def channel_to(port: int) -> AsyncIterator[Channel]:
    channel = _kinds[-1]("127.0.0.1", port)
    try:
        yield channel
    finally:
        await channel.close()


async def ask(channel: Channel, path: str, request: bytes, timeout: float) -> bytes:
    """One request; its answer. Raises RpcError."""
    answered: asyncio.Future[bytes | RpcError] = asyncio.get_running_loop().create_future()
    sent = channel.begin(path, request, timeout, (), answered.set_result)
    try:
        answer = await asyncio.shield(answered)
    finally:
        sent.cancel()
    if isinstance(answer, RpcError):
        raise answer
    return answer


async def asks(channel: Channel) -> bool:
    """Whether a request is answered."""
    try:
        await ask(channel, RANGE, REQUEST, 30.0)
    except RpcError:
        return False
    return True


async def test_each_call_that_fails_has_an_error_of_its_own() -> None:
    """One that is raised again gets a longer traceback each time, which keeps the requests of all of them."""
    async with channel_to(free_port()) as channel:
        errors: list[RpcError] = []
        for _ in range(3):
            with pytest.raises(RpcError) as raised:
                await channel.stream(RANGE)
            errors.append(raised.value)
        assert len({id(error) for error in errors}) == 3


async def test_an_etcd_that_comes_later_is_found() -> None:
    async with channel_to(free_port()) as channel:
        with pytest.raises(RpcError, match=r"connecting to 127\.0\.0\.1"):
            await ask(channel, RANGE, REQUEST, 2.0)
        with pytest.raises(RpcError, match="connecting to"):  # without an attempt of its own
            await channel.stream(RANGE)
        port = int(channel.address.rpartition(":")[2])

        reached = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            reached.append(await reader.read(10))
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", port):

            async def tried() -> bool:
                with pytest.raises(RpcError):
                    await ask(channel, RANGE, REQUEST, 2.0)
                return bool(reached)

            await eventually(tried, "the server is reached")


async def test_a_failure_without_a_message_is_named_by_its_kind() -> None:
    # As uvloop reports an etcd that is asked for TLS and does not have it.
    channel = Http2Channel("127.0.0.1", free_port())  # grpcio connects unasked
    loop = asyncio.get_running_loop()
    with (
        mock.patch.object(loop, "create_connection", side_effect=ConnectionResetError),
        pytest.raises(RpcError, match=r"connecting to 127\.0\.0\.1:\d+: ConnectionResetError"),
    ):
        await ask(channel, RANGE, REQUEST, 2.0)
    await channel.close()


@pytest.mark.real
async def test_a_request_as_large_as_etcd_takes(etcd_server: EtcdServer, etcd_prefix: str) -> None:
    key = f"{etcd_prefix}/big".encode()
    value = bytes(1_500_000)
    put = pb.RequestOp(request_put=pb.PutRequest(key=key, value=value))
    async with channel_to(etcd_server.port) as channel:
        request = pb.TxnRequest(success=[put]).SerializeToString()
        await asyncio.gather(*(ask(channel, "/etcdserverpb.KV/Txn", request, 20.0) for _ in range(4)))
        answer = await ask(channel, RANGE, pb.RangeRequest(key=key).SerializeToString(), 20.0)
        assert pb.RangeResponse.FromString(answer).kvs[0].value == value
        with pytest.raises(RpcError, match="larger than max"):
            await ask(channel, "/etcdserverpb.KV/Txn", request * 2, 20.0)
        assert await asks(channel)


async def test_an_unknown_method_is_a_refusal() -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with channel_to(port) as channel:
        with pytest.raises(RpcError, match="Method not found"):
            await ask(channel, "/no/Such", b"", 5.0)
    await server.stop(None)


@contextlib.asynccontextmanager
async def silent_server() -> AsyncIterator[int]:
    """The port of a server that takes connections and says nothing."""
    accepted: list[asyncio.StreamWriter] = []

    def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        for writer in accepted:
            writer.close()
        server.close()


async def test_callers_of_a_server_that_says_nothing() -> None:
    async with silent_server() as port, channel_to(port) as channel:
        loop = asyncio.get_running_loop()
        waiting, *cancelled = [loop.create_task(ask(channel, RANGE, REQUEST, 20.0)) for _ in range(3)]
        for task, seconds in zip(cancelled, (0, 0.1), strict=True):  # while it connects, and later
            await asyncio.sleep(seconds)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        with pytest.raises(RpcError, match="deadline exceeded"):
            await ask(channel, RANGE, REQUEST, 0.1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await ask(channel, RANGE, REQUEST, 20.0)
        await channel.close()
        with pytest.raises(RpcError):
            await waiting
        with pytest.raises(RpcError, match="closed"):
            await ask(channel, RANGE, REQUEST, 1.0)


@pytest.mark.parametrize("closes", [False, True])
async def test_a_request_that_ends_before_its_task_has_begun_is_answered(closes: bool) -> None:
    """Nobody was: a Txn in the turn before `close` waited for ever."""
    async with channel_to(free_port()) as channel:
        answers: list[bytes | RpcError] = []
        sent = channel.begin(RANGE, REQUEST, 20.0, (), answers.append)
        if closes:
            await channel.close()
        else:
            sent.cancel()

        async def answered() -> bool:
            return bool(answers)

        await eventually(answered, "an answer")
        await channel.close()
        assert [str(answer) for answer in answers] == ["cancelled"]


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_a_stream_that_is_opened_while_the_channel_closes_is_an_error(turns: int) -> None:
    """It was CancelledError, as if its caller had been cancelled, if the attempt to connect had not begun."""
    async with channel_to(free_port()) as channel:
        opening = asyncio.get_running_loop().create_task(channel.stream(RANGE))
        for _ in range(turns):
            await asyncio.sleep(0)
        await channel.close()
        with pytest.raises(RpcError):
            await opening


async def test_requests_under_way_have_failed_when_the_channel_is_closed() -> None:
    async with silent_server() as port, channel_to(port) as channel:
        if isinstance(channel, Http2Channel):
            await channel.stream(RANGE)  # so that it is connected, and the request needs no task
        answers: list[bytes | RpcError] = []
        channel.begin(RANGE, REQUEST, 20.0, (), answers.append)
        await asyncio.sleep(0)
        await channel.close()
        assert [type(answer) for answer in answers] == [RpcError]


@pytest.mark.real
async def test_a_stream_that_is_over_says_so(etcd_server: EtcdServer) -> None:
    async with channel_to(etcd_server.port) as channel:
        stream = await channel.stream("/no/Such")
        with pytest.raises(RpcError, match="unknown service"):
            await stream.listen(lambda _: pytest.fail("a message"))
        with pytest.raises(RpcError):
            stream.write(b"")
        watch = await channel.stream("/etcdserverpb.Watch/Watch")
        reading = asyncio.get_running_loop().create_task(watch.listen(lambda _: pytest.fail("a message")))
        await asyncio.sleep(0.05)
        watch.cancel()
        watch.cancel()
        with pytest.raises(RpcError, match="cancelled"):
            await reading
        assert await asks(channel)


async def test_an_etcd_without_tls_behind_an_https_url_is_named(
    kind: type[Http2Channel] | type[GrpcChannel],
) -> None:
    if kind is GrpcChannel:
        pytest.skip("grpcio hides why an attempt failed")

    async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    channel = Http2Channel("127.0.0.1", server.sockets[0].getsockname()[1], Tls())
    with pytest.raises(RpcError, match="Does this etcd use TLS"):
        await ask(channel, RANGE, REQUEST, 5.0)
    await channel.close()
    server.close()
