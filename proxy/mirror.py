"""The mirror: tree, sessions and proxies as the watch stream tells them, revision after revision.

No I/O: `feed` brings pages of a load and messages of the stream here. All events of one etcd revision are
applied together; then the watches fire; then whoever waits for the revision is told.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, Protocol

from codec.constants import EventType
from codec.jute import Acl
from proxy.draft import PENDING, Entry, SessionRecord
from proxy.etcd.model import DELETE, PUT, Event, KeyValue
from proxy.tree import Node, Tree
from proxy.watches import WatchTable
from schema.keys import ForeignKey, Keyspace, Kind, session_id_of
from schema.paths import ROOT, parent_of
from schema.values import (
    TreeEvent,
    TreeRecord,
    decode_counter,
    decode_events,
    decode_loss,
    decode_node,
    decode_session,
    decode_tree,
    fields_of_node,
    zxid_of,
)

# Plain numbers: looking up an enum's member costs more than the comparison.
_NONE = int(EventType.NONE)
_CREATED = int(EventType.NODE_CREATED)
_DATA_CHANGED = int(EventType.NODE_DATA_CHANGED)
_DELETED = int(EventType.NODE_DELETED)

# Children ever created, the counter's mod_revision, pzxid: of a node without a counter.
_UNCOUNTED = (0, 0, None)


class Listener(Protocol):
    """Who is told what the mirror has seen."""

    def session_changed(self, session_id: int, record: SessionRecord | None) -> None:
        """A session's record was put, or is gone (None)."""

    def marked(self, marker: bytes, value: bytes) -> Mapping[bytes, Entry] | None:
        """The revision being applied puts this marker.

        If its Txn is this proxy's: what that puts at the keys of nodes, and need not be read from there.
        """

    def lost(self, number: str, incarnation: str, paths: Sequence[str]) -> None:
        """Component `number` of some proxy's Txn has lost a race, mostly for one of these paths, or more."""

    def applied(self, revision: int) -> None:
        """Everything up to `revision` is applied, and the watches of it have fired."""


class _Change(NamedTuple):
    """An event made up from a difference: what etcd would have sent."""

    type: int
    kv: KeyValue


