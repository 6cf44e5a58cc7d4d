"""The load of a whole tree: begin (from here on unserved), write, finish (from here on served).

The tree's record is the fence. `begin` puts it with complete=false; every Txn of the load compares its
mod_revision; `finish` puts it with complete=true. So what a dead, stopped or repeated writer still sends can
apply only within its own load, where it is harmless: all puts of a load are the same whenever they are sent.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from typing import NamedTuple, TypeVar

from pipeline.etcd.limits import Limits, pack
from proxy.etcd.interface import Etcd
from proxy.etcd.model import (
    Compare,
    Delete,
    EtcdNoSpace,
    EtcdRefused,
    EtcdUnknown,
    Get,
    Put,
    RefusalKind,
    Txn,
    TxnResult,
)
from schema.fixed import FIXED_NODES
from schema.keys import Keyspace
from schema.paths import SPECIAL_PATHS
from schema.values import TreeRecord, decode_tree, encode_tree

T = TypeVar("T")

_TIMEOUT = 30.0  # seconds for one request
_PATIENCE = 60.0  # seconds for etcd to come back
_RETRY = 0.2  # seconds before a request of unknown outcome is sent again
_CLEARED_AT_ONCE = 100_000  # keys in one Txn that clears leftovers: each page costs etcd a walk over the rest
_LOWEST_OFFSET = ((0, 0),)
_DUPLICATE = "etcdserver: duplicate key given in txn request"
_MOST_EPOCHS = (1 << 31) - 1


class LoadRefused(Exception):
    """The load cannot begin or go on; the message says why and what helps. The target is not served by it."""


class Target(NamedTuple):
    """What lies under a prefix."""

    record: TreeRecord | None  # the tree's own record
    record_mod: int  # its mod_revision; 0: there is none
    keys: int
    nodes: int
    proxies: int  # that live, and serve the tree or are about to

    @property
    def is_empty(self) -> bool:
        """Nothing is here, or only what an unfinished load has left."""
        return (self.record is not None and not self.record.complete) or not self.keys


class Fence(NamedTuple):
    """A load that has begun. `revision` is the mod_revision of the tree's record, `cluster_id` etcd's."""

    revision: int
    cluster_id: int

    def guard(self, keys: Keyspace) -> Compare:
        """What every Txn of the load compares."""
        return Compare(keys.tree, self.revision)


async def look(etcd: Etcd, keys: Keyspace) -> Target:
    """What lies under the prefix now. Raises EtcdError, BadValue for a record of another version."""
    found = await insist(lambda: etcd.range(Get(keys.tree), _TIMEOUT))
    record = decode_tree(found.kvs[0].value) if found.kvs else None
    mod = found.kvs[0].mod_revision if found.kvs else 0
    return Target(
        record,
        mod,
        await count(etcd, keys.start, keys.end),
        await count(etcd, keys.nodes + b"/", keys.nodes + b"0"),
        await count(etcd, keys.proxies, keys.proxies[:-1] + b"0"),
    )


def refusal(target: Target, keys: Keyspace, *, overwrite: bool) -> str | None:
    """Why a load may not begin; None if it may."""
    if not target.is_empty and not overwrite:
        return (
            f"{keys.prefix!r} holds {target.keys} keys already, {target.nodes} of them znodes: take another"
            " prefix, or say that they may go (--overwrite)"
        )
    if target.proxies:
        return f"{keys.prefix!r} is served by {target.proxies} zketcd: stop them first (the dead count 15 s)"
    return None


async def count(etcd: Etcd, start: bytes, end: bytes, revision: int = 0) -> int:
    """The number of keys in [start, end)."""
    get = Get(start, end, revision, keys_only=True, limit=1)
    return (await insist(lambda: etcd.range(get, _TIMEOUT))).count


async def begin(
    etcd: Etcd, keys: Keyspace, *, overwrite: bool = False, progress: Callable[[str], None] | None = None
) -> Fence:
    """Take the prefix for a load, and clear it. From here on no server serves it, until `finish`.

    An unfinished load is taken over; another tree only with `overwrite`, and never one that is being served.
    Raises LoadRefused, EtcdError.
    """
    while True:
        target = await look(etcd, keys)
        reason = refusal(target, keys, overwrite=overwrite)
        if reason is not None:
            raise LoadRefused(reason)
        cluster_id = (await insist(lambda: etcd.status(_TIMEOUT))).cluster_id
        record = encode_tree(TreeRecord(False, _LOWEST_OFFSET, cluster_id))
        guards = (Compare(keys.tree, target.record_mod), _no_proxies(keys))
        try:
            taken = await etcd.txn(Txn(guards, (Put(keys.tree, record),)), _TIMEOUT)
        except EtcdNoSpace as error:
            raise _full() from error
        except EtcdUnknown:
            await asyncio.sleep(_RETRY)
            continue  # whatever became of it: what is there now is looked at, and taken over
        if taken.succeeded:
            fence = Fence(taken.revision, cluster_id)
            await _clear(etcd, keys, fence, progress)
            return fence


async def write(
    etcd: Etcd, keys: Keyspace, fence: Fence, puts: Iterable[Put], limits: Limits, in_flight: int = 4
) -> None:
    """Put all of `puts`, `in_flight` Txns at a time. May be repeated, in whole or in part.

    Raises LoadRefused if the load is no longer the one that began, or etcd cannot take a Txn.
    """
    free = asyncio.Semaphore(in_flight)

    async def send(txn: Txn) -> None:
        try:
            answer = await _send(etcd, txn)
        finally:
            free.release()
        if not answer.succeeded:
            raise _lost(keys)

    with first_error():
        async with asyncio.TaskGroup() as group:
            for txn in pack(puts, fence.guard(keys), limits):
                await free.acquire()
                group.create_task(send(txn))
                await asyncio.sleep(0)  # lets the request go before the next one is packed


async def check_count(etcd: Etcd, keys: Keyspace, nodes: int) -> None:
    """Raise LoadRefused unless exactly `nodes` znodes lie in etcd: a path that came twice, or never."""
    found = await count(etcd, keys.nodes + b"/", keys.nodes + b"0") + await count(etcd, keys.nodes, b"")
    if found != nodes:
        raise LoadRefused(
            f"{nodes} znodes were written but {found} are in etcd: a path came more than once. Not published"
        )


async def finish(etcd: Etcd, keys: Keyspace, fence: Fence, last_zxid: int) -> TreeRecord:
    """Publish the tree: the fixed nodes that it lacks, then its record. `last_zxid` is the old server's.

    Zxids go on in the epoch after that of `last_zxid`, as after an election. May be repeated. Raises
    LoadRefused.
    """
    for path in sorted(SPECIAL_PATHS):
        key = keys.node(path)
        absent = Txn((Compare(key, 0),), (Put(key, FIXED_NODES[path]),))
        answer = await _send(etcd, Txn((fence.guard(keys),), (absent,)))
        if not answer.succeeded:
            raise _lost(keys)
    offset = first_zxid(last_zxid) - fence.revision
    record = TreeRecord(True, ((0, offset),), fence.cluster_id)
    done = await _send(
        etcd, Txn((fence.guard(keys), _no_proxies(keys)), (Put(keys.tree, encode_tree(record)),))
    )
    # After an answer that was lost the second try finds the record changed, by the first.
    if not done.succeeded and (await look(etcd, keys)).record != record:
        raise _lost(keys)
    return record


def first_zxid(last_zxid: int) -> int:
    """The zxid at which an imported tree begins: a new epoch, above all that clients may have seen."""
    epoch = (last_zxid >> 32) + 1
    if not 0 < epoch < _MOST_EPOCHS:
        raise LoadRefused(f"there is no epoch of zxids above 0x{last_zxid:x}")
    return epoch << 32


async def insist(request: Callable[[], Awaitable[T]]) -> T:
    """Repeat a request that does no harm twice while its outcome is unknown, up to a minute."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE
    while True:
        try:
            return await request()
        except EtcdNoSpace as error:
            raise _full() from error
        except EtcdUnknown:
            if loop.time() > deadline:
                raise
            await asyncio.sleep(_RETRY)


