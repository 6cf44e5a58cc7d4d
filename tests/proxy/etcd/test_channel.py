"""Connections that come and go under a channel: a server that is away, silent, or not what it should be."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.channel import Channel
from proxy.etcd.http2 import RpcError
from tests.harness import EtcdServer, free_port
from tests.harness.waiting import eventually

RANGE = "/etcdserverpb.KV/Range"
REQUEST = pb.RangeRequest(key=b"/k").SerializeToString()


@contextlib.asynccontextmanager
async def channel_to(port: int) -> AsyncIterator[Channel]:
    channel = Channel("127.0.0.1", port)
    try:
        yield channel
    finally:
        await channel.close()


async def asks(channel: Channel) -> bool:
    """Whether a request is answered."""
    try:
        await channel.unary(RANGE, REQUEST, 2.0)
    except RpcError:
        return False
    return True


async def test_an_etcd_that_comes_later_is_found() -> None:
    async with channel_to(free_port()) as channel:
        with pytest.raises(RpcError, match=r"connecting to 127\.0\.0\.1"):
            await channel.unary(RANGE, REQUEST, 2.0)
        with pytest.raises(RpcError, match="connecting to"):  # without an attempt of its own
            await channel.stream(RANGE)
        port = int(channel.address.rpartition(":")[2])

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(10)
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", port):

            async def closed_by_the_peer() -> bool:
                try:
                    await channel.unary(RANGE, REQUEST, 2.0)
                except RpcError as error:
                    return "closed by the peer" in error.details or "reset" in error.details
                return False

            await eventually(closed_by_the_peer, "the server is reached")


async def test_a_server_that_says_nothing() -> None:
    silent: list[asyncio.StreamWriter] = []

    def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        silent.append(writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with channel_to(port) as channel:
        with pytest.raises(RpcError, match="deadline exceeded"):
            await channel.unary(RANGE, REQUEST, 0.1)
    for writer in silent:
        writer.close()
    server.close()


async def test_a_closed_channel_says_so() -> None:
    async with channel_to(free_port()) as channel:
        pass
    with pytest.raises(RpcError, match="closed"):
        await channel.unary(RANGE, REQUEST, 1.0)


@pytest.mark.real
async def test_calls_at_once_share_one_connection(etcd_server: EtcdServer) -> None:
    async with channel_to(etcd_server.port) as channel:
        answers = await asyncio.gather(*(channel.unary(RANGE, REQUEST, 5.0) for _ in range(50)))
        assert all(pb.RangeResponse.FromString(answer).header.cluster_id for answer in answers)
        assert await asks(channel)


@pytest.mark.real
async def test_a_request_as_large_as_etcd_takes(etcd_server: EtcdServer, etcd_prefix: str) -> None:
    key = f"{etcd_prefix}/big".encode()
    value = bytes(1_500_000)
    put = pb.RequestOp(request_put=pb.PutRequest(key=key, value=value))
    async with channel_to(etcd_server.port) as channel:
        request = pb.TxnRequest(success=[put]).SerializeToString()
        await asyncio.gather(*(channel.unary("/etcdserverpb.KV/Txn", request, 20.0) for _ in range(4)))
        answer = await channel.unary(RANGE, pb.RangeRequest(key=key).SerializeToString(), 20.0)
        assert pb.RangeResponse.FromString(answer).kvs[0].value == value
        with pytest.raises(RpcError, match="larger than max"):
            await channel.unary("/etcdserverpb.KV/Txn", request * 2, 20.0)
        assert await asks(channel)


@pytest.mark.real
async def test_an_unknown_method_is_a_refusal(etcd_server: EtcdServer) -> None:
    async with channel_to(etcd_server.port) as channel:
        with pytest.raises(RpcError, match="unknown service"):
            await channel.unary("/no/Such", b"", 5.0)
        assert await asks(channel)
