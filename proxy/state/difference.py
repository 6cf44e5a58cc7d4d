"""The difference between two states as watch events, as far as the later state still shows it.

This server has not applied the entries between the two, since it loaded the later state instead. Neither
state may change while they are compared, in pieces, nor before the last event is made.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import TypeVar

from codec.constants import EventType
from codec.jute import Acl
from proxy.state.outcome import SessionChange
from proxy.state.pieces import PIECE, Work, whole
from proxy.state.sessions import Session
from proxy.state.tree import Node
from proxy.state.watches import TreeEvent
from schema.paths import ROOT, parent_of

_CREATED = int(EventType.NODE_CREATED)
_DELETED = int(EventType.NODE_DELETED)
_DATA_CHANGED = int(EventType.NODE_DATA_CHANGED)
_CHILDREN_CHANGED = int(EventType.NODE_CHILDREN_CHANGED)

_T = TypeVar("_T")
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
        self._told: set[str] = set()  # parents of what came or went

    def finding(self) -> Work[None]:
        """Compare the trees, in pieces; the events come after that."""
        new = self._new
        for some in _in_pieces(self._old.items()):
            for path, node in some:
                now = new.get(path)
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
            yield
        for some_paths in _in_pieces(new):
            for path in some_paths:
                if path not in self._old:
                    self._differs(self._come, path)
            yield

    def _differs(self, where: _ByDepth, path: str) -> None:
        where.setdefault(path.count("/"), []).append(path)
        if path != ROOT:
            self._told.add(parent_of(path))

    def events(self) -> Iterator[TreeEvent]:
        """Deletions, deepest first; creations, parents first; new data; and children that came and went.

        A node that is another one of the same path was deleted and created again.
        """
        old, new, told = self._old, self._new, self._told
        gone = chain.from_iterable(self._gone[depth] for depth in sorted(self._gone, reverse=True))
        come = chain.from_iterable(self._come[depth] for depth in sorted(self._come))
        return chain(
            (TreeEvent(_DELETED, path, old[path].acl, _parent_acl(old, path)) for path in gone),
            (TreeEvent(_CREATED, path, new[path].acl, _parent_acl(new, path)) for path in come),
            (TreeEvent(_DATA_CHANGED, path, new[path].acl, ()) for path in self._set),
            (
                TreeEvent(_CHILDREN_CHANGED, path, new[path].acl, ())
                for path in self._counted
                if path not in told
            ),
        )


def tree_events(old: Mapping[str, Node], new: Mapping[str, Node]) -> list[TreeEvent]:
    """The events of the difference, all at once."""
    difference = Difference(old, new)
    whole(difference.finding())
    return list(difference.events())


def moving_sessions(old: Mapping[int, Session], new: Mapping[int, Session]) -> Work[list[SessionChange]]:
    """The sessions that began, ended, or are held by another proxy now; in pieces."""
    found: list[SessionChange] = []
    for some in _in_pieces(chain(old, (session_id for session_id in new if session_id not in old))):
        for session_id in some:
            before, now = old.get(session_id), new.get(session_id)
            former = "" if before is None else before.incarnation
            incarnation = None if now is None else now.incarnation
            if former != incarnation:
                found.append(SessionChange(session_id, former, incarnation))
        yield
    return found


def _in_pieces(items: Iterable[_T]) -> Iterator[list[_T]]:
    each = iter(items)
    while some := list(islice(each, PIECE)):
        yield some


def _parent_acl(nodes: Mapping[str, Node], path: str) -> tuple[Acl, ...]:
    return nodes[parent_of(path)].acl