async def _send(etcd: Etcd, txn: Txn) -> TxnResult:
    try:
        return await insist(lambda: etcd.txn(txn, _TIMEOUT))
    except EtcdRefused as refused:
        if refused.kind is RefusalKind.TOO_LARGE:
            raise LoadRefused(
                "etcd finds a request too large: give its --max-request-bytes by --max-request-bytes"
            ) from refused
        if refused.kind is RefusalKind.TOO_MANY_OPS:
            raise LoadRefused(
                "etcd finds a request too long: give its --max-txn-ops by --max-txn-ops"
            ) from refused
        if refused.message == _DUPLICATE:
            raise LoadRefused("a path came more than once. Not published") from refused
        raise


async def _clear(etcd: Etcd, keys: Keyspace, fence: Fence, progress: Callable[[str], None] | None) -> None:
    """Delete all but the tree's record, some at a time: one delete of millions would hold etcd up."""
    cleared = 0
    for start, end in ((keys.start, keys.tree), (keys.tree + b"\0", keys.end)):
        more = True
        while more:
            get = Get(start, end, keys_only=True, limit=_CLEARED_AT_ONCE)
            page = await insist(lambda get=get: etcd.range(get, _TIMEOUT))  # type: ignore[misc]
            more = page.more
            if not page.kvs:
                break
            after = page.kvs[-1].key + b"\0"
            delete = Delete(start, after)
            if not (await _send(etcd, Txn((fence.guard(keys),), (delete,)))).succeeded:
                raise _lost(keys)
            start = after
            cleared += len(page.kvs)
            if progress is not None:
                progress(f"cleared {cleared} keys of what was there before")


def _no_proxies(keys: Keyspace) -> Compare:
    return Compare(keys.proxies, 0, keys.proxies[:-1] + b"0")


def _lost(keys: Keyspace) -> LoadRefused:
    return LoadRefused(f"another load has taken {keys.prefix!r} over, or a zketcd was started on it")


def _full() -> LoadRefused:
    return LoadRefused(
        "etcd has no space left: raise its --quota-backend-bytes (1.5 times the bytes of keys and values),"
        " defragment it, clear its alarm, and run the import again"
    )


@contextlib.contextmanager
def first_error() -> Iterator[None]:
    """Raise the first error of a TaskGroup by itself: the others are of the same kind."""
    try:
        yield
    except BaseExceptionGroup as group:
        errors: Collection[BaseException] = group.exceptions
        raise next(iter(errors)) from None
