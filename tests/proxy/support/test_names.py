"""Connections to hosts that have names."""

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from lab.servers.process import REPOSITORY
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


_PROGRAM = """
import asyncio, os
import uvloop
from lab.servers.process import REPOSITORY
from proxy.support.names import Names

async def main():
    names = Names()
    hanging = [asyncio.ensure_future(names.connect(asyncio.Protocol, f"name-{n}", 1)) for n in range(6)]
    await asyncio.sleep(0)
    try:
        await names.connect(asyncio.Protocol, "localhost", 1)
    except ConnectionRefusedError:
        os._exit(7)  # at another end libuv would wait for its threads

uvloop.run(main())
"""


@pytest.mark.long
def test_names_that_hang_do_not_keep_others_from_being_looked_up(tmp_path: Path) -> None:
    """glibc reads the file of HOSTALIASES for each name without a dot: this pipe has no writer."""
    pipe = tmp_path / "aliases"
    os.mkfifo(pipe)
    environment = {"PYTHONPATH": str(REPOSITORY), "HOSTALIASES": str(pipe)}
    done = subprocess.run([sys.executable, "-c", _PROGRAM], env=environment, timeout=60, check=False)
    assert done.returncode == 7
