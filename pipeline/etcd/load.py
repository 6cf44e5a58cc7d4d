"""The load of a whole tree: begin (unserved from here on), write, close the writes, finish (served).

docs/decisions/0012 has the protocol. The tree's record is the fence: every Txn of the load compares its
mod_revision. So a Txn that a dead, stopped or repeated writer still sends fails, or its pages are deleted
before the tree is published.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import NamedTuple

from pipeline.etcd.limits import Limits
from pipeline.etcd.requests import (
    RETRY,
    TIMEOUT,
    LoadRefused,
    commit,
    count,
    no_space,
    read,
    until_known_or_full,
)
from pipeline.etcd.seen import last_zxid
from proxy.etcd.interface import Etcd
from proxy.etcd.model import Compare, Delete, EtcdNoSpace, EtcdUnknown, Get, Put, RangeResult, Txn, TxnResult
from proxy.log.slices import each_in_slices
from proxy.state.level import OF_NEW_TREES
from proxy.state.pause import Pause
from schema.keys import Keyspace, snapshot_name
from schema.record import SnapshotRef, TreeRecord, decode_record, encode_record, is_incomplete_with_pages

_CLEARED_AT_ONCE = 10_000  # keys in one Txn that clears leftovers: a larger one delays other requests


class Target(NamedTuple):
    """What is stored under a prefix."""

    record: TreeRecord | None  # the tree's own; None: there is none
    record_mod: int  # its mod_revision; 0: there is none
    revision: int  # etcd's revision at which it was read
    keys: int  # of the tree
    proxies: int  # that are alive, and serve the tree or are about to
    follows: bool = False  # the tree follows another one, so it is not complete

    @property
    def is_empty(self) -> bool:
        """Whether no tree is stored, or only what an unfinished load has left."""
        record = self.record
        unfinished = record and not record.complete and record.seal is None and not self.follows
        return bool(unfinished) or not self.keys

    @property
    def nodes(self) -> int:
        """Znodes of the tree as of its last snapshot."""
        current = None if self.record is None else self.record.current
        return 0 if current is None else current.nodes


class Load(NamedTuple):
    """A load that has begun."""

    revision: int  # mod_revision of the tree's record: what every Txn of the load compares
    cluster_id: int  # etcd's
    position: int
    writer: str  # names this load, as an incarnation names a proxy
    zxid: int = 0  # the highest one that clients may have seen of the former tree

    @property
    def name(self) -> str:
        """The name of the snapshot that the load writes."""
        return snapshot_name(self.position, self.writer)

    def guard(self, keys: Keyspace) -> Compare:
        """The comparison in every Txn of the load."""
        return Compare(keys.tree, self.revision)

    def counter(self, keys: Keyspace) -> bytes:
        """The key that says how many numbers of pages are taken."""
        return keys.snapshot(self.name)[0] + b"next"


async def target_of(etcd: Etcd, keys: Keyspace) -> Target:
    """What is stored under the prefix now. Raises EtcdError, BadValue for a damaged record."""
    found = await read(etcd, Get(keys.tree))
    record = decode_record(found.kvs[0].value) if found.kvs else None
    return Target(
        record,
        found.kvs[0].mod_revision if found.kvs else 0,
        found.revision,
        sum([await count(etcd, *each) for each in keys.ranges]),
        await count(etcd, keys.proxies, keys.proxies_end),
        is_incomplete_with_pages(record) and bool(await count(etcd, keys.follows, keys.follows + b"\0")),
    )


def refusal(target: Target, keys: Keyspace, *, overwrite: bool) -> str | None:
    """Why a load may not begin; None if it may."""
    prefix = keys.prefix.decode()
    if target.proxies and target.record is not None and target.record.current is None:
        return (
            f"{prefix} is served by {target.proxies} zketcd: is it the right prefix, on the right host? Only"
            " if nobody needs this tree, stop them, and have it deleted (--overwrite)"
        )
    if not target.is_empty and not overwrite:
        what = "no tree's record"
        if target.record is not None:
            kind = " that follows another one" if target.follows else ""
            if (seal := target.record.seal) is not None:
                kind = f" that was moved to the prefix {seal.prefix} of the etcd at {seal.etcd}"
            nodes = f", of {target.nodes} znodes at its last snapshot" if target.record.current else ""
            what = f"a tree{kind}{nodes}"
        return (
            f"{prefix} holds {target.keys} keys already: {what}. Choose another prefix, or have them deleted"
            " (--overwrite)"
        )
    if target.proxies:
        return (
            f"{prefix} is served by {target.proxies} zketcd: stop them first (one that was killed counts"
            " until its lease ends, 5 s by default)"
        )
    return None


class Intent(NamedTuple):
    """A load that several processes begin together: the first one takes the prefix, the others join it."""

    writer: str
    record_mod: int  # of the tree's record when the load was planned: another load may begin in between
    overwrite: bool


async def intend(etcd: Etcd, keys: Keyspace, *, overwrite: bool = False) -> Intent:
    """Plan a load; nothing is written. Raises LoadRefused if it may not begin, EtcdError."""
    target = await target_of(etcd, keys)
    reason = refusal(target, keys, overwrite=overwrite)
    if reason is not None:
        raise LoadRefused(reason)
    return Intent("load" + secrets.token_hex(8), target.record_mod, overwrite)


async def begin(
    etcd: Etcd,
    keys: Keyspace,
    *,
    overwrite: bool = False,
    progress: Callable[[str], None] | None = None,
    intent: Intent | None = None,
) -> Load:
    """Take the prefix for a load, and clear it. From here on no proxy serves it, until `finish`.

    An unfinished load is taken over; another tree only with `overwrite`, and never one that is being served.
    With an `intent` whose load has begun, join that one. Raises LoadRefused, EtcdError.
    """
    writer = "load" + secrets.token_hex(8) if intent is None else intent.writer
    overwrite = overwrite or (intent is not None and intent.overwrite)
    tried = False
    while True:
        target = await target_of(etcd, keys)
        if _is_open(target.record, writer):  # another process has begun it, or the answer to our Txn was lost
            assert target.record is not None
            assert target.record.current is not None
            position = target.record.current.position
            before = target.record.current.zxid
            load = Load(target.record_mod, target.record.cluster_id, position, writer, before)
            if tried:
                await clear(etcd, keys, load, progress)
            return load
        if intent is not None and target.record_mod != intent.record_mod:
            raise lost(keys)
        reason = refusal(target, keys, overwrite=overwrite)
        if reason is not None:
            raise LoadRefused(reason)
        cluster_id = (await until_known_or_full(etcd.status, TIMEOUT)).cluster_id
        seen = await last_zxid(etcd, keys, target.record)
        load = Load(0, cluster_id, target.revision, writer, seen)
        guards = (Compare(keys.tree, target.record_mod), _no_proxies(keys))
        tried = True
        try:
            taken = await etcd.txn(Txn(guards, (Put(keys.tree, _incomplete(load)),)), TIMEOUT)
        except EtcdNoSpace as error:
            raise no_space() from error
        except EtcdUnknown:
            await asyncio.sleep(RETRY)
            continue
        if taken.succeeded:
            load = load._replace(revision=taken.revision)
            await clear(etcd, keys, load, progress)
            return load


async def close_writes(etcd: Etcd, keys: Keyspace, load: Load) -> Load:
    """Exclude all tasks: their writes fail from now on. Returns the load under its new fence.

    Raises LoadRefused if the load is no longer the one that began.
    """
    put = Txn((load.guard(keys), _no_proxies(keys)), (Put(keys.tree, _incomplete(load, closed=True)),))
    done = await commit(etcd, put)
    if done.succeeded:
        return load._replace(revision=done.revision)
    # After an answer that was lost, the second try finds the record changed.
    target = await target_of(etcd, keys)
    if target.proxies or not _is_of(target.record, load.writer) or target.record_mod <= load.revision:
        raise lost(keys)
    return load._replace(revision=target.record_mod)


async def close_gaps(etcd: Etcd, keys: Keyspace, load: Load, numbers: Iterable[int]) -> int:
    """Number the valid pages from 0 on without a gap, and delete all others. Returns how many there are.

    Failed tasks leave invalid pages and unused numbers. The last pages are moved to these numbers. Call it
    only under a fence that no task knows. Raises LoadRefused.
    """
    kept = set(numbers)
    pages = len(kept)
    there: set[int] = set()
    first, end = keys.node_page(load.name, 0), keys.node_page(load.name, 10**8 - 1)
    async for page in keys_of(etcd, first, end):
        there.update(int(key.rpartition(b"/")[2]) for key in page)
    if kept - there:
        raise LoadRefused(f"{len(kept - there)} pages that were written are not in etcd. Not published")
    for gap, last in zip(
        sorted(set(range(pages)) - kept), sorted(number for number in kept if number >= pages), strict=True
    ):
        source = keys.node_page(load.name, last)
        found = await read(etcd, Get(source))
        await guarded(etcd, keys, load, [Put(keys.node_page(load.name, gap), found.kvs[0].value)])
    await guarded(etcd, keys, load, [Delete(keys.node_page(load.name, pages), end)])
    await guarded(etcd, keys, load, [Delete(load.counter(keys))])
    return pages


async def finish(etcd: Etcd, keys: Keyspace, load: Load, ref: SnapshotRef) -> TreeRecord:
    """Publish the tree: put its record. May be repeated. Raises LoadRefused."""
    expected = ref.node_pages + ref.session_pages + 1
    found = await count(etcd, *keys.snapshot(load.name))
    if found != expected:
        raise LoadRefused(f"{expected} pages were written, but {found} are in etcd. Not published")
    record = TreeRecord(True, load.cluster_id, OF_NEW_TREES, ref, None)
    guards = (load.guard(keys), _no_proxies(keys))
    done = await commit(etcd, Txn(guards, (Put(keys.tree, encode_record(record)),)))
    # If the answer was lost, the second try finds the record changed by the first.
    if not done.succeeded and (await target_of(etcd, keys)).record != record:
        raise lost(keys)
    return record


async def put(
    etcd: Etcd, keys: Keyspace, load: Load, puts: Callable[[Pause], Iterable[Put]], limits: Limits
) -> None:
    """Put pages under the load's fence. May be repeated. Raises LoadRefused.

    `puts` makes them, and calls its argument to let other work run.
    """
    async for group in each_in_slices(lambda pause: limits.groups(puts(pause), load.guard(keys))):
        await guarded(etcd, keys, load, group)


async def guarded(etcd: Etcd, keys: Keyspace, load: Load, ops: Sequence[Put | Delete]) -> None:
    """Commit idempotent operations under the load's fence. Raises LoadRefused."""
    if not (await commit(etcd, Txn((load.guard(keys),), ops))).succeeded:
        raise lost(keys)


