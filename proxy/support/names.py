"""Connections to hosts that have names, with one lookup of each name at a time.

A lookup runs in one of libuv's threads and cannot be cancelled: with a name server that does not answer it
takes up to half a minute. If each try to connect began another one, they would fill these threads, and names
that can be looked up would wait behind them.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import TypeVar

from proxy.support.addresses import is_address

_P = TypeVar("_P", bound=asyncio.Protocol)

# libuv takes half of its threads for lookups: two of four, by default. A cluster of etcd has five names, say.
os.environ.setdefault("UV_THREADPOOL_SIZE", "16")


class Names:
    """The lookups under way of one user."""

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Task[list[str]]] = {}

    async def connect(
        self,
        protocol: Callable[[], _P],
        host: str,
        port: int,
        *,
        context: ssl.SSLContext | None = None,
        server_name: str = "",
    ) -> tuple[asyncio.Transport, _P]:
        """As `loop.create_connection`: to the first address that takes the connection. Raises OSError.

        `server_name` is what the server's certificate has to be for, if not for the host.
        """
        loop = asyncio.get_running_loop()
        name = server_name or host if context is not None else None
        refused: OSError | None = None
        for address in await self._addresses(host):
            try:
                return await loop.create_connection(
                    protocol, address, port, ssl=context, server_hostname=name
                )
            except ssl.SSLError:
                raise
            except OSError as error:
                refused = error
        raise refused or OSError(f"{host} has no address")

    async def _addresses(self, host: str) -> list[str]:
        """A host's addresses. A caller that is cancelled leaves its lookup to the next one."""
        if is_address(host):
            return [host]
        loop = asyncio.get_running_loop()
        lookup = self._under_way.get(host)
        if lookup is None:
            lookup = self._under_way[host] = loop.create_task(_look_up(loop, host))
            lookup.add_done_callback(lambda done: self._done(host, done))
        await asyncio.wait((lookup,))
        return lookup.result()

    def _done(self, host: str, lookup: asyncio.Task[list[str]]) -> None:
        del self._under_way[host]
        if not lookup.cancelled():
            lookup.exception()  # looked at, even if no caller waits any more


async def _look_up(loop: asyncio.AbstractEventLoop, host: str) -> list[str]:
    found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
