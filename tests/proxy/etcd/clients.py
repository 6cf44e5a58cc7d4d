"""Clients of a real etcd, by each transport, and what tests ask of them."""

import contextlib
from collections.abc import AsyncIterator, Iterator

from lab.servers.waiting import eventually
from proxy.etcd.client import EtcdClient
from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdError, EtcdUnknown, Put, Txn, WatchMessage
from proxy.etcd.tls import Tls
from proxy.options.etcd import HTTP2

KEY = b"/k"
LONG = 30.0

# What `connected` uses.
_transports = [HTTP2]


@contextlib.contextmanager
def using(transport: str) -> Iterator[str]:
    """Clients reach etcd by this transport."""
    _transports.append(transport)
    yield transport
    _transports.pop()


def put(key: bytes = KEY, value: bytes = b"v") -> Txn:
    """A Txn of one put."""
    return Txn([], [Put(key, value)])


@contextlib.asynccontextmanager
async def connected(
    *endpoints: str, tls: Tls | None = None, user: str = "", password: str = "", password_file: str = ""
) -> AsyncIterator[EtcdClient]:
    """A client for one test."""
    client = EtcdClient(
        endpoints,
        tls=tls or Tls(),
        user=user,
        password=password,
        password_file=password_file,
        transport=_transports[-1],
    )
    try:
        yield client
    finally:
        await client.close()


async def try_until_it_works(client: Etcd, txn: Txn) -> int:
    """Repeat until etcd answers; returns the revision."""

    async def attempt() -> int:
        try:
            return (await client.txn(txn, 2.0)).revision
        except EtcdUnknown:
            return 0

    return await eventually(attempt, "etcd takes a Txn")


async def until_broken(watch: AsyncIterator[WatchMessage]) -> EtcdError:
    """The error that ends a watch."""
    try:
        async for _ in watch:
            pass
    except EtcdError as error:
        return error
    raise AssertionError("a watch ended without an error")
