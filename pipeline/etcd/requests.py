"""Requests to etcd that are sent again until their outcome is known, and the messages of failures."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from pipeline.errors import Failure
from proxy.etcd.interface import Etcd
from proxy.etcd.model import (
    EtcdNoSpace,
    EtcdRefused,
    EtcdUnknown,
    Get,
    RangeResult,
    RefusalKind,
    Txn,
    TxnResult,
)

P = ParamSpec("P")
T = TypeVar("T")

TIMEOUT = 60.0  # seconds for one request
_LONGEST_OUTAGE = 60.0  # seconds for etcd to come back
RETRY = 0.2  # seconds before a request of unknown outcome is sent again


class LoadRefused(Failure):
    """The load cannot begin or continue; the message says why and what to do. No proxy serves the target."""


async def until_known_or_full(request: Callable[P, Awaitable[T]], *arguments: P.args, **named: P.kwargs) -> T:
    """As `until_known` of `proxy.etcd.repeating`, but for up to a minute: an import takes hours.

    Raises EtcdError, and LoadRefused if etcd has no space left.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _LONGEST_OUTAGE
    while True:
        try:
            return await request(*arguments, **named)
        except EtcdNoSpace as error:
            raise no_space() from error
        except EtcdUnknown:
            if loop.time() > deadline:
                raise
            await asyncio.sleep(RETRY)


async def commit(etcd: Etcd, txn: Txn) -> TxnResult:
    """Commit an idempotent Txn of a load. Raises EtcdError, LoadRefused."""
    try:
        return await until_known_or_full(etcd.txn, txn, TIMEOUT)
    except EtcdRefused as refused:
        if refused.kind is RefusalKind.TOO_LARGE:
            raise LoadRefused(
                "etcd refuses a request as too large: give the value of its --max-request-bytes with"
                " the option --max-request-bytes"
            ) from refused
        if refused.kind is RefusalKind.TOO_MANY_OPS:
            raise LoadRefused(
                "etcd refuses a request with too many operations: give the value of its --max-txn-ops"
                " with the option --max-txn-ops"
            ) from refused
        raise


async def read(etcd: Etcd, get: Get) -> RangeResult:
    """The answer to a read. Raises EtcdError."""
    return await until_known_or_full(etcd.range, get, TIMEOUT)


async def count(etcd: Etcd, start: bytes, end: bytes, revision: int = 0) -> int:
    """The number of keys in [start, end)."""
    get = Get(start, end, revision, keys_only=True, limit=1)
    return (await read(etcd, get)).count


def no_space() -> LoadRefused:
    """The error if etcd's quota is used up."""
    return LoadRefused(
        "etcd has no space left: raise its --quota-backend-bytes (docs/migration.md has the sizes), compact"
        " and defragment it, disarm its alarm, and run the import again"
    )
