"""The difference between two states as watch events, as far as the later state still shows it.

This server has not applied the entries between the two, since it loaded the later state instead.
"""

from collections.abc import Mapping

from codec.constants import EventType
from codec.jute import Acl
from proxy.state.outcome import SessionChange
from proxy.state.sessions import Session
from proxy.state.tree import Node
from proxy.state.watches import TreeEvent
from schema.paths import ROOT, parent_of

_CREATED = int(EventType.NODE_CREATED)
_DELETED = int(EventType.NODE_DELETED)
_DATA_CHANGED = int(EventType.NODE_DATA_CHANGED)
_CHILDREN_CHANGED = int(EventType.NODE_CHILDREN_CHANGED)


def tree_events(old: Mapping[str, Node], new: Mapping[str, Node]) -> list[TreeEvent]:
    """Deletions, deepest first; creations, parents first; new data; and children that came and went.

    A node that is another one of the same path was deleted and created again.
    """
    gone: list[str] = []
    come: list[str] = []
    set_: list[str] = []
    counted: list[str] = []
    for path, node in old.items():
        now = new.get(path)
        if now is None:
            gone.append(path)
        elif now.czxid != node.czxid:
            gone.append(path)
            come.append(path)
        else:
            if now.mzxid != node.mzxid:
                set_.append(path)
            if now.pzxid != node.pzxid:
                counted.append(path)
    come += new.keys() - old.keys()
    gone.sort(key=_depth, reverse=True)
    come.sort(key=_depth)
    told = {parent_of(path) for path in (*gone, *come) if path != ROOT}
    return [
        *(TreeEvent(_DELETED, path, old[path].acl, _parent_acl(old, path)) for path in gone),
        *(TreeEvent(_CREATED, path, new[path].acl, _parent_acl(new, path)) for path in come),
        *(TreeEvent(_DATA_CHANGED, path, new[path].acl, ()) for path in sorted(set_)),
        *(
            TreeEvent(_CHILDREN_CHANGED, path, new[path].acl, ())
            for path in sorted(counted)
            if path not in told
        ),
    ]


def moved_sessions(old: Mapping[int, Session], new: Mapping[int, Session]) -> list[SessionChange]:
    """The sessions that began, ended, or are held by another proxy now."""
    found: list[SessionChange] = []
    for session_id in sorted(old.keys() | new.keys()):
        before, now = old.get(session_id), new.get(session_id)
        former = "" if before is None else before.incarnation
        incarnation = None if now is None else now.incarnation
        if former != incarnation:
            found.append(SessionChange(session_id, former, incarnation))
    return found


def _depth(path: str) -> tuple[int, str]:
    return path.count("/"), path


def _parent_acl(nodes: Mapping[str, Node], path: str) -> tuple[Acl, ...]:
    return nodes[parent_of(path)].acl
