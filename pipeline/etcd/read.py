"""A tree in etcd as of one revision: its pages, its sessions, and whether the log has later entries."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

import numpy
import pyarrow as pa

from pipeline.etcd import columns, paths
from pipeline.etcd.record import NotReadable
from pipeline.etcd.requests import read, until_known_or_full
from pipeline.etcd.sessions import password_of
from pipeline.table import SessionRow
from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdRefused, Get, KeyValue, RefusalKind
from proxy.log.follow import catch_up
from proxy.state.sessions import hash_of
from schema.keys import Keyspace
from schema.pages import decode_sessions, decode_state, page_header
from schema.pieces import Joiner
from schema.record import SnapshotRef

_TOGETHER = 16  # pages in one request


class Session(NamedTuple):
    """A session's record. `derived`: its password is the one that ZooKeeper derives from the id."""

    row: SessionRow
    derived: bool


class Changed(NamedTuple):
    """The changes of the tree by the log after a snapshot."""

    position: int  # etcd's revision up to which entries are applied
    paths: frozenset[str]  # of nodes that the log has changed, made or deleted
    pages: tuple[bytes, ...]  # those of these nodes that exist, as the log leaves them
    sessions: tuple[Session, ...]  # all
    zxid: int
    nodes: int  # of the whole tree


class TreeAt(NamedTuple):
    """A tree as of one position: the pages of a snapshot, and what the log has changed since."""

    revision: int  # etcd's revision at which the snapshot's pages have to be read
    snapshot: SnapshotRef | None  # None: all nodes are among the changed ones
    proxies: int  # that live
    changed: Changed | None  # None: the log has no entries after the snapshot

    @property
    def last_zxid(self) -> int:
        """The zxid of the tree."""
        if self.changed is not None:
            return self.changed.zxid
        return 0 if self.snapshot is None else self.snapshot.zxid

    @property
    def nodes(self) -> int:
        """How many znodes the tree has."""
        if self.changed is not None:
            return self.changed.nodes
        return 0 if self.snapshot is None else self.snapshot.nodes

    @property
    def bytes(self) -> int:
        """Of the pages."""
        size = 0 if self.snapshot is None else self.snapshot.bytes
        return size + (0 if self.changed is None else sum(map(len, self.changed.pages)))

    @property
    def position(self) -> int:
        """The revision of the newest entry that may be part of the tree."""
        if self.changed is not None:
            return self.changed.position
        return 0 if self.snapshot is None else self.snapshot.position


async def has_log_behind(etcd: Etcd, keys: Keyspace, snapshot: SnapshotRef | None) -> bool:
    """Whether the log has entries that are not in the snapshot, or the snapshot was deleted."""
    applied: dict[str, int] = {}
    if snapshot is not None:
        page = await read(etcd, Get(keys.state_page(snapshot.name)))
        if not page.kvs:
            return True
        applied = decode_state(page.kvs[0].value).applied
    async for incarnation in catch_up.incarnations(etcd, keys, keys.log, keys.log_end):
        start = keys.entry(incarnation, applied.get(incarnation, 0) + 1)
        end = keys.entries_of(incarnation)[1]
        if await until_known_or_full(catch_up.first_entry, etcd, keys, start, end) is not None:
            return True
    return False


async def sessions(etcd: Etcd, keys: Keyspace, seen: TreeAt) -> list[Session]:
    """All sessions, by id. Raises NotReadable, EtcdError, BadValue."""
    if seen.changed is not None:
        return sorted(seen.changed.sessions)
    if seen.snapshot is None:
        return []
    names = [keys.session_page(seen.snapshot.name, number) for number in range(seen.snapshot.session_pages)]
    found = []
    async for value in _values(etcd, names, seen.revision):
        for session_id, timeout_ms, password_hash, _ in decode_sessions(value):
            found.append(new_session(session_id, timeout_ms, password_hash))
    return sorted(found)


def new_session(session_id: int, timeout_ms: int, password_hash: bytes) -> Session:
    """A session's record as readers have it."""
    derived = password_hash == hash_of(password_of(session_id))
    return Session(SessionRow(session_id, timeout_ms), derived)


async def pages(
    etcd: Etcd,
    keys: Keyspace,
    seen: TreeAt,
    numbers: Sequence[int],
    wanted: Callable[[str, str], bool] = lambda _first, _last: True,
) -> AsyncIterator[pa.RecordBatch]:
    """The unchanged nodes of neighbouring pages of the snapshot, if these may have `wanted` paths.

    A page in pieces belongs to the reader of its first piece. Raises NotReadable, EtcdError, BadValue.
    """
    assert seen.snapshot is not None
    left_out = frozenset[str]() if seen.changed is None else seen.changed.paths
    known = numpy.sort(paths.hashes(pa.array(left_out, pa.string()))[0])
    joiner = Joiner(within=True)
    some = list(numbers)
    while some:
        names = [keys.node_page(seen.snapshot.name, number) for number in some]
        async for value in _values(etcd, names, seen.revision):
            page = joiner.add(value)
            if page is None:
                continue
            header = page_header(page)
            if wanted(header.first, header.last):
                yield _without(columns.decode(page), left_out, known)
        some = [some[-1] + 1 + place for place in range(joiner.missing)]


def _without(batch: pa.RecordBatch, left_out: frozenset[str], known: paths.Hashes) -> pa.RecordBatch:
    """The rows except those with the paths `left_out`, whose hashes are `known`."""
    if not left_out:
        return batch
    found = numpy.isin(paths.hashes(batch.column("path"))[0], known)
    column = batch.column("path")
    for at in numpy.flatnonzero(found).tolist():
        found[at] = column[at].as_py() in left_out  # equal hashes alone prove nothing
    return batch.filter(pa.array(~found))


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
    """The keys as of `revision`, which truncation cannot change; after a compaction, the current ones."""
    try:
        return (await read(etcd, Get(start, end, revision))).kvs
    except EtcdRefused as refused:
        if refused.kind is not RefusalKind.COMPACTED:
            raise
    return (await read(etcd, Get(start, end))).kvs
