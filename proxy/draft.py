"""What the writes of one batch would make of the tree: an overlay on the mirror, with a way back.

Pure. Operations read and change `Entry` objects through a `Draft`; the draft notes for each request what it
looked at (the footprint, from which the guards come), what it changed, and the events in their order. The
mirror's tree itself is never touched.
"""

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from codec.constants import EventType
from codec.jute import Acl
from proxy.rules import DEFAULT_RULES, Rules
from proxy.tree import Node, Tree, session_of, wrap_int
from schema.paths import parent_of, split
from schema.values import OPEN_ACL, SessionValue

if TYPE_CHECKING:
    from proxy.batch import Component

# A zxid that is known only once etcd has answered: that of the Txn being drafted.
PENDING = -1

# Plain numbers: looking up an enum's member costs more than using it.
_CREATED = int(EventType.NODE_CREATED)
_DELETED = int(EventType.NODE_DELETED)
_DATA_CHANGED = int(EventType.NODE_DATA_CHANGED)

# A zxid or mod_revision that a Txn in flight will make: that of the draft which this one is ahead of.
FORESEEN = -2

# What a request did to a path.
GUARD_NODE = 1  # its answer holds only while the node's key is unchanged
GUARD_COUNTER = 2  # ... only while the set of its children is unchanged
CHANGE = 4  # it changed the node or its counter

# What a delete takes in a Txn besides its path; a parent's counter takes that much, and the path, twice.
_BYTES_OF_DELETE = 64

StatFields = tuple[int, int, int, int, int, int, int, int, int, int, int]

# A change that watches fire for: the event's type, the entry, and its ACL at that moment. A plain tuple, for
# every write makes one and hardly any is looked at.
DraftEvent: TypeAlias = "tuple[int, Entry, tuple[Acl, ...]]"


class Held(Exception):
    """A Txn in flight changes this path or session; the request has to wait for `holder`.

    None stands for the Txn that the draft is ahead of.
    """

    def __init__(self, holder: object) -> None:
        super().__init__(holder)
        self.holder = holder


class Entry:
    """One path in a draft: its fields as they would be, and the revisions on which they rest.

    The revisions are copied, for the mirror's node may move on before the batch is planned. A node that was
    never there has the first ten only.
    """

    __slots__ = (
        "acl",
        "aversion",
        "child_count",
        "component",
        "counter_changed",
        "counter_mod",
        "created",
        "ctime",
        "czxid",
        "data",
        "event_count",
        "exists",
        "explicit_czxid",
        "flags",
        "mod",
        "mtime",
        "mzxid",
        "node_changed",
        "owner",
        "path",
        "pzxid",
        "version",
    )

    path: str
    mod: int  # mod_revision of the node's key before the batch; 0: there was none
    counter_mod: int
    exists: bool
    data: bytes | None
    acl: tuple[Acl, ...]
    created: int
    child_count: int
    pzxid: int
    explicit_czxid: bool
    owner: int
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    aversion: int
    node_changed: bool
    counter_changed: bool
    event_count: int
    flags: int  # GUARD_NODE, GUARD_COUNTER, CHANGE of all accepted requests
    component: "Component | None"

    def __init__(self, path: str, before: Node | None) -> None:
        self.path = path
        self.node_changed = self.counter_changed = False
        self.event_count = self.flags = 0
        self.component = None
        if before is None:
            self.exists = self.explicit_czxid = False
            self.mod = self.counter_mod = self.created = self.child_count = self.pzxid = 0
            self.data = None
            self.acl = OPEN_ACL
            return
        self.exists = True
        self.explicit_czxid = before.explicit_czxid
        self.mod = before.mod
        self.counter_mod = before.counter_mod
        self.data = before.data
        self.acl = before.acl
        self.owner = before.owner
        self.czxid = before.czxid
        self.mzxid = before.mzxid
        self.pzxid = before.pzxid
        self.ctime = before.ctime
        self.mtime = before.mtime
        self.version = before.version
        self.aversion = before.aversion
        self.created = before.created
        self.child_count = len(before.children) if before.children else 0

    def follow(self, before: "Entry") -> None:
        """Be what the path will be once the batch of `before` is applied; `settle` tells the revision."""
        self.exists = before.exists
        if not before.exists:
            return
        created = before.czxid == PENDING
        self.mod = FORESEEN if before.node_changed else before.mod
        if before.counter_changed:
            self.counter_mod = FORESEEN
        elif not created:
            self.counter_mod = before.counter_mod
        self.explicit_czxid = before.mod != 0 if created else before.explicit_czxid
        self.czxid = FORESEEN if created else before.czxid
        self.mzxid = FORESEEN if before.mzxid == PENDING else before.mzxid
        self.pzxid = FORESEEN if before.pzxid == PENDING else before.pzxid
        self.data = before.data
        self.acl = before.acl
        self.owner = before.owner
        self.ctime = before.ctime
        self.mtime = before.mtime
        self.version = before.version
        self.aversion = before.aversion
        self.created = before.created
        self.child_count = before.child_count

    def settle(self, revision: int, zxid: int) -> None:
        """What was foreseen has come about, at that revision."""
        if not self.exists and not self.mod:
            return
        if self.mod == FORESEEN:
            self.mod = revision
        if self.counter_mod == FORESEEN:
            self.counter_mod = revision
        if self.czxid == FORESEEN:
            self.czxid = zxid
        if self.mzxid == FORESEEN:
            self.mzxid = zxid
        if self.pzxid == FORESEEN:
            self.pzxid = zxid

    def stat(self) -> StatFields:
        """The Stat at this point of the batch; zxids of the batch itself are PENDING.

        Raises Held if another's are not known yet.
        """
        if FORESEEN in (self.czxid, self.mzxid, self.pzxid):
            raise Held(None)
        return (
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            wrap_int(2 * self.created - self.child_count),
            self.aversion,
            session_of(self.owner),
            len(self.data) if self.data else 0,
            self.child_count,
            self.pzxid,
        )