class Mirror:
    """The state of one prefix as of `revision`."""

    def __init__(self, keys: Keyspace, watches: WatchTable, listener: Listener) -> None:
        self.tree = Tree()
        self.sessions: dict[int, SessionRecord] = {}
        self.proxies: set[str] = set()
        self.markers: set[str] = set()  # names of all marker keys, "<incarnation>/<lane>"
        self.record: TreeRecord | None = None
        self.gone = False  # somebody deleted the tree from etcd
        self.revision = 0
        self.zxid = 0
        self._keys = keys
        self._watches = watches
        self._listener = listener
        # Of nodes not seen yet, as _UNCOUNTED.
        self._counters: dict[str, tuple[int, int, int | None]] = {}
        self._node_space = keys.nodes
        self._counter_space = len(keys.counters)
        self._counter_start = keys.counters + b"/"
        self._offset_from = 0
        self._offset = 0
        self._own: Mapping[bytes, Entry] | None = None  # puts of this proxy in the revision being applied
        self._watched = False  # whether anybody watches anything, as of the revision being applied

    def zxid_of(self, revision: int) -> int:
        """The zxid that clients see for an etcd revision."""
        if revision >= self._offset_from:
            return revision + self._offset
        assert self.record is not None
        return zxid_of(self.record.offsets, revision)

    def unchanged_since(self, path: str, zxid: int) -> bool:
        """Whether a read of this node alone would have been answered the same at `zxid`. False: perhaps."""
        if not path.startswith(ROOT):
            return True  # no node can be there
        nodes = self.tree.nodes
        while (node := nodes.get(path)) is None and path != ROOT:
            path = parent_of(path)  # whatever was there was a child of what is there
        return node is not None and self.zxid_of(max(node.mod, node.counter_mod)) <= zxid

    def unload(self) -> None:
        """Forget a first load that broke off: what it brought may be gone when the next one looks."""
        self.tree.nodes.clear()
        self.tree.ephemerals.clear()
        self.tree.mortal.clear()
        self.tree.quotas.clear()
        self.tree.data_size = 0
        self.sessions.clear()
        self.proxies.clear()
        self.markers.clear()
        self._counters.clear()

    def load(self, pairs: Iterable[KeyValue]) -> None:
        """Take in a part of a first load; nothing fires. `loaded` ends it."""
        for pair in pairs:
            self._apply(_Change(PUT, pair), [], None)

    def loaded(self, revision: int) -> None:
        """The first load is complete as of `revision`."""
        for path in self.tree.nodes:
            if path != "/":
                self.tree.link(path)  # children may have come before their parents
        self.tree.data_size += self.tree.quotas.settle()
        self._counters.clear()
        self._reach(revision)

    def apply(self, events: Sequence[Event]) -> None:
        """Apply messages of the watch stream: whole revisions, in order."""
        if not events:
            return
        revision = _revision_of(events[-1])
        if _revision_of(events[0]) == revision:  # as mostly, when nothing has to be caught up with
            if revision > self.revision:
                self._apply_revision(revision, events)
            return
        for revision, group in groupby(events, key=_revision_of):
            if revision > self.revision:
                self._apply_revision(revision, group)

    def replace(self, pairs: Sequence[KeyValue], revision: int) -> None:
        """Bring the mirror to a new load after a gap in the stream: what differs is one revision's change."""
        former = self.record
        for pair in pairs:
            if pair.key == self._keys.tree:  # it says what the zxids of all others are
                self._set_record(decode_tree(pair.value))
        # After a restore from a backup the same revision may stand for something else.
        restored = former is not None and self.record is not None and former.offsets != self.record.offsets
        changes, missed = self._differences(pairs, restored=restored)
        self._apply_revision(revision, changes, missed)
        # Sessions that came and went within the gap have left no other trace than their ephemerals.
        for session_id in self.tree.orphans(self.sessions):
            self._listener.session_changed(session_id, None)

    def _differences(
        self, pairs: Sequence[KeyValue], *, restored: bool
    ) -> tuple[list[_Change], list[TreeEvent]]:
        """What to apply, and the events that it does not show: of children that came and went meanwhile."""
        keys = self._keys
        tree = self.tree
        nodes: list[tuple[str, _Change]] = []
        recreated: set[str] = set()
        others: list[_Change] = []
        recounted: list[str] = []
        seen_nodes: set[str] = set()
        seen_counters: set[str] = set()
        seen_sessions: set[int] = set()
        proxies: set[str] = set()
        markers: set[str] = set()
        for pair in pairs:
            try:
                kind, name = keys.parse(pair.key)
            except ForeignKey:
                continue
            change = _Change(PUT, pair)
            if kind is Kind.NODE:
                seen_nodes.add(name)
                node = tree.nodes.get(name)
                if node is None or node.mod != pair.mod_revision or restored:
                    nodes.append((name, change))
                    if node is not None and self._czxid(pair) != node.czxid:
                        recreated.add(name)
            elif kind is Kind.COUNTER:
                seen_counters.add(name)
                node = tree.nodes.get(name)
                if (
                    node is None
                    or node.counter_mod != pair.mod_revision
                    or (restored and self._counts_other(node, pair))
                ):
                    others.append(change)
                    recounted.append(name)
            elif kind is Kind.SESSION:
                session_id = session_id_of(name)
                seen_sessions.add(session_id)
                record = self.sessions.get(session_id)
                if record is None or record.mod != pair.mod_revision or restored:
                    others.append(change)
            elif kind is Kind.PROXY:
                proxies.add(name)
            elif kind is Kind.MARKER:
                markers.add(name)
        self.proxies = proxies
        self.markers = markers
        nodes.sort(key=lambda item: item[0].count("/"))
        gone = sorted(
            (tree.nodes.keys() - seen_nodes) | recreated, key=lambda path: path.count("/"), reverse=True
        )
        lost = [
            path
            for path, node in tree.nodes.items()
            if node.counter_mod and path in seen_nodes and path not in seen_counters
        ]
        deletions = [
            _Change(DELETE, KeyValue(key, b"", 0, 0, 0, 0))
            for key in (
                *(keys.node(path) for path in gone),
                *(keys.counter(path) for path in lost),
                *(keys.session(session_id) for session_id in self.sessions.keys() - seen_sessions),
            )
        ]
        told = {parent_of(path) for path in gone}
        told.update(parent_of(path) for path, _ in nodes if path not in tree.nodes)
        missed = [
            TreeEvent(EventType.NODE_CHILDREN_CHANGED, path, tree.nodes[path].acl)
            for path in recounted
            if path in tree.nodes and path not in told and path not in gone
        ]
        return [*deletions, *(change for _, change in nodes), *others], missed

    def _reach(self, revision: int) -> None:
        self.revision = revision
        self.zxid = self.zxid_of(revision)

    def _apply_revision(
        self, revision: int, events: Iterable[Event], missed: Iterable[TreeEvent] = ()
    ) -> None:
        fired: list[TreeEvent] = []
        covered: set[str] | None = None
        sessions: list[int] = []
        self._watched = bool(self._watches)
        for event in events:
            covered = self._apply(event, fired, covered, sessions)
        self._own = None
        fired += missed
        if self.tree.quotas.stale:
            self.tree.data_size += self.tree.quotas.settle()
        self._reach(revision)
        if fired and self._watched:
            self._fire(fired)
        for session_id in sessions:
            self._listener.session_changed(session_id, self.sessions.get(session_id))
        self._listener.applied(revision)

    def _apply(
        self,
        event: Event,
        fired: list[TreeEvent],
        covered: set[str] | None,
        sessions: list[int] | None = None,
    ) -> set[str] | None:
        """Apply one event; returns the paths whose events an explicit list has told already."""
        kv = event.kv
        key = kv.key
        if key.startswith(self._node_space):
            entry = None if self._own is None else self._own.get(key)
            if entry is not None:
                path = entry.path
                change = self._put_own(entry, kv.mod_revision)
            else:
                try:
                    path = self._keys.path_of_node(key)
                except ForeignKey:
                    return covered
                if event.type == PUT:
                    change = self._put_node(path, kv.value, kv.create_revision, kv.mod_revision)
                else:
                    change = self._delete_node(path)
            if change is not None and self._watched and (covered is None or path not in covered):
                fired.append(TreeEvent(change[0], path, change[1]))
        elif key.startswith(self._counter_start):
            path = key[self._counter_space :].decode()
            if event.type == PUT:
                self._put_counter(path, kv.value, kv.mod_revision)
            else:
                self._delete_counter(path)
        else:
            covered = self._apply_other(event, fired, covered, sessions)
        return covered

    def _apply_other(
        self, event: Event, fired: list[TreeEvent], covered: set[str] | None, sessions: list[int] | None
    ) -> set[str] | None:
        kv = event.kv
        try:
            kind, name = self._keys.parse(kv.key)
        except ForeignKey:
            return covered
        if kind is Kind.SESSION:
            session_id = session_id_of(name)
            if event.type == PUT:
                self.sessions[session_id] = SessionRecord(decode_session(kv.value), kv.mod_revision)
            else:
                self.sessions.pop(session_id, None)
            if sessions is not None:
                sessions.append(session_id)
        elif kind is Kind.EVENTS and event.type == PUT and sessions is not None:
            listed = decode_events(kv.value)
            fired += listed
            return (covered or set()).union(event.path for event in listed)
        elif kind is Kind.TREE:
            if event.type == PUT:
                self._set_record(decode_tree(kv.value))
            else:
                self.gone = True
        elif kind is Kind.PROXY:
            _keep(self.proxies, name, event.type == PUT)
        elif kind is Kind.LOSS and event.type == PUT and sessions is not None:
            self._listener.lost(name, *decode_loss(kv.value))
        elif kind is Kind.MARKER:
            _keep(self.markers, name, event.type == PUT)
            if event.type == PUT and sessions is not None:
                self._own = self._listener.marked(kv.key, kv.value)
        return covered

    def _set_record(self, record: TreeRecord) -> None:
        self.record = record
        self._offset_from, self._offset = record.offsets[-1]

    def _czxid(self, pair: KeyValue) -> int:
        value = decode_node(pair.value)
        if value.czxid is not None:
            return value.czxid
        return self.zxid_of(pair.mod_revision if value.czxid_is_mod else pair.create_revision)

    def _counts_other(self, node: Node, pair: KeyValue) -> bool:
        created, pzxid = decode_counter(pair.value)
        return (node.created, node.pzxid) != (
            created,
            self.zxid_of(pair.mod_revision) if pzxid is None else pzxid,
        )

    def _put_node(
        self, path: str, value: bytes, create_revision: int, mod: int
    ) -> tuple[int, tuple[Acl, ...]] | None:
        """Take in a node's value; returns the kind of change and the ACL, None if no watch fires for it."""
        data, acl, owner, ctime, mtime, version, aversion, czxid, mzxid, czxid_is_mod = fields_of_node(value)
        explicit = czxid is not None or czxid_is_mod
        if czxid is None and create_revision != mod and not czxid_is_mod:
            czxid = self.zxid_of(create_revision)
        return self._enter(
            path, data, acl, owner, ctime, mtime, version, aversion, czxid, mzxid, explicit, mod
        )

    def _put_own(self, entry: Entry, mod: int) -> tuple[int, tuple[Acl, ...]] | None:
        """`_put_node` of what this proxy has put itself, from the draft that it came of."""
        return self._enter(
            entry.path,
            entry.data,
            entry.acl,
            entry.owner,
            entry.ctime,
            entry.mtime,
            entry.version,
            entry.aversion,
            None if entry.czxid == PENDING else entry.czxid,
            None if entry.mzxid == PENDING else entry.mzxid,
            entry.explicit_czxid,
            mod,
        )

    def _enter(
        self,
        path: str,
        data: bytes | None,
        acl: tuple[Acl, ...],
        owner: int,
        ctime: int,
        mtime: int,
        version: int,
        aversion: int,
        czxid: int | None,
        mzxid: int | None,
        explicit_czxid: bool,
        mod: int,
    ) -> tuple[int, tuple[Acl, ...]] | None:
        """Make the tree show a node as it is now. A zxid that is None is that of the revision `mod`."""
        tree = self.tree
        # `zxid_of`, without a call
        zxid = mod + self._offset if mod >= self._offset_from else self.zxid_of(mod)
        if czxid is None:
            czxid = zxid
        if mzxid is None:
            mzxid = zxid
        node = tree.nodes.get(path)
        children: set[str] | None = None
        if node is not None and node.czxid != czxid:
            # Deleted and created again within one revision. Children that were too may have come before it,
            # and those that are gone for good may leave after it.
            children = node.children
            tree.detach(path)
            node = None
        if node is None:
            kind = _CREATED
            node = Node()
            node.children = children
            if self._counters:
                node.created, node.counter_mod, pzxid = self._counters.pop(path, _UNCOUNTED)
                if pzxid is None:
                    pzxid = self.zxid_of(node.counter_mod) if node.counter_mod else czxid
                node.pzxid = pzxid
            else:
                node.created = node.counter_mod = 0
                node.pzxid = czxid
            node.owner = owner
            node.data = data
            tree.attach(path, node)
        else:
            # A new ACL leaves mzxid as it was; after a gap in the stream the data may have changed before it.
            kind = _NONE if mzxid == node.mzxid else _DATA_CHANGED
            tree.data_size += len(data or b"") - len(node.data or b"")
            if tree.quotas:
                tree.quotas.changed(path, node.data, data)
            node.data = data
            node.changed()
        node.acl = acl
        node.czxid = czxid
        node.mzxid = mzxid
        node.ctime = ctime
        node.mtime = mtime
        node.version = version
        node.aversion = aversion
        node.mod = mod
        node.explicit_czxid = explicit_czxid
        return None if kind == _NONE else (kind, acl)

    def _delete_node(self, path: str) -> tuple[int, tuple[Acl, ...]] | None:
        """Take a node out; returns as `_put_node`."""
        node = self.tree.detach(path)
        return None if node is None else (_DELETED, node.acl)

    def _put_counter(self, path: str, value: bytes, mod: int) -> None:
        created, pzxid = decode_counter(value)
        node = self.tree.nodes.get(path)
        if node is None:
            self._counters[path] = (created, mod, pzxid)
            return
        node.created = created
        node.counter_mod = mod
        node.pzxid = self.zxid_of(mod) if pzxid is None else pzxid
        node.changed()

    def _delete_counter(self, path: str) -> None:
        self._counters.pop(path, None)
        node = self.tree.nodes.get(path)
        if node is not None:
            node.created = node.counter_mod = 0
            node.pzxid = node.czxid
            node.changed()

    def _fire(self, fired: Sequence[TreeEvent]) -> None:
        zxid = self.zxid
        nodes = self.tree.nodes
        gone: dict[str, Sequence[Acl]] | None = None
        for kind, path, acl in fired:
            parent_acl: Sequence[Acl] = ()
            if kind != _DATA_CHANGED:
                above = parent_of(path)
                parent = nodes.get(above)
                if parent is not None:
                    parent_acl = parent.acl
                else:  # deleted in the same revision
                    if gone is None:
                        gone = {event.path: event.acl for event in fired}
                    parent_acl = gone.get(above, ())
            self._watches.fire(kind, path, zxid, acl, parent_acl)


def _revision_of(event: Event) -> int:
    return event.kv.mod_revision


def _keep(names: set[str], name: str, present: bool) -> None:
    if present:
        names.add(name)
    else:
        names.discard(name)
