"""Requests evaluated together on one draft, in components that share no path and no session.

Pure. `add` evaluates one request and keeps it if the whole still fits into one Txn of stock etcd; `plan`
turns the batch into that Txn.
"""

from collections.abc import Callable, Mapping
from typing import Any

from codec.constants import ErrorCode
from proxy.acl import Caller
from proxy.draft import CHANGE, Draft, Entry, SessionChange, SessionRecord
from proxy.operation import WriteOperation
from proxy.refusal import Refusal
from proxy.tree import Tree
from schema.values import TreeEvent

# Room in one Txn, so that its outer level, one component and its chunks of puts stay below etcd's
# --max-txn-ops (128, counted along a chain: DESIGN 4.9): components + the largest one's guards or chunks
# <= WIDTH, each chunk CHUNK operations.
WIDTH = 92
CHUNK = 32
# Of etcd's --max-request-bytes (1.5 MiB); a single larger request is tried all the same.
MAX_BYTES = 1 << 20
MAX_REQUESTS = 2048


class Request:
    """One write of one session on its way through batches, until `done` tells its answer."""

    __slots__ = (
        "attempts",
        "caller",
        "done",
        "fields",
        "of_session",
        "operation",
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
        self.events: list[TreeEvent] = []
        self.session_guards: dict[int, int] = {}
        self.session_changes: list[SessionChange] = []
        self.guards = 0  # compares, at most
        self.writes = 0  # puts and deletes, at most

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


_BITS = (0, 1, 1, 2)  # guards in a combination of GUARD_NODE and GUARD_COUNTER


class Batch:
    """One draft and the requests accepted on it."""

    __slots__ = (
        "_by_session",
        "_components",
        "_incarnation",
        "_size",
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
    ) -> None:
        """`revision`: the etcd revision that the tree and sessions show. `now`: ms since 1970."""
        self.draft = Draft(tree, sessions, locks, now)
        self.revision = revision
        self.requests: list[Request] = []
        self.wide = False  # one request that needs more guards than a Txn has room for
        self._incarnation = incarnation
        self._components: dict[Component, None] = {}
        self._by_session: dict[int, Component] = {}
        self._size = 0
        self._widest = 0

    @property
    def components(self) -> list[Component]:
        """The components, in order of their first requests."""
        return list(self._components)

    def add(self, request: Request) -> bool:
        """Evaluate a request; False if it does not fit into this batch. Raises Held, with nothing changed."""
        requests = self.requests
        if requests and (
            request.solo
            or requests[0].solo
            or self.wide
            or len(requests) >= MAX_REQUESTS
            or self._size + request.size > MAX_BYTES
        ):
            return False
        draft = self.draft
        draft.begin()
        try:
            self._evaluate(request)
        except Refusal as refusal:
            draft.rollback()
            request.refusal = refusal.code
        except BaseException:
            draft.rollback()
            raise
        if not self._accept(request):
            draft.rollback()
            return False
        requests.append(request)
        return True

    def _evaluate(self, request: Request) -> None:
        request.refusal = None
        caller = request.caller
        if request.of_session:
            record = self.draft.session(caller.session_id)
            if record is None:
                raise Refusal(ErrorCode.SESSION_EXPIRED)
            if record.value.owner != self._incarnation:
                raise Refusal(ErrorCode.SESSION_MOVED)
        request.result = request.operation.apply(self.draft, caller, request.fields)

    def _accept(self, request: Request) -> bool:
        draft = self.draft
        footprint = draft.footprint
        session_guards = draft.session_guards
        touched: dict[Component, None] = {}
        guards = writes = 0
        noted: dict[Entry, int] = {}
        for entry, flags in footprint:
            had = noted.get(entry)
            if had is None:
                had = entry.flags
                if entry.component is not None:
                    touched[entry.component.root()] = None
            new = flags & ~had
            noted[entry] = had | flags
            if new:
                guards += _BITS[new & 3]
                if new & CHANGE:
                    writes += 2
        by_session = self._by_session
        for session_id in session_guards:
            known = by_session.get(session_id)
            if known is not None:
                touched[known.root()] = None
            else:
                guards += 1
        writes += len(draft.session_changes)
        merged_guards = guards + sum(component.guards for component in touched)
        merged_writes = writes + sum(component.writes for component in touched)
        widest = max(self._widest, merged_guards, -(-merged_writes // CHUNK))
        count = len(self._components) + 1 - len(touched)
        if count + widest > WIDTH:
            if self.requests:
                return False
            self.wide = True
        target = next(iter(touched), None)
        if target is None:
            target = Component()
            self._components[target] = None
        for other in touched:
            if other is not target:
                target.absorb(other)
                del self._components[other]
        target.guards = merged_guards
        target.writes = merged_writes
        target.requests.append(request)
        target.events += draft.request_events
        target.session_guards.update(session_guards)
        target.session_changes += draft.session_changes
        for session_id in session_guards:
            by_session[session_id] = target
        for entry, flags in noted.items():
            if entry.component is None:
                entry.component = target
                target.entries.append(entry)
            entry.flags = flags
        self._widest = widest
        self._size += request.size + 64 * len(footprint)
        return True

    def dissolve(self) -> None:
        """Let go of what refers to each other, so that the garbage collector need not find it."""
        for entry in self.draft.entries.values():
            entry.component = None

    def changed_paths(self) -> list[str]:
        """Paths that the batch writes: no other Txn may look at them while this one is in flight."""
        return [entry.path for entry in self.draft.entries.values() if entry.flags & CHANGE]
