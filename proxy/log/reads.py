"""Reads of an etcd as of one revision, and reads of which none is older than one before it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from proxy.etcd.interface import Reads
from proxy.etcd.model import EtcdRefused, EtcdUnknown, Get, RangeResult, RefusalKind, Status, Txn, TxnResult
from proxy.log.record import TreeNotServable

T = TypeVar("T", RangeResult, TxnResult)

_OLD_TRIES = 20  # after the first old answer
_OLD_PAUSE = 0.1  # seconds before each of them


class OldAnswers(EtcdUnknown):
    """etcd continued to answer with data that is older than what it has shown before."""


class ReadsAsOf:
    """Reads of `etcd` as it was at one revision. They raise Compacted once etcd no longer knows that."""

    def __init__(self, etcd: Reads, revision: int) -> None:
        self._etcd = etcd
        self._revision = revision

    async def txn(self, txn: Txn, timeout: float) -> TxnResult:
        """As `Etcd.txn`, for reads without compares."""
        gets = [op._replace(revision=self._revision) for op in txn.success if isinstance(op, Get)]
        assert len(gets) == len(txn.success)
        assert not txn.compares
        return await self._as_of(self._etcd.txn(Txn((), gets), timeout))

    async def range(self, get: Get, timeout: float) -> RangeResult:
        """As `Etcd.range`."""
        return await self._as_of(self._etcd.range(get._replace(revision=self._revision), timeout))

    async def status(self, timeout: float = 5.0) -> Status:
        """As `Etcd.status`."""
        return await self._etcd.status(timeout)

    async def _as_of(self, answer: Awaitable[T]) -> T:
        try:
            return (await answer)._replace(revision=self._revision)
        except EtcdRefused as error:
            if error.kind is RefusalKind.COMPACTED:
                raise Compacted(f"etcd has compacted revision {self._revision}") from error
            raise


class Compacted(TreeNotServable):
    """etcd no longer knows the revision as of which the tree was to be read."""


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
        tries_left = _OLD_TRIES
        while (answer := await request()).revision < newest:
            if not tries_left:
                old = answer.revision
                raise OldAnswers(
                    f"its answers are of revision {old}, and it has shown revision {newest} before"
                )
            tries_left -= 1
            await asyncio.sleep(_OLD_PAUSE)
        self._newest = max(self._newest, answer.revision)
        return answer
