"""An etcd client whose requests wait while etcd is out of reach: for commands that run until stopped."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from pipeline.follow.output import print_progress
from proxy.etcd.interface import Etcd
from proxy.etcd.model import (
    EtcdNoSpace,
    EtcdRefused,
    EtcdUnknown,
    Get,
    RangeResult,
    RefusalKind,
    Status,
    Txn,
    TxnResult,
)

T = TypeVar("T")

RETRY = 0.5  # seconds between two tries of one request
_TELL_EVERY = 10.0  # seconds


def retrying(etcd: Etcd, name: str = "etcd") -> Etcd:
    """The same etcd client, but it repeats each read and Txn until etcd answers. `name`: for messages.

    So each Txn must be idempotent, or its second outcome must show the first one.
    """
    return cast("Etcd", _Retrying(etcd, name))


class _Retrying:
    """Reads, Txns, the status and new leases wait; all else is passed to the other client."""

    def __init__(self, etcd: Etcd, name: str) -> None:
        self._etcd = etcd
        self._name = name
        self._since: float | None = None  # when the outage was noticed
        self._told = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._etcd, name)

    async def txn(self, txn: Txn, timeout: float) -> TxnResult:
        return await self._answered(lambda: self._etcd.txn(txn, timeout))

    async def range(self, get: Get, timeout: float) -> RangeResult:
        return await self._answered(lambda: self._etcd.range(get, timeout))

    async def status(self, timeout: float) -> Status:
        return await self._answered(lambda: self._etcd.status(timeout))

    async def lease_grant(self, lease_id: int, ttl: int, timeout: float = 5.0) -> int:
        try:
            return await self._answered(lambda: self._etcd.lease_grant(lease_id, ttl, timeout))
        except EtcdRefused as error:
            if error.kind is RefusalKind.LEASE_EXISTS:  # the answer to an earlier try was lost
                return ttl
            raise

    async def _answered(self, request: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                answer = await request()
            except EtcdUnknown as error:
                self._print(error)
                await asyncio.sleep(RETRY)
                continue
            if self._since is not None:
                print_progress(f"{self._name} answers again, after {time.monotonic() - self._since:.0f} s")
                self._since = None
            return answer

    def _print(self, error: EtcdUnknown) -> None:
        now = time.monotonic()
        if self._since is None:
            self._since = now
        elif now - self._told < _TELL_EVERY:
            return
        self._told = now
        what = "full (docs/etcd.md)" if isinstance(error, EtcdNoSpace) else "out of reach"
        print_progress(f"{self._name} is {what}, trying again: {error}")
