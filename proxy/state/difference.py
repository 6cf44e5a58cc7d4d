"""The difference between two states as watch events, as far as the later state still shows it.

This server has not applied the entries between the two, since it loaded the later state instead. Neither
state may change while they are compared, or before the last event is made.
"""

from collections.abc import Iterator, Mapping
from itertools import chain

from codec.constants import EventType
from proxy.state.node import Node
from proxy.state.outcome import SessionChange
from proxy.state.pause import Pause
from proxy.state.rights import OPEN, Rights
from proxy.state.sessions import Session
from proxy.state.watches import TreeEvent
from schema.paths import ROOT, parent_of

_CREATED = int(EventType.NODE_CREATED)
_DELETED = int(EventType.NODE_DELETED)
_DATA_CHANGED = int(EventType.NODE_DATA_CHANGED)
_CHILDREN_CHANGED = int(EventType.NODE_CHILDREN_CHANGED)

_NOT_LOADED = "it is not in the state that was loaded anew"

_ByDepth = dict[int, list[str]]


class Difference:
    """What differs between two trees. The events are made one by one: there may be very many."""

    def __init__(self, old: Mapping[str, Node], new: Mapping[str, Node]) -> None:
        self._old = old
        self._new = new
        self._gone: _ByDepth = {}
        self._come: _ByDepth = {}
        self._set: list[str] = []
        self._counted: list[str] = []
        self._parents: set[str] = set()  # of what was created or deleted

    def find(self, pause: Pause) -> None:
        """Compare the trees; `events` has what was found."""
        old, new = self._old, self._new
        for path, node in pause.each(old.items()):
            now = new.get(path)
            if now == node:
                continue  # a packed node that is the same; full nodes are compared by their fields
            if now is None:
                self._differs(self._gone, path)
            elif now.czxid != node.czxid:
                self._differs(self._gone, path)
                self._differs(self._come, path)
            else:
                if now.mzxid != node.mzxid:
                    self._set.append(path)
                if now.pzxid != node.pzxid:
                    self._counted.append(path)
        for path in pause.each(new):
            if path not in old:
                self._differs(self._come, path)

    def _differs(self, where: _ByDepth, path: str) -> None:
        where.setdefault(path.count("/"), []).append(path)
        if path != ROOT:
            self._parents.add(parent_of(path))

    def events(self) -> Iterator[TreeEvent]:
        """Deletions, deepest first; creations, parents first; new data; changed children.

        A node with the same path but another czxid was deleted and created again.
        """
        old, new, parents = self._old, self._new, self._parents
        gone = chain.from_iterable(self._gone[depth] for depth in sorted(self._gone, reverse=True))
        come = chain.from_iterable(self._come[depth] for depth in sorted(self._come))
        return chain(
            (TreeEvent(_DELETED, path, old[path].rights, _rights_above(old, path)) for path in gone),
            (TreeEvent(_CREATED, path, new[path].rights, _rights_above(new, path)) for path in come),
            (TreeEvent(_DATA_CHANGED, path, new[path].rights, OPEN) for path in self._set),
            (
                TreeEvent(_CHILDREN_CHANGED, path, new[path].rights, OPEN)
                for path in self._counted
                if path not in parents
            ),
        )


def session_changes(
    old: Mapping[int, Session], new: Mapping[int, Session], pause: Pause
) -> list[SessionChange]:
    """The sessions that began, ended, or are now attached to another proxy."""
    found: list[SessionChange] = []
    for session_id in pause.each([*old, *(session_id for session_id in new if session_id not in old)]):
        before, now = old.get(session_id), new.get(session_id)
        former = "" if before is None else before.incarnation
        incarnation = None if now is None else now.incarnation
        if former != incarnation:
            reason = _NOT_LOADED if now is None else ""
            found.append(SessionChange(session_id, former, incarnation, reason))
    return found


def _rights_above(nodes: Mapping[str, Node], path: str) -> Rights:
    return nodes[parent_of(path)].rights
