"""A tree in etcd as of one position: its pages, its sessions, and whether there is a log behind them."""

from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

import pyarrow as pa

from pipeline.errors import Failure
from pipeline.etcd import columns
from pipeline.etcd.passwords import password_of
from pipeline.etcd.requests import TIMEOUT, insist
from pipeline.table import SessionRow
from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdRefused, Get, KeyValue, RangeResult, RefusalKind
from proxy.log import catch_up
from proxy.log.record import Look, TreeNotServable, look
from proxy.state.sessions import hash_of
from schema.keys import Keyspace
from schema.pages import decode_sessions, decode_state
from schema.record import SnapshotRef, TreeRecord

_TOGETHER = 16  # pages in one request


class NotReadable(Failure):
    """What lies under the prefix is no whole tree."""


class Survey(NamedTuple):
    """A snapshot that a prefix's record names."""

    revision: int  # etcd's, at which it was named
    snapshot: SnapshotRef
    proxies: int  # that live

    @property
    def last_zxid(self) -> int:
        """The zxid of the tree at the snapshot's position."""
        return self.snapshot.zxid


class Session(NamedTuple):
    """A session's record. `derived`: its password is the one that ZooKeeper derives from the id."""

    row: SessionRow
    derived: bool


async def record_of(etcd: Etcd, keys: Keyspace) -> tuple[Look, TreeRecord]:
    """The tree's record and who lives. Raises NotReadable, EtcdError."""
    try:
        found = await insist(lambda: look(etcd, keys))
    except TreeNotServable as error:
        raise NotReadable(str(error)) from error
    prefix = keys.prefix.decode()
    if found.record is None:
        raise NotReadable(f"there is no tree under {prefix}")
    if not found.record.complete:
        raise NotReadable(f"the import into {prefix} is not complete. Run it again: it starts over")
    return found, found.record


async def has_log_behind(etcd: Etcd, keys: Keyspace, snapshot: SnapshotRef | None) -> bool:
    """Whether there are entries that the snapshot does not hold, or the snapshot is gone."""
    applied: dict[str, int] = {}
    if snapshot is not None:
        page = await _asked(etcd, Get(keys.state_page(snapshot.name)))
        if not page.kvs:
            return True
        applied = decode_state(page.kvs[0].value).applied
    async for incarnation in catch_up.incarnations(etcd, keys, keys.log, keys.log_end):
        start = keys.entry(incarnation, applied.get(incarnation, 0) + 1)
        if (await _asked(etcd, Get(start, keys.entries_of(incarnation)[1], keys_only=True, limit=1))).kvs:
            return True
    return False


async def sessions(etcd: Etcd, keys: Keyspace, seen: Survey) -> list[Session]:
    """All sessions, by id. Raises NotReadable, EtcdError, BadValue."""
    names = [keys.session_page(seen.snapshot.name, number) for number in range(seen.snapshot.session_pages)]
    found = []
    async for value in _values(etcd, names, seen.revision):
        for session_id, timeout_ms, password_hash, _ in decode_sessions(value):
            derived = password_hash == hash_of(password_of(session_id))
            found.append(Session(SessionRow(session_id, timeout_ms), derived))
    return sorted(found)


async def pages(
    etcd: Etcd, keys: Keyspace, seen: Survey, numbers: Iterable[int]
) -> AsyncIterator[pa.RecordBatch]:
    """The rows of some pages. Raises NotReadable, EtcdError, BadValue."""
    names = [keys.node_page(seen.snapshot.name, number) for number in numbers]
    async for value in _values(etcd, names, seen.revision):
        yield columns.decode(value)


async def _values(etcd: Etcd, names: list[bytes], revision: int) -> AsyncIterator[bytes]:
    """The values of neighbouring keys."""
    for start in range(0, len(names), _TOGETHER):
        some = names[start : start + _TOGETHER]
        found = {pair.key: pair.value for pair in await _range(etcd, some[0], some[-1] + b"\0", revision)}
        for name in some:
            if name not in found:
                raise NotReadable(
                    f"{name.decode()} is gone: two newer snapshots were made while this one was read, and"
                    " etcd was compacted. Run again, and let etcd keep more history"
                )
            yield found[name]


async def _range(etcd: Etcd, start: bytes, end: bytes, revision: int) -> list[KeyValue]:
    """As of `revision`: then truncation takes nothing away. Once etcd is compacted, what is there now."""
    try:
        return (await _asked(etcd, Get(start, end, revision))).kvs
    except EtcdRefused as refused:
        if refused.kind is not RefusalKind.COMPACTED:
            raise
    return (await _asked(etcd, Get(start, end))).kvs


async def _asked(etcd: Etcd, get: Get) -> RangeResult:
    return await insist(lambda: etcd.range(get, TIMEOUT))
