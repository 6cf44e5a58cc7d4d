"""Waiting for etcd to come back, however long that takes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pipeline.follow.telling import tell
from proxy.etcd.model import EtcdUnknown

T = TypeVar("T")

RETRY = 0.5  # seconds


async def patiently(request: Callable[[], Awaitable[T]]) -> T:
    """Repeat a request that does no harm twice for as long as etcd is out of reach."""
    while True:
        try:
            return await request()
        except EtcdUnknown as error:
            tell(f"etcd is out of reach, trying again: {error}")
            await asyncio.sleep(RETRY)
