"""Reads exactly the log's entries that are not applied yet: at a start, and after a break of the watch.

The revision that is read is not pinned, so etcd may compact at any time. Instead, the result is checked
afterwards: if the record still names a snapshot that is not newer than what is applied, no entry that counts
was truncated.

Many answers are put together, so none may be older than one before it (`MonotonicReads`). etcd promises that
of linearizable reads, but some versions answer with old data after a pause of a member (its issue 20418).
Then entries would be missing, and the state would be wrong.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from proxy.etcd.interface import Reads
from proxy.etcd.model import EtcdUnknown, Get, KeyValue
from proxy.log.follow.log_order import order_of
from proxy.log.foreign import ours
from proxy.log.record import TIMEOUT, Look, incarnation_of, look, no_longer_servable
from proxy.log.slices import in_slices
from proxy.state.machine import Machine
from proxy.state.outcome import Disagreement
from proxy.support.tasks import together
from schema.errors import BadValue
from schema.keys import Keyspace, ParsedKey
from schema.pages import decode_state
from schema.record import SnapshotRef, TreeRecord, is_incomplete_with_pages

_PAGE_BYTES = 4 << 20  # of one answer, about
_FIRST_WINDOW = 16  # entry numbers in the first request: an entry may have 1.5 MiB
_LARGEST_WINDOW = 4096
_TOGETHER = 8  # requests at a time
_FOREIGN_TOGETHER = 1000  # keys that are not ours are passed over so many at a time
# Entries of one incarnation overtake each other only while they are in flight together. After so many later
# entries, no entry of the wanted revision can follow.
_LATER_IN_A_ROW = 4096


class Truncated(Exception):
    """Entries above what is applied were truncated: a newer snapshot has to be loaded."""


class Caught(NamedTuple):
    """The entries above those that are applied, up to `revision`; a watch delivers the rest."""

    revision: int
    record: TreeRecord
    pair: KeyValue  # the record's key
    proxies: list[KeyValue]  # the keys of those that live at `revision`
    entries: list[KeyValue]  # in the order of `order_of`


class Loaded(NamedTuple):
    """A state, and its place in the log.

    A `LogOrder` that is restarted with the state's `applied` and then given `caught` continues exactly here.
    """

    machine: Machine
    caught: Caught  # of its entries only those that wait for a predecessor
    base: SnapshotRef | None  # what was loaded; None: the log from its beginning
    fell_back: bool  # the current snapshot cannot be used
    cluster_id: int  # etcd's own; after a restore it is not the machine's
    log_bytes: int  # what was replayed
    log_requests: int  # as `Apply.cost` counts them
    disagreements: tuple[Disagreement, ...]  # entries whose digest differs from the replay's


async def read_missed(
    etcd: Reads, keys: Keyspace, applied: Mapping[str, int], position: int, copied: SnapshotRef | None = None
) -> Caught:
    """All entries above the numbers in `applied`: the last ones that took effect up to revision `position`.

    Of a sealed tree those before the seal. `copied`: the snapshot of a copy. All entries before a newer one
    may be gone, or may have been too large to be written. Raises Truncated, EtcdError, TreeNotServable.
    """
    before = await look(etcd, keys)
    record, pair = before.record, before.pair
    known = copied is not None and is_incomplete_with_pages(record)
    if record is None or pair is None or not (record.complete or record.seal or known):
        raise no_longer_servable(keys, record, before.revision)
    if record.seal is not None:
        # Nothing behind the seal counts.
        before = before._replace(revision=pair.mod_revision, proxies=[])
    await _check_reach(etcd, keys, record, applied, position)
    entries = await entries_after(etcd, keys, applied, before)
    after = await look(etcd, keys)
    if after.pair is None or after.record is None:
        raise Truncated("the tree's record was deleted")
    if copied is not None and not record.current == after.record.current == copied:
        raise Truncated(f"the follower has replaced the snapshot {copied.name}")
    if after.pair.mod_revision != pair.mod_revision:
        await _check_reach(etcd, keys, after.record, applied, position)
    return Caught(before.revision, record, pair, before.proxies, entries)


async def took_effect(etcd: Reads, keys: Keyspace, incarnation: str, number: int) -> bool:
    """Whether an entry is in the log, or in a snapshot if it is truncated. Its predecessor took effect.

    `etcd`: none of its reads is older than one before it. Raises EtcdError, TreeNotServable.
    """
    if (await etcd.range(Get(keys.entry(incarnation, number), keys_only=True), TIMEOUT)).kvs:
        return True
    found = await look(etcd, keys)
    snapshots = (found.record.current, found.record.previous) if found.record else ()
    pages = [await etcd.range(Get(keys.state_page(ref.name)), TIMEOUT) for ref in snapshots if ref]
    if (await look(etcd, keys)).pair != found.pair:
        raise EtcdUnknown("the tree's record has changed, so pages may be deleted")
    for page in pages:
        with suppress(BadValue, IndexError):  # damaged or lost: the other snapshot is whole
            if decode_state(page.kvs[0].value).applied.get(incarnation, 0) >= number:
                return True
    return False


async def entries_after(
    etcd: Reads, keys: Keyspace, applied: Mapping[str, int], found: Look
) -> list[KeyValue]:
    """All entries above `applied` that existed at the look's revision, in order. Raises EtcdError.

    Entries that were truncated meanwhile are missing: the caller checks that.
    """
    # Known incarnations are read by name, and the keys between them one at a time: a range with a limit
    # makes etcd walk over everything behind the limit (etcd #11057), and between them there is next to
    # nothing.
    living = [incarnation_of(keys, proxy) for proxy in found.proxies]
    known = sorted({*applied, *living}, key=lambda incarnation: keys.entries_of(incarnation)[0])
    free = asyncio.Semaphore(_TOGETHER)
    entries: list[KeyValue] = []

    async def known_one(incarnation: str) -> None:
        async with free:
            async for page in entries_of(
                etcd, keys, incarnation, applied.get(incarnation, 0) + 1, found.revision
            ):
                entries.extend(page)

    async def between(start: bytes, end: bytes) -> None:
        async with free:
            async for incarnation in incarnations(etcd, keys, start, end):
                async for page in entries_of(etcd, keys, incarnation, 1, found.revision):
                    entries.extend(page)

    def reads() -> Iterator[Coroutine[None, None, None]]:
        start = keys.log
        for incarnation in known:
            first, end = keys.entries_of(incarnation)
            yield between(start, first)
            yield known_one(incarnation)
            start = end
        yield between(start, keys.log_end)

    await together(reads())
    return await in_slices(lambda pause: pause.sorted(entries, order_of))


async def incarnations(etcd: Reads, keys: Keyspace, start: bytes, end: bytes) -> AsyncIterator[str]:
    """The incarnations with entries in a range of the log: one request for each."""
    while (first := await first_entry(etcd, keys, start, end)) is not None:
        yield first.incarnation
        start = keys.entries_of(first.incarnation)[1]


async def first_entry(etcd: Reads, keys: Keyspace, start: bytes, end: bytes) -> ParsedKey | None:
    """The key of the first entry in a range of the log; None if there is none. Raises EtcdError."""
    limit = 1
    while start < end:
        found = (await etcd.range(Get(start, end, keys_only=True, limit=limit), TIMEOUT)).kvs
        if not found:
            break
        if entries := ours(keys, found):
            return keys.parse(entries[0].key)
        start = found[-1].key + b"\0"
        limit = _FOREIGN_TOGETHER
    return None


async def entries_of(
    etcd: Reads, keys: Keyspace, incarnation: str, number: int, revision: int
) -> AsyncIterator[list[KeyValue]]:
    """An incarnation's entries from `number` on that existed at `revision`, in pages."""
    _, end = keys.entries_of(incarnation)
    window = _FIRST_WINDOW
    later = 0
    while True:
        # A range of numbers instead of a limit, as above.
        beyond = keys.entry(incarnation, number + window)
        found = (await etcd.range(Get(keys.entry(incarnation, number), beyond), TIMEOUT)).kvs
        wanted = [kv for kv in ours(keys, found) if kv.mod_revision <= revision]
        if wanted:
            later = 0
            yield wanted
        else:
            later += len(found)
            if later >= _LATER_IN_A_ROW:
                return
        if len(found) == window:
            number += window
            size = sum(len(kv.key) + len(kv.value) + 32 for kv in found)
            window = max(_FIRST_WINDOW, min(4 * window, window * _PAGE_BYTES // size, _LARGEST_WINDOW))
            continue
        # A gap, or the end of the log.
        further = await first_entry(etcd, keys, beyond, end)
        if further is None:
            return
        number = further.number


async def _check_reach(
    etcd: Reads, keys: Keyspace, record: TreeRecord, applied: Mapping[str, int], position: int
) -> None:
    """Raise Truncated if entries above `applied` may be truncated: those that the previous snapshot holds."""
    previous = record.previous
    if previous is None or previous.position <= position:
        return
    # The tree may have been idle since: then the snapshot is newer, but has the same content.
    page = await etcd.range(Get(keys.state_page(previous.name)), TIMEOUT)
    if not page.kvs:
        raise Truncated(f"the previous snapshot {previous.name} is newer than what is applied")
    try:
        state = decode_state(page.kvs[0].value)
    except BadValue as error:
        raise Truncated(
            f"the previous snapshot {previous.name} is newer than what is applied: {error}"
        ) from error
    for incarnation, number in state.applied.items():
        if number > applied.get(incarnation, 0):
            raise Truncated(
                f"entries up to number {number} of {incarnation} are truncated, and only"
                f" {applied.get(incarnation, 0)} are applied"
            )
