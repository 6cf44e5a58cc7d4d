"""Deletes what no start needs any more: entries that the previous snapshot holds, and pages that nothing
names.

Each deletion compares the record's mod_revision, so that a truncation that was overtaken by another snapshot
stops. None puts anything, so etcd's quota lets them pass.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping

from proxy.etcd.interface import Etcd
from proxy.etcd.model import Compare, Delete, Get, Op, Txn
from proxy.etcd.repeating import until_known
from proxy.log.follow.catch_up import first_entry
from proxy.log.foreign import ours
from proxy.log.record import TIMEOUT
from proxy.state.machine import Machine
from schema.errors import BadValue
from schema.keys import Keyspace
from schema.pages import decode_state
from schema.record import TreeRecord

log = logging.getLogger(__name__)

ENTRIES_AT_ONCE = 2000
PAGES_AT_ONCE = 200
_PAUSE = 0.05  # seconds between two chunks


class Overtaken(Exception):
    """The record has changed, since another snapshot was written; or etcd was compacted meanwhile."""


async def applied_in(etcd: Etcd, keys: Keyspace, name: str) -> dict[str, int] | None:
    """The last number of each incarnation in a snapshot's state; None if that cannot be read."""
    page = await until_known(etcd.range, Get(keys.state_page(name)), TIMEOUT)
    if not page.kvs:
        return None
    try:
        return decode_state(page.kvs[0].value).applied
    except BadValue as error:
        log.error("the state page of the snapshot %s cannot be read: %s", name, error)
        return None


async def truncate_log(etcd: Etcd, keys: Keyspace, record: Compare, applied: Mapping[str, int]) -> int:
    """Delete each incarnation's entries up to its number in `applied`, under the compare `record`.

    Returns about how many were deleted. Raises Overtaken, EtcdError.
    """
    deleted = 0
    for incarnation, last in sorted(applied.items()):
        start, _ = keys.entries_of(incarnation)
        beyond = keys.entry(incarnation, last + 1)
        first = await until_known(first_entry, etcd, keys, start, beyond)
        if first is None:
            continue
        number = first.number
        while number <= last:
            following = min(number + ENTRIES_AT_ONCE, last + 1)
            await _delete(etcd, (record,), [Delete(start, keys.entry(incarnation, following))])
            deleted += following - number
            number = following
            await asyncio.sleep(_PAUSE)
    return deleted


async def delete_pages(etcd: Etcd, keys: Keyspace, named: TreeRecord, record: Compare, own: str = "") -> int:
    """Delete the pages of snapshots that the record does not name and that no living proxy still writes.

    A writer publishes only under the record that it began with, so snapshots older than the record will never
    be named. Newer ones are deleted only if their writer is dead, or is `own`: this very process, which
    writes one snapshot at a time. The state page is deleted first: a publication that was sent before, and
    arrives later, compares it. Returns how many pages were deleted. Raises Overtaken, EtcdError.
    """
    kept = {ref.name for ref in (named.current, named.previous) if ref is not None}
    get = Get(keys.snapshots, keys.snapshots_end, keys_only=True)
    found = await until_known(etcd.range, get, TIMEOUT)
    pages: dict[str, list[bytes]] = {}
    for kv in ours(keys, found.kvs):
        name = kv.key[len(keys.snapshots) :].decode().partition("/")[0]
        if name not in kept:
            pages.setdefault(name, []).append(kv.key)
    deleted = 0
    for name, page_keys in sorted(pages.items()):
        parsed = keys.parse(page_keys[0])
        guards = [record]
        if parsed.number >= record.mod_revision and parsed.incarnation != own:
            guards.append(Compare(keys.proxy(parsed.incarnation), 0))
        state_page = keys.state_page(name)
        chunks = [[state_page]] if state_page in page_keys else []
        rest = [key for key in page_keys if key != state_page]
        chunks += [rest[start : start + PAGES_AT_ONCE] for start in range(0, len(rest), PAGES_AT_ONCE)]
        try:
            for chunk in chunks:
                await _delete(etcd, guards, [Delete(chunk[0], chunk[-1] + b"\0")])
                deleted += len(chunk)
                await asyncio.sleep(_PAUSE)
        except Overtaken:
            if len(guards) == 1:
                raise
            log.debug("the snapshot %s is still being written", name)
    return deleted


def forgettable(machine: Machine, living: Collection[str], truncated: Mapping[str, int]) -> list[str]:
    """Incarnations that have ended completely: no proxy key, no sessions, all effective entries truncated.

    `truncated` are the numbers of the previous snapshot's state.
    """
    over = {
        incarnation
        for incarnation, number in machine.applied.items()
        if incarnation not in living and truncated.get(incarnation, 0) >= number
    }
    if over:  # mostly there is none: there may be very many sessions
        over -= {session.incarnation for session in machine.sessions.values()}
    return sorted(over)


async def drop_incarnation(etcd: Etcd, keys: Keyspace, incarnation: str, applied: int) -> bool:
    """Delete all remaining entries of a dead incarnation; False if it is not dead, or more of it counts.

    `applied`: its last number in the state. A state for which etcd's watch has left out an entry (its issue
    17529) lacks the next one. Call it for an incarnation that is `forgettable`, *before* the entry that
    removes it from the state. The remaining entries were never applied, or are late copies of truncated ones.
    Without a proxy key no entry can be added. Raises EtcdError.
    """
    start, end = keys.entries_of(incarnation)
    compares = (Compare(keys.proxy(incarnation), 0), Compare(keys.entry(incarnation, applied + 1), 0))
    txn = Txn(compares, (Delete(start, end),))
    return (await until_known(etcd.txn, txn, TIMEOUT)).succeeded


async def _delete(etcd: Etcd, compares: Collection[Compare], deletes: Collection[Op]) -> None:
    txn = Txn(list(compares), list(deletes))
    if not (await until_known(etcd.txn, txn, TIMEOUT)).succeeded:
        raise Overtaken("the tree's record has changed")
