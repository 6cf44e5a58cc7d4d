"""The rows of an etcd prefix as of one revision: znodes piece by piece, and sessions."""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from pipeline.etcd.load import insist
from pipeline.etcd.passwords import password_of
from pipeline.etcd.ranges import Piece
from pipeline.etcd.records import Counter, counter_of, row_of
from pipeline.table import SessionRow, ZnodeRow
from proxy.etcd.interface import Etcd
from proxy.etcd.model import DEFAULT_MAX_TXN_OPS, Get, KeyValue, RangeResult, Txn
from proxy.sessions import hash_of
from schema.keys import ForeignKey, Keyspace, Kind, session_id_of
from schema.paths import ROOT, join
from schema.values import TreeRecord, decode_session, decode_tree, zxid_of

_TIMEOUT = 60.0


class NotReadable(Exception):
    """What lies under the prefix is no whole tree."""


class Survey(NamedTuple):
    """A prefix at one revision."""

    revision: int
    record: TreeRecord

    @property
    def last_zxid(self) -> int:
        """The zxid that its clients have seen at most, at that revision."""
        return zxid_of(self.record.offsets, self.revision)


class Session(NamedTuple):
    """A session's record. `derived`: its password is the one that ZooKeeper derives from the id."""

    row: SessionRow
    derived: bool


async def survey(etcd: Etcd, keys: Keyspace, revision: int = 0) -> Survey:
    """The tree's record, at `revision` or now. Raises NotReadable, EtcdError, BadValue."""
    found = await insist(lambda: etcd.range(Get(keys.tree, revision=revision), _TIMEOUT))
    if not found.kvs:
        raise NotReadable(f"there is no tree under {keys.prefix!r}")
    record = decode_tree(found.kvs[0].value)
    if not record.complete:
        raise NotReadable(f"the load of the tree under {keys.prefix!r} is not complete")
    return Survey(revision or found.revision, record)


async def sessions(etcd: Etcd, keys: Keyspace, revision: int) -> list[Session]:
    """All sessions, by id."""
    found = []
    async for page in etcd.range_pages(keys.sessions, keys.sessions[:-1] + b"0", revision, timeout=_TIMEOUT):
        for pair in page:
            try:
                kind, name = keys.parse(pair.key)
            except ForeignKey:
                continue
            if kind is Kind.SESSION:
                value = decode_session(pair.value)
                session_id = session_id_of(name)
                row = SessionRow(session_id, value.timeout_ms)
                found.append(Session(row, value.password_hash == hash_of(password_of(session_id))))
    return sorted(found)


async def root(etcd: Etcd, keys: Keyspace, seen: Survey) -> ZnodeRow:
    """The root's row. Raises NotReadable if there is none."""
    found = await insist(lambda: etcd.range(Get(keys.nodes, revision=seen.revision), _TIMEOUT))
    if not found.kvs:
        raise NotReadable(f"the tree under {keys.prefix!r} has no root")
    counters = await _counters_at(etcd, [keys.counter(ROOT)], seen)
    return row_of(ROOT, found.kvs[0], counters.get(keys.counter(ROOT)), seen.record.offsets)


async def rows(etcd: Etcd, keys: Keyspace, seen: Survey, piece: Piece) -> AsyncIterator[list[ZnodeRow]]:
    """The rows of one piece, page by page. Raises NotReadable, EtcdError, BadValue."""
    counters = await (
        _of_block(etcd, keys, seen, piece) if piece.parent else _of_span(etcd, keys, seen, piece)
    )
    offsets = seen.record.offsets
    async for page in etcd.range_pages(
        keys.nodes + piece.start, keys.nodes + piece.end, seen.revision, timeout=_TIMEOUT
    ):
        found = []
        for pair in page:
            try:
                path = keys.path_of_node(pair.key)
            except ForeignKey:
                continue
            found.append(row_of(path, pair, counters.get(keys.counter(path)), offsets))
        yield found


async def _of_span(etcd: Etcd, keys: Keyspace, seen: Survey, piece: Piece) -> dict[bytes, Counter]:
    """The counters of what lies below some nodes: one range."""
    counters = {}
    async for page in etcd.range_pages(
        keys.counters + piece.start, keys.counters + piece.end, seen.revision, timeout=_TIMEOUT
    ):
        counters.update({pair.key: counter_of(pair, seen.record.offsets) for pair in page})
    return counters


async def _of_block(etcd: Etcd, keys: Keyspace, seen: Survey, piece: Piece) -> dict[bytes, Counter]:
    """The counters of some children of one node, between which those of all below them lie."""
    assert piece.parent is not None
    skip = piece.start.rindex(b"//") + 2
    parent = piece.start[: skip - 2] + b"/"
    start = keys.counters + parent + piece.start[skip:]
    end = keys.counters + parent + piece.end[skip:]
    # Mostly the children are leaves, or there is little below them.
    get = Get(start, end, seen.revision, limit=piece.size + 1)
    few = await insist(lambda: etcd.range(get, _TIMEOUT))
    if not few.more:
        return {pair.key: counter_of(pair, seen.record.offsets) for pair in few.kvs}
    wanted = []
    async for page in etcd.range_pages(
        keys.nodes + piece.start, keys.nodes + piece.end, seen.revision, timeout=_TIMEOUT
    ):
        names = (pair.key[len(keys.nodes) + skip :].decode(errors="replace") for pair in page)
        wanted += [keys.counter(join(piece.parent, name)) for name in names]
    return await _counters_at(etcd, wanted, seen)


async def _counters_at(etcd: Etcd, wanted: Sequence[bytes], seen: Survey) -> dict[bytes, Counter]:
    found: list[KeyValue] = []
    for first in range(0, len(wanted), DEFAULT_MAX_TXN_OPS):
        gets = [Get(key, revision=seen.revision) for key in wanted[first : first + DEFAULT_MAX_TXN_OPS]]
        answer = await insist(lambda gets=gets: etcd.txn(Txn((), gets), _TIMEOUT))  # type: ignore[misc]
        for response in answer.responses:
            assert isinstance(response, RangeResult)
            found += response.kvs
    return {pair.key: counter_of(pair, seen.record.offsets) for pair in found}
