"""A kazoo client that is connected while its context is open."""

from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient

from lab.servers.process import ServerProcess

_CONNECT_WITHIN_S = 60


@contextmanager
def kazoo(*servers: ServerProcess | str, **options: object) -> Iterator[KazooClient]:
    """A client of one of the servers, which are given themselves or by their addresses.

    `options` are KazooClient's. Raises KazooTimeoutError if no server takes the client.
    """
    addresses = (server if isinstance(server, str) else server.address for server in servers)
    client = KazooClient(",".join(addresses), **options)
    try:
        client.start(_CONNECT_WITHIN_S)
        yield client
    finally:
        client.stop()
        client.close()
