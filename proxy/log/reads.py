"""Reads of etcd of which none is older than one before it.

etcd promises that of linearizable reads, but some versions answer with old data after a pause of a member
(its issue 20418). A load or a catch-up puts many answers together. If one of them is older than the others,
entries are missing from it, and the state would be wrong.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from proxy.etcd.interface import Reads
from proxy.etcd.model import EtcdUnknown, Get, RangeResult, Status, Txn, TxnResult

T = TypeVar("T", RangeResult, TxnResult)

_TRIES = 20
_PAUSE = 0.1  # seconds between two tries


class OldAnswers(EtcdUnknown):
    """etcd continued to answer with data that is older than what it has shown before."""


class MonotonicReads:
    """Reads of `etcd` that ask again when an answer is old. They raise OldAnswers if it stays so for 2 s."""

    def __init__(self, etcd: Reads, revision: int = 0) -> None:
        """`revision`: one that etcd has shown before."""
        self._etcd = etcd
        self._newest = revision

    async def txn(self, txn: Txn, timeout: float) -> TxnResult:
        """As `Etcd.txn`. A Txn that writes may be sent here too: etcd never answers it with old data."""
        return await self._ask(lambda: self._etcd.txn(txn, timeout))

    async def range(self, get: Get, timeout: float) -> RangeResult:
        """As `Etcd.range`."""
        return await self._ask(lambda: self._etcd.range(get, timeout))

    async def status(self, timeout: float = 5.0) -> Status:
        """As `Etcd.status`."""
        return await self._etcd.status(timeout)

    async def _ask(self, request: Callable[[], Awaitable[T]]) -> T:
        newest = self._newest
        answer = await request()
        for _ in range(_TRIES):
            if answer.revision >= newest:
                break
            await asyncio.sleep(_PAUSE)
            answer = await request()
        else:
            raise OldAnswers(
                f"its answers are of revision {answer.revision}, and it has shown revision {newest} before"
            )
        self._newest = max(self._newest, answer.revision)
        return answer