async def take_numbers(etcd: Etcd, keys: Keyspace, load: Load, pages: int) -> int:
    """The first of `pages` numbers that no other task gets. Raises LoadRefused.

    A lost answer leaves unused numbers, which `close_gaps` fills.
    """
    counter = load.counter(keys)
    taken, revision = 0, 0
    while True:
        answer = await commit(
            etcd,
            Txn(
                (load.guard(keys), Compare(counter, revision)),
                (Put(counter, b"%d" % (taken + pages)),),
                (Get(counter), Get(keys.tree, keys_only=True)),
            ),
        )
        if answer.succeeded:
            return taken
        taken, revision = _other(answer, keys, load)


def _other(answer: TxnResult, keys: Keyspace, load: Load) -> tuple[int, int]:
    """How many numbers are taken, after another task took some. Raises LoadRefused if the fence has moved."""
    counter, record = answer.responses
    assert isinstance(counter, RangeResult)
    assert isinstance(record, RangeResult)
    if not record.kvs or record.kvs[0].mod_revision != load.revision:
        raise lost(keys)
    if not counter.kvs:
        return 0, 0
    return int(counter.kvs[0].value), counter.kvs[0].mod_revision


async def clear(
    etcd: Etcd, keys: Keyspace, load: Load, progress: Callable[[str], None] | None = None
) -> None:
    """Delete what a tree has. Kept are its record, the load's own pages, and what the proxies of a copy's
    source were promised: the next follower may be another one's, and they still count on it.

    Nothing else under the prefix: another tree may have its prefix there. Some keys at a time: one delete of
    millions would block etcd. Raises LoadRefused.
    """
    cleared = 0
    own, own_end = keys.snapshot(load.name)
    whole = [each for each in keys.ranges if each[0] not in (keys.tree, keys.within, keys.snapshots)]
    for start, end in (*whole, (keys.snapshots, own), (own_end, keys.snapshots_end)):
        first = start
        async for page in keys_of(etcd, start, end):
            await guarded(etcd, keys, load, [Delete(first, page[-1] + b"\0")])
            first = page[-1] + b"\0"
            cleared += len(page)
            if progress is not None:
                progress(f"cleared {cleared} keys of what was there before")