# The ways back. Each change of a request notes its own, with no more than it overwrites; what one finds is as
# its change left it, for the later changes have been undone before.


def _uncount(parent: Entry, created: int, child_count: int, pzxid: int, counter_changed: bool) -> None:
    """A child came or went."""
    parent.created = created
    parent.child_count = child_count
    parent.pzxid = pzxid
    parent.counter_changed = counter_changed


def _uncreate(
    entry: Entry, parent: Entry, created: int, child_count: int, pzxid: int, counter_changed: bool
) -> None:
    """The node was never there before. One note for it and its parent, since multis hold mostly these."""
    entry.exists = entry.node_changed = False
    entry.data = None
    entry.event_count = 0
    _uncount(parent, created, child_count, pzxid, counter_changed)


# What of an entry a create in the place of a deleted node overwrites.
_OVERWRITTEN = (
    "exists",
    "data",
    "acl",
    "owner",
    "czxid",
    "mzxid",
    "pzxid",
    "ctime",
    "mtime",
    "version",
    "aversion",
    "created",
    "child_count",
    "node_changed",
    "counter_changed",
    "event_count",
)


def _unreplace(entry: Entry, *former: Any) -> None:
    """The node was there before, and had been deleted."""
    for name, value in zip(_OVERWRITTEN, former, strict=True):
        setattr(entry, name, value)


def _undelete(entry: Entry, data: bytes | None, node_changed: bool) -> None:
    entry.exists = True
    entry.data = data
    entry.node_changed = node_changed
    entry.event_count -= 1


def _unset(
    entry: Entry, data: bytes | None, version: int, mzxid: int, mtime: int, node_changed: bool
) -> None:
    entry.data = data
    entry.version = version
    entry.mzxid = mzxid
    entry.mtime = mtime
    entry.node_changed = node_changed
    entry.event_count -= 1


def _unset_acl(entry: Entry, acl: tuple[Acl, ...], aversion: int, node_changed: bool) -> None:
    entry.acl = acl
    entry.aversion = aversion
    entry.node_changed = node_changed


class SessionRecord(NamedTuple):
    """A session as its key in etcd has it; `mod` is the key's mod_revision."""

    value: SessionValue
    mod: int


class SessionChange(NamedTuple):
    """What a request does to a session's record: the new value under its lease, or None to delete it."""

    session_id: int
    value: SessionValue | None


