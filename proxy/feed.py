"""Loads the mirror from etcd and keeps it fed by one watch stream.

The asynchronous shell around `mirror`: first load, stream, and what to do when the stream breaks.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from proxy.etcd.interface import Etcd
from proxy.etcd.model import (
    Compare,
    EtcdError,
    EtcdRefused,
    Get,
    KeyValue,
    Put,
    RefusalKind,
    Txn,
    WatchCompacted,
)
from proxy.mirror import Mirror
from proxy.repeated import Repeated
from schema.fixed import FIXED_NODES
from schema.keys import Keyspace
from schema.values import TreeRecord, decode_tree, encode_tree

log = logging.getLogger(__name__)

_TIMEOUT = 10.0
_RETRY = 0.2  # seconds before a broken stream or load is tried again


class TreeNotServable(Exception):
    """What lies under the prefix cannot be served: a half-done load, or a schema of another version."""


class Feed:
    """Keeps a mirror level with etcd."""

    def __init__(self, etcd: Etcd, keys: Keyspace, mirror: Mirror) -> None:
        self._etcd = etcd
        self._keys = keys
        self._mirror = mirror
        self._can_resume = False
        self._trouble = Repeated(log)
        self.live = asyncio.Event()  # the stream is up, and the mirror level with etcd or about to be
        self.reloads = 0

    async def load(self, progress: Callable[[int], None]) -> None:
        """First load, retried until etcd answers. `progress` is told the number of keys now and then.

        Raises TreeNotServable, and EtcdRefused where etcd denies access.
        """
        while True:
            try:
                await self._prepare()
                revision, record = await self._record()
                self._mirror.load([record])
                count = 0
                told = time.monotonic()
                async for page in self._etcd.range_pages(self._keys.start, self._keys.end, revision):
                    self._mirror.load(page)
                    count += len(page)
                    if time.monotonic() - told > 1:
                        told = time.monotonic()
                        progress(count)
                    await asyncio.sleep(0)
            except EtcdError as error:
                if isinstance(error, EtcdRefused) and error.kind is not RefusalKind.COMPACTED:
                    raise
                self._trouble.warn("the load broke off (%s); trying again", error)
                self._mirror.unload()
                await asyncio.sleep(_RETRY)
                continue
            self._mirror.loaded(revision)
            return

    async def run(self) -> None:
        """Follow the watch stream for ever, repairing it when it breaks."""
        while True:
            try:
                await self._follow()
            except WatchCompacted:
                log.warning("revision %d is compacted; loading the tree again", self._mirror.revision)
                await self._reload()
            except EtcdError as error:
                self.live.clear()
                self._trouble.warn("the watch stream broke: %s", error)
                await asyncio.sleep(_RETRY)
                if not await self._may_resume():
                    await self._reload()

    async def _may_resume(self) -> bool:
        """Whether the stream can go on where it broke: not on an etcd restored from a backup (DESIGN 3)."""
        while True:
            try:
                cluster_id = await self._check_version()
                revision, _ = await self._record()
            except EtcdError as error:
                log.debug("etcd is still out of reach: %s", error)
                await asyncio.sleep(_RETRY)
                continue
            record = self._mirror.record
            same = record is not None and record.cluster_id == cluster_id
            return self._can_resume and same and revision >= self._mirror.revision

    async def _follow(self) -> None:
        keys = self._keys
        async for message in self._etcd.watch(keys.start, keys.end, self._mirror.revision + 1):
            if message.events:
                self._mirror.apply(message.events)
                if self._mirror.gone:
                    raise self._gone()
            self.live.set()

    async def _reload(self) -> None:
        """Range again and apply what differs: the stream may have missed events for good."""
        while True:
            try:
                await self._prepare()
                revision, record = await self._record()
                pairs: list[KeyValue] = [record]
                async for page in self._etcd.range_pages(self._keys.start, self._keys.end, revision):
                    pairs += page
            except EtcdError as error:
                self._trouble.warn("cannot load the tree again yet: %s", error)
                await asyncio.sleep(_RETRY)
                continue
            if revision < self._mirror.revision:
                log.error("etcd went back from revision %d to %d", self._mirror.revision, revision)
            self._mirror.replace(pairs, revision)
            self.reloads += 1
            return

    async def _check_version(self) -> int:
        """Learn whether this etcd may be trusted to resume a watch; returns the cluster id."""
        status = await self._etcd.status(_TIMEOUT)
        self._can_resume = _resumes_safely(status.version)
        return status.cluster_id

    def _gone(self) -> TreeNotServable:
        return TreeNotServable(f"the tree under {self._keys.prefix!r} is gone")

    async def _record(self) -> tuple[int, KeyValue]:
        """The revision to load, and the tree's own record as of it."""
        result = await self._etcd.range(Get(self._keys.tree), _TIMEOUT)
        if not result.kvs:
            raise self._gone()
        return result.revision, result.kvs[0]

    async def _prepare(self) -> None:
        """Make the tree's record and fixed nodes if there are none; judge whether it can be served."""
        cluster_id = await self._check_version()
        keys = self._keys
        # Looked for first, since an etcd that is full takes no Txn with a put.
        if not (await self._etcd.range(Get(keys.tree), _TIMEOUT)).kvs:
            record = TreeRecord(True, ((0, 0),), cluster_id)
            writes = [Put(keys.tree, encode_tree(record))]
            writes += [Put(keys.node(path), value) for path, value in FIXED_NODES.items()]
            answer = await self._etcd.txn(Txn((Compare(keys.tree, 0),), writes), _TIMEOUT)
            if answer.succeeded:
                log.info("made a new tree under %s", keys.prefix)
                return
        revision, pair = await self._record()
        found = decode_tree(pair.value)
        if not found.complete:
            raise TreeNotServable(f"the load of the tree under {keys.prefix!r} is not complete")
        if found.cluster_id != cluster_id or revision + found.offsets[-1][1] < self._mirror.zxid:
            await self._adopt(revision, pair, found, cluster_id)

    async def _adopt(self, revision: int, pair: KeyValue, found: TreeRecord, cluster_id: int) -> None:
        """The tree came here by a restore: go on with zxids above all that clients may have seen.

        A new epoch, as ZooKeeper's own after an election: the high 32 bits of the zxid move by one.
        """
        first = revision + 1
        epoch = (max(self._mirror.zxid, revision + found.offsets[-1][1]) >> 32) + 1
        offsets: Sequence[tuple[int, int]] = (*found.offsets, (first, (epoch << 32) - first))
        record = TreeRecord(True, tuple(offsets), cluster_id)
        await self._etcd.txn(
            Txn((Compare(self._keys.tree, pair.mod_revision),), (Put(self._keys.tree, encode_tree(record)),)),
            _TIMEOUT,
        )
        log.warning("etcd was restored from a backup; zxids go on in epoch %d", epoch)


def _resumes_safely(version: str) -> bool:
    """Whether a watch resumed on this etcd misses nothing: a delete just compacted was lost before these."""
    try:
        major, minor, patch = (int(part) for part in version.split("-")[0].split("+")[0].split("."))
    except ValueError:
        return False
    fixed = {(3, 4): 36, (3, 5): 18}
    return patch >= fixed.get((major, minor), 0) if (major, minor) >= (3, 4) else False
