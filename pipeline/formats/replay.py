"""What transactions make of a tree: DataTree.processTxn, on as much of the tree as they touch.

A snapshot is written while writes go on, so that transactions meet nodes that they, or later ones, have made
already. ZooKeeper's rules for this are followed to the letter; after them every snapshot is right.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from codec.constants import OpCode
from pipeline.formats.transactions import is_session
from pipeline.table import SessionRow, TransactionRow, ZnodeRow
from schema.paths import parent_of

_CREATES = frozenset({OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL})
_DELETES = frozenset({OpCode.DELETE, OpCode.DELETE_CONTAINER})


class Touched(NamedTuple):
    """What a run of transactions looks at."""

    paths: frozenset[str]
    closed: frozenset[int]  # sessions that end: their ephemerals, and the parents of those, are looked at too


def touched(transactions: Iterable[TransactionRow]) -> Touched:
    """What must be known of the tree before these transactions are applied."""
    paths: set[str] = set()
    closed: set[int] = set()
    for row in transactions:
        if row.path is not None and row.type != OpCode.CHECK:
            paths.add(row.path)
            if row.type in _CREATES or row.type in _DELETES:
                paths.add(parent_of(row.path))
        elif row.type == OpCode.CLOSE_SESSION:
            closed.add(row.session_id)
            for path in row.paths or ():
                paths.update((path, parent_of(path)))
    return Touched(frozenset(paths), frozenset(closed))


class Replay:
    """A part of a tree to which transactions are applied, in the order of their zxids."""

    def __init__(self, nodes: Mapping[str, ZnodeRow]) -> None:
        """`nodes` are those of `touched` that there are."""
        self.nodes: dict[str, ZnodeRow] = dict(nodes)
        self._ephemerals: dict[int, set[str]] = defaultdict(set)
        for path, node in nodes.items():
            if is_session(node.owner):
                self._ephemerals[node.owner].add(path)

    def apply(self, rows: Iterable[TransactionRow]) -> None:
        """Apply one transaction: all rows of one zxid."""
        rows = list(rows)
        # A multi that failed keeps its first parts as they would have been.
        if any(row.part >= 0 and row.type == OpCode.ERROR for row in rows):
            return
        for row in rows:
            if row.type in _CREATES:
                self._create(row)
            elif row.type in _DELETES:
                self._delete(row.path or "", row.zxid)
            elif row.type in (OpCode.SET_DATA, OpCode.RECONFIG):
                self._set_data(row)
            elif row.type == OpCode.SET_ACL:
                self._set_acl(row)
            elif row.type == OpCode.CLOSE_SESSION:
                self._close(row)

    def _create(self, row: TransactionRow) -> None:
        path = row.path or ""
        parent_path = parent_of(path)
        parent = self.nodes.get(parent_path)
        if parent is None:
            return
        there = self.nodes.get(path)
        if there is not None:
            self.nodes[path] = there._replace(acl=row.acl)
            # Only the first kind of create: so does processTxn, and snapshots that it wrote count on it.
            if row.type == OpCode.CREATE:
                self._raise_counter(parent_path, row)
            return
        self._raise_counter(parent_path, row)
        self.nodes[path] = ZnodeRow(
            path=path,
            data=row.data,
            acl=row.acl,
            czxid=row.zxid,
            mzxid=row.zxid,
            pzxid=row.zxid,
            ctime=row.time,
            mtime=row.time,
            version=0,
            created=0,
            aversion=0,
            owner=row.owner or 0,
        )
        if is_session(row.owner or 0):
            self._ephemerals[row.owner or 0].add(path)

    def _raise_counter(self, parent_path: str, row: TransactionRow) -> None:
        parent = self.nodes[parent_path]
        counter = parent.created + 1 if row.parent_cversion is None else row.parent_cversion
        if counter > parent.created:
            self.nodes[parent_path] = parent._replace(created=counter, pzxid=row.zxid)

    def _delete(self, path: str, zxid: int) -> None:
        parent_path = parent_of(path)
        parent = self.nodes.get(parent_path)
        if parent is None:
            return
        if zxid > parent.pzxid:
            self.nodes[parent_path] = parent._replace(pzxid=zxid)
        node = self.nodes.pop(path, None)
        if node is not None and is_session(node.owner):
            self._ephemerals[node.owner].discard(path)

    def _set_data(self, row: TransactionRow) -> None:
        node = self.nodes.get(row.path or "")
        if node is not None:
            self.nodes[node.path] = node._replace(
                data=row.data, version=row.version or 0, mzxid=row.zxid, mtime=row.time
            )

    def _set_acl(self, row: TransactionRow) -> None:
        node = self.nodes.get(row.path or "")
        if node is not None:
            self.nodes[node.path] = node._replace(acl=row.acl, aversion=row.version or 0)

    def _close(self, row: TransactionRow) -> None:
        for path in row.paths or ():
            self._delete(path, row.zxid)
        for path in sorted(self._ephemerals.pop(row.session_id, ())):
            self._delete(path, row.zxid)


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