class Draft:
    """The overlay of one batch. One request at a time: `begin`, operations, then keep it or `rollback`."""

    __slots__ = (
        "_by_parent",
        "_followed",
        "_journal",
        "_locks",
        "_session_values",
        "_sessions",
        "_sorted",
        "_tree",
        "_undoable",
        "ahead_of",
        "entries",
        "footprint",
        "now",
        "quotas",
        "request_events",
        "rules",
        "session_changes",
        "session_guards",
    )

    def __init__(
        self,
        tree: Tree,
        sessions: Mapping[int, SessionRecord],
        locks: Mapping[str, object],
        now: int,
        rules: Rules = DEFAULT_RULES,
        ahead_of: "tuple[object, Draft] | None" = None,
    ) -> None:
        """`locks`: paths that Txns in flight change, each with its holder. `now`: ms since 1970.

        `ahead_of`: a holder and its draft. The requests are evaluated as if that had been applied already, as
        far as can be told; this draft's batch may go out once all of it has, and `settle` knows when.
        """
        self.ahead_of = ahead_of
        self._followed: list[Entry] = []
        self._tree = tree
        self._sessions = sessions
        self._session_values: dict[int, SessionValue | None] = {}  # what kept requests have made of them
        self._locks = locks
        self._undoable = True
        self._journal: list[tuple[Any, ...]] = []  # each a way back and what it takes
        self.now = now
        self.rules = rules
        self.quotas = tree.quotas  # as of what is applied: what this draft would make of them does not count
        self.entries: dict[str, Entry] = {}
        self._by_parent: dict[str, list[Entry]] = {}  # the first `_sorted` of the entries, for `subtree`
        self._sorted = 0
        self.footprint: list[tuple[Entry, int]] = []
        self.request_events: list[DraftEvent] = []
        self.session_changes: list[SessionChange] = []
        self.session_guards: dict[int, int] = {}

    def begin(self, *, undoable: bool = True) -> None:
        """Start the next request: an empty footprint, nothing to roll back.

        Without `undoable`, what it changes stays: for operations that check all before, in a batch that has
        room for them in any case.
        """
        self._undoable = undoable
        if self.session_changes:
            for change in self.session_changes:
                self._session_values[change.session_id] = change.value
            self.session_changes = []
        if self._journal:
            self._journal = []
        self.footprint = []
        self.request_events = []
        if self.session_guards:
            self.session_guards = {}

    def rollback(self) -> None:
        """Undo what the current request changed; its footprint stays, for its refusal rests on it."""
        for undo, *former in reversed(self._journal):
            undo(*former)
        self._journal = []
        self.request_events = []
        self.session_changes = []
        # What was looked at still guards the refusal; nothing is changed any more.
        self.footprint = [(entry, flags & ~CHANGE) for entry, flags in self.footprint]

    def look(self, path: str, flags: int) -> Entry:
        """The entry of a path, noting why it is looked at. Raises Held if a Txn in flight changes it."""
        entry = self.entries.get(path)
        if entry is None:
            holder = self._locks.get(path)
            if holder is None:
                entry = self.entries[path] = Entry(path, self._tree.nodes.get(path))
            else:
                entry = self.entries[path] = self._follow(path, holder)
        self.footprint.append((entry, flags))
        return entry

    def _follow(self, path: str, holder: object) -> Entry:
        """The entry of a path that a Txn in flight changes."""
        if self.ahead_of is None or self.ahead_of[0] is not holder:
            raise Held(holder)
        entry = Entry(path, None)
        entry.follow(self.ahead_of[1].entries[path])
        self._followed.append(entry)
        return entry

    def settle(self, revision: int, zxid: int) -> None:
        """The draft that this one is ahead of has been applied."""
        for entry in self._followed:
            entry.settle(revision, zxid)
        self._followed = []
        self.ahead_of = None

    @property
    def sessions_changed(self) -> bool:
        """Whether kept requests have changed a session's record."""
        return bool(self._session_values or self.session_changes)

    def reserves(self, path: str) -> bool:
        """Whether a path, at which nothing is, belongs to the server itself (see Tree.reserves)."""
        return self._tree.reserves(path)

    def unchanged_since(self, place: int) -> None:
        """What was looked at from that place of the footprint on has not been changed after all."""
        self.footprint[place:] = [(entry, flags & ~CHANGE) for entry, flags in self.footprint[place:]]

    def subtree(self, path: str, limit: int) -> tuple[list[str], bool]:
        """A node and what is below it at this point of the batch, parents first, and whether that is all.

        Not if it were more than `limit` nodes: then it ends before the children that are too many.
        Raises Held if it depends on another Txn.
        """
        if self.ahead_of is not None:
            raise Held(None)
        drafted = self._by_parent
        # Only what has come since the last time: a multi may ask for thousands of subtrees.
        for entry in islice(reversed(self.entries.values()), len(self.entries) - self._sorted):
            drafted.setdefault(split(entry.path)[0], []).append(entry)
        self._sorted = len(self.entries)
        found = [path]
        for parent in found:
            node = self._tree.nodes.get(parent)
            names = node.children if node is not None and node.children else ()
            children = {f"{parent}/{name}" for name in names}
            for entry in drafted.get(parent, ()):
                if entry.exists:
                    children.add(entry.path)
                else:
                    children.discard(entry.path)
            if len(found) + len(children) > limit:
                return found, False
            found += sorted(children)
        return found, limit > 0

    def create(
        self, parent: Entry, entry: Entry, data: bytes | None, acl: tuple[Acl, ...], owner: int
    ) -> None:
        """Create a node; that it is absent and may be created has been checked."""
        if self._undoable:
            if entry.mod or entry.event_count:
                self._note_count(parent)
                self._journal.append((_unreplace, entry, *(getattr(entry, name) for name in _OVERWRITTEN)))
            else:
                counts = (parent.created, parent.child_count, parent.pzxid, parent.counter_changed)
                self._journal.append((_uncreate, entry, parent, *counts))
        parent.created = wrap_int(parent.created + 1)
        parent.child_count += 1
        parent.pzxid = PENDING
        parent.counter_changed = True
        entry.exists = entry.node_changed = True
        entry.data = data
        entry.acl = acl
        entry.owner = owner
        entry.czxid = entry.mzxid = entry.pzxid = PENDING
        entry.ctime = entry.mtime = self.now
        entry.version = entry.aversion = entry.created = entry.child_count = 0
        entry.counter_changed = False
        entry.event_count += 1
        self.request_events.append((_CREATED, entry, acl))

    def delete(self, parent: Entry, entry: Entry) -> None:
        """Delete a node; that it exists and is empty has been checked."""
        if self._undoable:
            self._note_count(parent)
            self._journal.append((_undelete, entry, entry.data, entry.node_changed))
        parent.child_count -= 1
        parent.pzxid = PENDING
        parent.counter_changed = True
        entry.exists = False
        entry.data = None
        entry.node_changed = True
        entry.event_count += 1
        self.request_events.append((_DELETED, entry, entry.acl))

    def set_data(self, entry: Entry, data: bytes | None) -> None:
        """Give a node new data."""
        if self._undoable:
            self._journal.append(
                (_unset, entry, entry.data, entry.version, entry.mzxid, entry.mtime, entry.node_changed)
            )
        entry.data = data
        entry.version = wrap_int(entry.version + 1)
        entry.mzxid = PENDING
        entry.mtime = self.now
        entry.node_changed = True
        entry.event_count += 1
        self.request_events.append((_DATA_CHANGED, entry, entry.acl))

    def set_acl(self, entry: Entry, acl: tuple[Acl, ...]) -> None:
        """Give a node a new ACL; watches do not fire for it."""
        if self._undoable:
            self._journal.append((_unset_acl, entry, entry.acl, entry.aversion, entry.node_changed))
        entry.acl = acl
        entry.aversion = wrap_int(entry.aversion + 1)
        entry.node_changed = True

    def _note_count(self, parent: Entry) -> None:
        self._journal.append(
            (_uncount, parent, parent.created, parent.child_count, parent.pzxid, parent.counter_changed)
        )

    def ephemerals(self, session_id: int) -> list[str]:
        """Paths of a session's ephemerals at this point of the batch. Raises Held as `subtree`."""
        if self.ahead_of is not None:
            raise Held(None)
        owned = set(self._tree.ephemerals.get(session_id, ()))
        for path, entry in self.entries.items():
            if entry.exists and session_of(entry.owner) == session_id:
                owned.add(path)
            elif path in owned:
                owned.discard(path)
        return sorted(owned)

    def delete_ephemerals(self, session_id: int, room: int) -> None:
        """Delete what a session owns, as closeSession does: all, or what takes about `room` bytes.

        At least one, that it comes to an end.
        """
        parents: set[str] = set()
        for path in self.ephemerals(session_id):
            if room <= 0:
                return
            room -= len(path.encode()) + _BYTES_OF_DELETE
            if parent_of(path) not in parents:
                parents.add(parent_of(path))
                room -= 2 * (len(parent_of(path).encode()) + _BYTES_OF_DELETE)
            parent = self.look(parent_of(path), GUARD_COUNTER | CHANGE)
            self.delete(parent, self.look(path, CHANGE))

    def session(self, session_id: int) -> SessionRecord | None:
        """A session's record, guarded from here on: the request's answer holds only while it is unchanged.

        What follows a closeSession in its batch finds no session any more.
        """
        record = self._sessions.get(session_id)
        mod = self.session_guards[session_id] = 0 if record is None else record.mod
        if session_id in self._session_values:
            value = self._session_values[session_id]
            return None if value is None else SessionRecord(value, mod)
        return record

    def change_session(self, session_id: int, value: SessionValue | None) -> None:
        """Put or delete a session's record."""
        self.session_changes.append(SessionChange(session_id, value))
