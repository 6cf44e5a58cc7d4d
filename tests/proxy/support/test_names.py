"""Connections to hosts that have names."""

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any
from unittest import mock

import pytest

from proxy.support.names import Names


class Resolver:
    """What the loop asks."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer = asyncio.get_running_loop().create_future()

    async def getaddrinfo(self, host: str, *_: Any, **__: Any) -> Any:
        self.asked.append(host)
        return await self.answer


@pytest.fixture
async def resolver() -> AsyncIterator[Resolver]:
    resolver = Resolver()
    with mock.patch.object(asyncio.get_running_loop(), "getaddrinfo", resolver.getaddrinfo):
        yield resolver


async def _given_up(names: Names) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await names.connect(asyncio.Protocol, "etcd-1", 1)


async def test_a_name_that_hangs_is_looked_up_once(resolver: Resolver) -> None:
    names = Names()
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    for _ in range(3):
        await _given_up(names)
    assert resolver.asked == ["etcd-1"]
    # Nothing listens at the first address.
    resolver.answer.set_result([(0, 0, 0, "", (address, 0)) for address in ("127.0.0.2", "127.0.0.1")])
    transport, _ = await names.connect(asyncio.Protocol, "etcd-1", port)
    assert transport.get_extra_info("peername") == ("127.0.0.1", port)
    transport.close()
    assert resolver.asked == ["etcd-1"]
    with pytest.raises(ConnectionRefusedError):
        await names.connect(asyncio.Protocol, "etcd-2", 1)
    assert resolver.asked == ["etcd-1", "etcd-2"]
    server.close()


async def test_an_address_is_not_looked_up(resolver: Resolver) -> None:
    with pytest.raises(ConnectionRefusedError):
        await Names().connect(asyncio.Protocol, "127.0.0.1", 1)
    assert not resolver.asked


async def test_a_lookup_that_fails_when_nobody_waits_is_not_an_error(
    resolver: Resolver, caplog: pytest.LogCaptureFixture
) -> None:
    await _given_up(Names())
    resolver.answer.set_exception(OSError("Name or service not known"))
    await asyncio.sleep(0.01)
    gc.collect()
    assert "never retrieved" not in caplog.text
