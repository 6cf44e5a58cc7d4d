"""Applies transactions to a tree as DataTree.processTxn does, to the part of the tree that they concern.

A server writes a snapshot while it applies transactions. So the snapshot may already contain effects of the
first transactions of the log. ZooKeeper's rules for this are followed exactly; they make every snapshot
right. `follow` goes on from such a state with pipeline.follow.applying, which takes no transaction twice.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from codec.constants import OpCode
from pipeline.formats.log import Entry
from pipeline.formats.transactions import only_paths, rows
from pipeline.table import AclRow, SessionRow, TransactionRow, ZnodeRow
from schema.paths import parent_of
from schema.znode import session_of

_CREATES = frozenset({OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL})
_DELETES = frozenset({OpCode.DELETE, OpCode.DELETE_CONTAINER})


class Touched(NamedTuple):
    """The nodes and sessions that a run of transactions uses."""

    paths: frozenset[str]
    closed: frozenset[int]  # sessions that end: their ephemerals, and the parents of these, are used too


def touched(entries: Iterable[tuple[Entry, str]]) -> Touched:
    """The part of the tree that is needed to apply these entries of logs, with their files.

    Of most entries only the paths are read; Replay decodes them. Raises BadFile.
    """
    paths: set[str] = set()
    closed: set[int] = set()
    for entry, file in entries:
        found = only_paths(entry, file)
        if found is None:
            _touch(rows(entry, file, file), paths, closed)
            continue
        for kind, path in found:
            if kind != OpCode.CHECK:
                paths.add(path)
            if kind in _CREATES or kind in _DELETES:
                paths.add(parent_of(path))
    return Touched(frozenset(paths), frozenset(closed))


def _touch(transaction: Iterable[TransactionRow], paths: set[str], closed: set[int]) -> None:
    """Add the nodes and sessions that one transaction uses."""
    for row in transaction:
        if row.path is not None and row.type != OpCode.CHECK:
            paths.add(row.path)
            if row.type in _CREATES or row.type in _DELETES:
                paths.add(parent_of(row.path))
        elif row.type == OpCode.CLOSE_SESSION:
            closed.add(row.session_id)
            for path in row.paths or ():
                paths.update((path, parent_of(path)))


@dataclass(slots=True)
class _Node:
    """A node that changes: a mutable row of the table. The fields have the order of ZnodeRow."""

    path: str
    data: bytes | None
    acl: tuple[AclRow, ...] | None
    czxid: int
    mzxid: int
    pzxid: int
    ctime: int
    mtime: int
    version: int
    created: int
    aversion: int
    owner: int


_row_of = attrgetter(*ZnodeRow._fields)


class Replay:
    """A part of a tree to which transactions are applied, in the order of their zxids."""

    def __init__(self, nodes: Mapping[str, ZnodeRow]) -> None:
        """`nodes` are those of `touched` that exist."""
        self._nodes = {path: _Node(*node) for path, node in nodes.items()}
        self._ephemerals: dict[int, set[str]] = defaultdict(set)
        for path, node in nodes.items():
            if session_of(node.owner):
                self._ephemerals[node.owner].add(path)

    @property
    def nodes(self) -> dict[str, ZnodeRow]:
        """The nodes as they are now."""
        return {path: ZnodeRow(*_row_of(node)) for path, node in self._nodes.items()}

    def apply(self, rows: Iterable[TransactionRow]) -> None:
        """Apply one transaction: all rows of one zxid."""
        rows = list(rows)
        # A failed multi in the log has its first parts, as if they had succeeded.
        if rows[0].part >= 0 and any(row.type == OpCode.ERROR for row in rows):
            return
        for row in rows:
            change = _CHANGES.get(row.type)
            if change is not None:
                change(self, row)

    def _create(self, row: TransactionRow) -> None:
        path = row.path or ""
        parent = self._nodes.get(parent_of(path))
        if parent is None:
            return
        there = self._nodes.get(path)
        if there is not None:
            there.acl = row.acl
            # Only the first kind of create, as in processTxn: the snapshots that it wrote depend on it.
            if row.type == OpCode.CREATE:
                _raise_counter(parent, row)
            return
        _raise_counter(parent, row)
        zxid, time, owner = row.zxid, row.time, row.owner or 0
        self._nodes[path] = _Node(path, row.data, row.acl, zxid, zxid, zxid, time, time, 0, 0, 0, owner)
        if session_of(owner):
            self._ephemerals[owner].add(path)

    def _delete_one(self, row: TransactionRow) -> None:
        self._delete(row.path or "", row.zxid)

    def _delete(self, path: str, zxid: int) -> None:
        parent = self._nodes.get(parent_of(path))
        if parent is None:
            return
        parent.pzxid = max(zxid, parent.pzxid)
        node = self._nodes.pop(path, None)
        if node is not None and session_of(node.owner):
            self._ephemerals[node.owner].discard(path)

    def _set_data(self, row: TransactionRow) -> None:
        node = self._nodes.get(row.path or "")
        if node is not None:
            node.data, node.version, node.mzxid, node.mtime = row.data, row.version or 0, row.zxid, row.time

    def _set_acl(self, row: TransactionRow) -> None:
        node = self._nodes.get(row.path or "")
        if node is not None:
            node.acl, node.aversion = row.acl, row.version or 0

    def _close(self, row: TransactionRow) -> None:
        for path in row.paths or ():
            self._delete(path, row.zxid)
        for path in sorted(self._ephemerals.pop(row.session_id, ())):
            self._delete(path, row.zxid)


def _raise_counter(parent: _Node, row: TransactionRow) -> None:
    counter = parent.created + 1 if row.parent_cversion is None else row.parent_cversion
    if counter > parent.created:
        parent.created, parent.pzxid = counter, row.zxid


_CHANGES: dict[int, Callable[[Replay, TransactionRow], None]] = {
    **dict.fromkeys(_CREATES, Replay._create),
    **dict.fromkeys(_DELETES, Replay._delete_one),
    OpCode.SET_DATA: Replay._set_data,
    OpCode.RECONFIG: Replay._set_data,
    OpCode.SET_ACL: Replay._set_acl,
    OpCode.CLOSE_SESSION: Replay._close,
}


def sessions_after(
    sessions: Iterable[SessionRow], transactions: Iterable[TransactionRow]
) -> list[SessionRow]:
    """The table of sessions after transactions."""
    table = {session.id: session.timeout_ms for session in sessions}
    for row in transactions:
        if row.type == OpCode.CREATE_SESSION:
            table[row.session_id] = row.timeout_ms or 0
        elif row.type == OpCode.CLOSE_SESSION:
            table.pop(row.session_id, None)
    return [SessionRow(*item) for item in table.items()]