async def keys_of(etcd: Etcd, start: bytes, end: bytes) -> AsyncIterator[list[bytes]]:
    """The keys in [start, end), page by page."""
    more = True
    while more:
        get = Get(start, end, keys_only=True, limit=_CLEARED_AT_ONCE)
        page = await read(etcd, get)
        more = page.more
        if page.kvs:
            yield [pair.key for pair in page.kvs]
            start = page.kvs[-1].key + b"\0"


def _incomplete(load: Load, *, closed: bool = False) -> bytes:
    """The record of a tree that is being loaded. Its snapshot, without pages, names the load.

    It keeps the zxid of the tree that was here before, for a load that takes this one over. The digest of an
    empty snapshot says whether its writes are closed.
    """
    nothing = SnapshotRef(load.name, load.position, load.writer, 0, 0, 0, 0, 0, load.zxid, int(closed))
    return encode_record(TreeRecord(False, load.cluster_id, OF_NEW_TREES, nothing, None))


def _is_of(record: TreeRecord | None, writer: str) -> bool:
    return (
        record is not None
        and not record.complete
        and record.current is not None
        and record.current.writer == writer
    )


def _is_open(record: TreeRecord | None, writer: str) -> bool:
    """Whether tasks of this load may still write."""
    return (
        _is_of(record, writer)
        and record is not None
        and record.current is not None
        and not record.current.digest
    )


def _no_proxies(keys: Keyspace) -> Compare:
    return Compare(keys.proxies, 0, keys.proxies_end)


def lost(keys: Keyspace) -> LoadRefused:
    """The error if the fence has moved."""
    return LoadRefused(
        f"another load has taken {keys.prefix.decode()} over, or a zketcd was started on it. Not published"
    )
