"""A watch as an iterator, for tests that wait for one message after another."""

import asyncio
from collections.abc import AsyncGenerator

from proxy.etcd.interface import Etcd
from proxy.etcd.model import WatchMessage


async def watching(
    client: Etcd, start: bytes, end: bytes, from_revision: int
) -> AsyncGenerator[WatchMessage, None]:
    """The messages of `client.watch`; raises what ends it. To be closed by `aclose`."""
    messages: asyncio.Queue[WatchMessage | Exception] = asyncio.Queue()

    async def follow() -> None:
        try:
            await client.watch(start, end, from_revision, messages.put_nowait)
        except Exception as error:  # noqa: BLE001 - the reader's to raise
            messages.put_nowait(error)

    following = asyncio.get_running_loop().create_task(follow())
    try:
        while True:
            message = await messages.get()
            if isinstance(message, Exception):
                raise message
            yield message
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
