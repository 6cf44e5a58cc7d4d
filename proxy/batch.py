"""Requests evaluated together on one draft, in components that share no path and no session.

Pure. `add` evaluates one request and keeps it if the whole still fits into one Txn of stock etcd; `plan`
turns the batch into that Txn.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from codec.constants import ErrorCode
from proxy.acl import Caller
from proxy.draft import CHANGE, PENDING, Draft, DraftEvent, Entry, SessionChange, SessionRecord
from proxy.operation import WriteOperation
from proxy.refusal import Refusal
from proxy.rules import DEFAULT_RULES, Rules
from proxy.tree import Tree
from proxy.watches import HeldWatches
from schema.values import TreeEvent

# Room in one Txn, so that its outer level, one component and its chunks of puts stay below etcd's
# --max-txn-ops (128, counted along a chain: DESIGN 4.9): components + the largest one's guards or chunks
# <= WIDTH, each chunk CHUNK operations.
WIDTH = 92
CHUNK = 32
# Of etcd's --max-request-bytes (1.5 MiB); a single larger request is tried all the same.
MAX_BYTES = 1 << 20
# More would only make proxy and etcd take turns instead of working side by side (measured).
MAX_REQUESTS = 512


class Request:
    """One write of one session on its way through batches, until `done` tells its answer."""

    __slots__ = (
        "attempts",
        "caller",
        "done",
        "fields",
        "of_session",
        "operation",
        "reads",
        "refusal",
        "result",
        "size",
        "solo",
    )

    def __init__(
        self,
        operation: WriteOperation,
        fields: Any,
        caller: Caller,
        size: int,
        done: Callable[["Request", int], None],
        *,
        of_session: bool = True,
        solo: bool = False,
    ) -> None:
        """`size`: bytes on the wire. `done(request, zxid)` is called once `result` or `refusal` is final.

        `of_session`: needs a living session of this proxy. `solo`: never shares a Txn with another request.
        """
        self.operation = operation
        self.fields = fields
        self.caller = caller
        self.size = size
        self.done = done
        self.of_session = of_session
        self.solo = solo
        self.attempts = 0
        self.result: Any = None
        self.refusal: ErrorCode | None = None
        # Raw paths that its session reads between its last write and this one. If both are in one Txn, these
        # reads are answered after it (docs/decisions/0013).
        self.reads: Collection[bytes] | None = None


class Component:
    """Requests connected by paths or sessions: they succeed or fail together."""

    __slots__ = (
        "entries",
        "events",
        "guards",
        "merged_into",
        "requests",
        "session_changes",
        "session_guards",
        "writes",
    )

    def __init__(self) -> None:
        self.merged_into: Component | None = None
        self.requests: list[Request] = []
        self.entries: list[Entry] = []
        self.events: list[DraftEvent] = []
        self.session_guards: dict[int, int] = {}
        self.session_changes: list[SessionChange] = []
        self.guards = 0  # compares, at most
        self.writes = 0  # puts and deletes, at most

    @property
    def changes_nothing(self) -> bool:
        """Whether it only answers, and leaves nothing in the tree to tell by."""
        return not self.session_changes and not any(
            entry.node_changed or entry.counter_changed for entry in self.entries
        )

    def root(self) -> "Component":
        """The component that this one has become part of."""
        component = self
        while component.merged_into is not None:
            component = component.merged_into
        return component

    def absorb(self, other: "Component") -> None:
        """Make `other` part of this one."""
        other.merged_into = self
        self.requests += other.requests
        self.entries += other.entries
        self.events += other.events
        self.session_guards.update(other.session_guards)
        self.session_changes += other.session_changes
        self.guards += other.guards
        self.writes += other.writes


# Compares, and puts or deletes, for each combination of GUARD_NODE, GUARD_COUNTER and CHANGE, at most.
_GUARDS = (0, 1, 1, 2, 0, 1, 1, 2)
_WRITES = (0, 0, 1, 1, 1, 1, 2, 2)


# Refusals for want of a session.
_NO_SESSION = (ErrorCode.SESSION_EXPIRED, ErrorCode.SESSION_MOVED)

# What a single operation can add: node and counter of two paths, a session, a component.
_MOST_OF_ONE = 8
# Components that an operation which checks first can merge into one: of a parent, a node and a session.
_MOST_MERGED = 3
# A request's bytes come at most this often in its Txn (a path in keys, guards and counters).
_MOST_COPIES = 6
_ENTRY_BYTES = 160  # what a path costs besides itself: prefix, header, protobuf around key, value and guards


def events_of(events: Iterable[DraftEvent]) -> list[TreeEvent]:
    """What a draft notes of changes as watches see them."""
    return [TreeEvent(kind, entry.path, acl) for kind, entry, acl in events]


def _meet(component: Component, target: Component | None, others: list[Component]) -> Component:
    """Note a component that a request touches beside `target`, or as the first; returns the first."""
    if target is None:
        return component
    if component is not target and component not in others:
        others.append(component)
    return target


class Later(Exception):
    """The request goes into a later batch, since all events of one Txn come before all its replies.

    It fires a watch of its own session, which has an earlier request in this batch, and the event has to come
    after the reply to that one. Or it changes what a session reads before a write that is in this batch: the
    read is answered after the Txn, and must not see it (docs/decisions/0013).
    """


class Batch:
    """One draft and the requests accepted on it."""

    __slots__ = (
        "_alone",
        "_ample",
        "_by_session",
        "_components",
        "_crowded",
        "_incarnation",
        "_load",
        "_proven",
        "_reads",
        "_size",
        "_watches",
        "_watches_of",
        "_widest",
        "draft",
        "requests",
        "revision",
        "wide",
    )

    def __init__(
        self,
        tree: Tree,
        sessions: Mapping[int, SessionRecord],
        locks: Mapping[str, object],
        incarnation: str,
        revision: int,
        now: int,
        watches_of: Callable[[int], HeldWatches | None] = lambda _: None,
        rules: Rules = DEFAULT_RULES,
        ahead_of: tuple[object, Draft] | None = None,
    ) -> None:
        """`revision`: the etcd revision that the tree and sessions show. `now`: ms since 1970.

        `watches_of`: what a session itself watches. `ahead_of`: see Draft.
        """
        self.draft = Draft(tree, sessions, locks, now, rules, ahead_of)
        self.revision = revision
        self.requests: list[Request] = []
        self.wide = False  # one request that needs more guards than a Txn has room for
        self._incarnation = incarnation
        self._watches_of = watches_of
        self._watches: dict[int, HeldWatches | None] = {}  # of sessions asked for: nothing moves meanwhile
        self._alone = False  # nothing may join what is there
        self._components: dict[Component, None] = {}
        self._crowded = False  # whether the next request might not fit
        self._ample = 0  # a load up to which there is room for any request, if no more components come
        self._by_session: dict[int, Component] = {}  # whose records are guarded
        self._proven: dict[int, Component] = {}  # ... and are alive and ours
        self._size = 0
        self._widest = 0
        self._reads: set[bytes] = set()  # what sessions read between two requests of theirs in this batch
        self._load = 0  # guards and chunks of all components: what one would have if all were merged

    @property
    def components(self) -> list[Component]:
        """The components, in order of their first requests."""
        return list(self._components)

    def add(self, request: Request) -> bool:
        """Evaluate a request; False if it does not fit into this batch.

        Raises Held if it has to wait for a Txn in flight, Later if for another batch; nothing changes then.
        """
        requests = self.requests
        if requests and (self._alone or request.solo or len(requests) >= MAX_REQUESTS):
            return False
        draft = self.draft
        size = request.size
        operation = request.operation
        # Where there is room in any case, nothing that checks first needs a way back.
        crowded = self._size + _MOST_COPIES * size + 4 * _ENTRY_BYTES > MAX_BYTES
        if crowded and requests and self._size + size > MAX_BYTES:
            return False  # known without a costly look at what is in it
        crowded = crowded or self._crowded or not operation.checks_first
        watches = None
        home = None
        proves = request.of_session
        session_id = request.caller.session_id
        if proves:
            home = self._proven.get(session_id)
            if home is not None:
                try:
                    watches = self._watches[session_id]
                except KeyError:
                    watches = self._watches[session_id] = self._watches_of(session_id)
                proves = draft.sessions_changed
        may_wait = watches is not None or bool(self._reads) or draft.ahead_of is not None
        draft.begin(undoable=crowded or may_wait)
        request.refusal = None
        try:
            if proves:
                self._demand_session(session_id)
            request.result = operation.apply(draft, request.caller, request.fields)
            if watches is not None and watches.tell(events_of(draft.request_events)):
                raise Later
            if self._reads and self._changes_what_is_read():
                raise Later
        except Refusal as refusal:
            draft.rollback()
            request.refusal = refusal.code
            proves = proves and refusal.code not in _NO_SESSION
        except BaseException:
            draft.rollback()
            raise
        if not self._accept(request, home, crowded=crowded):
            draft.rollback()
            return False
        if proves:
            self._proven[session_id] = self._by_session[session_id]
        requests.append(request)
        return True

    def _demand_session(self, session_id: int) -> None:
        """Guard the session's record; it must be there and ours. Raises Refusal."""
        record = self.draft.session(session_id)
        if record is None:
            raise Refusal(ErrorCode.SESSION_EXPIRED)
        if record.value.owner != self._incarnation:
            raise Refusal(ErrorCode.SESSION_MOVED)

    def _accept(self, request: Request, home: Component | None, *, crowded: bool) -> bool:
        """Make the evaluated request part of the component of its footprint, if there is room.

        `home`: the component that guards its session already. Not `crowded`: there is room.
        """
        draft = self.draft
        target = home if home is None or home.merged_into is None else home.root()
        others: list[Component] = []
        fresh: list[Entry] = []
        former: list[tuple[Entry, int]] = []  # flags, for the way back
        guards = 0
        writes = len(draft.session_changes)
        size = request.size
        for entry, flags in draft.footprint:
            had = entry.flags
            new = flags & ~had
            if new:
                if crowded:
                    former.append((entry, had))
                entry.flags = had | new
                guards += _GUARDS[new]
                writes += _WRITES[new]
                size += _ENTRY_BYTES + 2 * len(entry.path)
                if entry.node_changed and entry.mzxid != PENDING:
                    size += len(entry.data or b"")  # a new ACL, with which all the data are put again
            component = entry.component
            if component is None:
                fresh.append(entry)
            elif component is not target:
                target = _meet(component.root(), target, others)
        if draft.session_guards:
            for session_id in draft.session_guards:
                component = self._by_session.get(session_id)
                if component is None:
                    guards += 1
                else:
                    target = _meet(component.root(), target, others)
        if target is None:
            target = Component()
        merged_guards = target.guards + guards
        merged_writes = target.writes + writes
        for component in others:
            merged_guards += component.guards
            merged_writes += component.writes
        widest = max(self._widest, merged_guards, -(-merged_writes // CHUNK))
        if crowded:
            components = len(self._components) - len(others) + (target not in self._components)
            too_wide = components + widest > WIDTH
            if too_wide or self._size + size > MAX_BYTES:
                if self.requests:
                    for entry, had in former:
                        entry.flags = had
                    return False
                self.wide = too_wide
        self._alone = self.wide or request.solo
        for component in others:
            target.absorb(component)
            del self._components[component]
        target.guards = merged_guards
        target.writes = merged_writes
        if request.reads is not None and home is not None:
            self._reads.update(request.reads)
        target.requests.append(request)
        target.events += draft.request_events
        for entry in fresh:
            if entry.component is None:
                entry.component = target
                target.entries.append(entry)
        if draft.session_changes:
            target.session_changes += draft.session_changes
        for session_id, mod in draft.session_guards.items():
            target.session_guards[session_id] = mod
            self._by_session[session_id] = target
        self._size += size
        self._load += guards + -(-writes // CHUNK)
        # Creates in one directory add no guards, and a multi is never taken without a look.
        grown = crowded or (guards and self._load > self._ample)
        if grown or target.requests[0] is request or others or widest != self._widest:
            self._components[target] = None
            self._widest = widest
            # Whether the merger of all components, or of as many as one operation can touch, might not fit.
            merged = min(self._load, _MOST_MERGED * widest)
            self._ample = WIDTH - _MOST_OF_ONE - len(self._components)
            self._crowded = merged > self._ample
        return True

    def _changes_what_is_read(self) -> bool:
        """Whether the request changes what a session reads before a write that is in this batch already."""
        changed = [entry.path.encode() for entry, flags in self.draft.footprint if flags & CHANGE]
        return not self._reads.isdisjoint(changed)

    def dissolve(self) -> None:
        """Let go of what refers to each other, so that the garbage collector need not find it."""
        for entry in self.draft.entries.values():
            entry.component = None

    def changed_paths(self) -> list[str]:
        """Paths that the batch writes: no other Txn may look at them while this one is in flight."""
        return [entry.path for entry in self.draft.entries.values() if entry.flags & CHANGE]
