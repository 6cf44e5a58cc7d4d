"""What clients that watch missed between two states."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from codec.constants import EventType
from codec.jute import OPEN_ACL, Acl
from lab.oracle.requests import Create, SetAcl
from proxy.state.difference import Difference, session_changes
from proxy.state.node import Node, make_node
from proxy.state.pause import NO_PAUSE
from proxy.state.rights import OPEN, rights_of
from proxy.state.watches import TreeEvent
from schema.paths import parent_of
from tests.proxy.state.requests import SESSIONS, requests
from tests.proxy.state.world import HOME, Ask, World, reloaded, request_of, worlds_that_differ

_ACL = (Acl(1, "ip", "::1"),)


def _events(old: Mapping[str, Node], new: Mapping[str, Node]) -> list[TreeEvent]:
    difference = Difference(old, new)
    difference.find(NO_PAUSE)
    return list(difference.events())


def test_the_order_of_the_events_and_the_sessions_that_differ() -> None:
    here, there = worlds_that_differ()
    assert [(event.kind, event.path) for event in _events(here.nodes, there.nodes)] == [
        (EventType.NODE_DELETED, "/goes/too"),
        (EventType.NODE_DELETED, "/goes"),
        (EventType.NODE_DELETED, "/again"),
        (EventType.NODE_CREATED, "/again"),
        (EventType.NODE_CREATED, "/new"),
        (EventType.NODE_CREATED, "/new/x"),
        (EventType.NODE_DATA_CHANGED, "/set"),
        (EventType.NODE_CHILDREN_CHANGED, "/stays"),
    ]
    changes = session_changes(here.machine.sessions, there.machine.sessions, NO_PAUSE)
    assert [change[:3] for change in changes] == [(1, HOME, "p2"), (2, HOME, None), (3, "", HOME)]


def test_the_acls_are_those_of_the_moment() -> None:
    old = {"/": make_node(b"", OPEN_ACL, *[0] * 9), "/gone": make_node(b"", _ACL, *[0] * 9)}
    new = {"/": make_node(b"", _ACL, *[0] * 9), "/new": make_node(b"", _ACL, *[0] * 9)}
    assert _events(old, new) == [
        TreeEvent(EventType.NODE_DELETED, "/gone", rights_of(_ACL), OPEN),
        TreeEvent(EventType.NODE_CREATED, "/new", rights_of(_ACL), rights_of(_ACL)),
    ]


def test_a_new_acl_is_no_event() -> None:
    here = World()
    here.do(Create("/a"))
    there = World(machine=reloaded(here.machine), sessions=())
    there.do(SetAcl("/a", _ACL))
    assert _events(here.nodes, there.nodes) == []


def test_a_session_that_is_gone_was_not_ended_by_its_client_for_certain() -> None:
    """etcd was restored from a backup that is older than the session, or the proxy has fallen behind."""
    there, nowhere = World().machine.sessions, World(sessions=()).machine.sessions
    reasons = {change.reason for change in session_changes(there, nowhere, NO_PAUSE)}
    assert reasons == {"it is not in the state that was loaded anew"}
    assert {change.reason for change in session_changes(nowhere, there, NO_PAUSE)} == {""}


_HISTORY = st.lists(st.builds(Ask, st.sampled_from(SESSIONS), requests), max_size=12)


@given(_HISTORY, _HISTORY)
def test_the_events_lead_from_the_one_tree_to_the_other(before: list[Ask], after: list[Ask]) -> None:
    here = World()
    here.enter(*map(request_of, before))
    there = World(machine=reloaded(here.machine), sessions=())
    there.enter(*map(request_of, after))
    events = _events(here.nodes, there.nodes)
    shown = set(here.nodes)
    for kind, path, _, _ in events:
        above = parent_of(path)
        if kind == EventType.NODE_DELETED:
            assert not any(other.startswith(path + "/") for other in shown)
            shown.remove(path)
        elif kind == EventType.NODE_CREATED:
            assert path not in shown
            assert above in shown
            shown.add(path)
        else:
            assert path in shown
    assert shown == set(there.nodes)
    touched = {path for _, path, _, _ in events} | {
        path[: path.rindex("/")] or "/" for _, path, _, _ in events
    }
    for path, node in there.nodes.items():
        former = here.nodes.get(path)
        if path not in touched:
            assert former is not None
            assert (former.data, former.mzxid, former.pzxid) == (node.data, node.mzxid, node.pzxid)
