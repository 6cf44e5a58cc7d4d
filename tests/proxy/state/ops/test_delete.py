"""What goes and what stays: tryRemove, removeRecursive, deleteContainer and nodes that are due; checkStat."""

import pytest

from codec.constants import ErrorCode, EventType
from codec.jute import Acl
from codec.packets import STAT
from lab.oracle.requests import (
    CheckStat,
    Create,
    CreateContainer,
    CreateTtl,
    Delete,
    Multi,
    RemoveRecursive,
    SetData,
)
from proof.naive import Answer
from proxy.state import transaction
from proxy.state.ops import remove_recursive
from proxy.state.ops.remove_recursive import MOST
from proxy.state.outcome import SearchRefused
from schema.entry import Kind, NodeDue, Request, encode_node_due
from tests.proxy.state.ops.room import CLOSED, READ_ONLY, do, room
from tests.proxy.state.world import World, assert_sound, reloaded

# -- removeRecursive -----------------------------------------------------------------------------------------


def test_leaves_go_first_and_everybody_hears_of_each() -> None:
    world = room()
    do(world, Create("/open/child/x"), Create("/open/other"), Create("/open/child/b", flags=1))
    world.events.clear()
    do(world, RemoveRecursive("/open"))
    paths = ["/open/child/x", "/open/child/b", "/open/other", "/open/child", "/open"]
    assert world.fired == [(EventType.NODE_DELETED, path) for path in paths]
    assert not any(path.startswith("/open") for path in world.nodes)
    assert world.machine.tree.ephemerals == {1: {"/brief"}}


@pytest.mark.parametrize("acl", [CLOSED, READ_ONLY])
def test_one_node_that_must_stay_keeps_all(acl: tuple[Acl, ...]) -> None:
    world = room()
    do(world, Create("/open/child/x", acls=acl))
    assert do(world, RemoveRecursive("/open")) == [ErrorCode.NO_AUTH]
    assert "/open/child/x" in world.nodes


@pytest.mark.long
def test_more_than_the_bound_is_refused_whatever_the_limit() -> None:
    world = room()
    do(world, Multi(tuple(Create(f"/open/child/{number}") for number in range(MOST - 1))))
    zxid = world.machine.zxid
    assert do(world, RemoveRecursive("/open", 2**31 - 1)) == [ErrorCode.NOT_EMPTY]  # with /open and its child
    do(world, Delete("/open/child/0"))
    assert do(world, RemoveRecursive("/open", 2**31 - 1)) == [Answer()]
    assert world.machine.zxid == zxid + 3
    assert not any(path.startswith("/open") for path in world.nodes)
    assert_sound(world.machine)


def _below(world: World, path: str, count: int) -> None:
    do(world, Multi((Create(path), *(Create(f"{path}/{number}") for number in range(count - 1)))))


def test_the_parts_of_a_multi_share_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remove_recursive, "MOST", 20)
    world = room()
    for name in "abc":
        _below(world, f"/{name}", 10)
    both, all_three = (Multi(tuple(RemoveRecursive(f"/{name}") for name in names)) for names in ("ab", "abc"))
    (refused,) = do(world, all_three)
    assert (refused.failed_at, refused.code) == (2, ErrorCode.NOT_EMPTY)
    assert "/a/1" in world.nodes
    do(world, both)
    assert "/a" not in world.nodes


def test_what_fails_is_not_searched_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A multi of 240 bytes had all proxies delete 80,000 nodes and undo that, each time it was sent."""
    monkeypatch.setattr(transaction, "IN_VAIN", 100)
    world = room()
    _below(world, "/a", 30)
    failing = Multi((RemoveRecursive("/a"), Delete("/none")))
    answers = [do(world, failing)[0] for _ in range(5)]
    assert [answer.failed_at for answer in answers] == [1, 1, 1, 0, 0]
    assert world.machine.transaction.searches_refused == 2
    assert do(world, RemoveRecursive("/a", 5)) == [ErrorCode.NOT_EMPTY]
    assert world.machine.transaction.searches_refused == 2, "the client's own limit refuses it"
    assert do(world, RemoveRecursive("/a")) == [ErrorCode.NOT_EMPTY]
    assert world.machine.transaction.warnings == [SearchRefused("/a", 1)]
    assert world.machine.transaction.searches_refused == 3
    loaded = reloaded(world.machine)
    for machine in (world.machine, loaded):
        assert machine.transaction.paid_at > machine.zxid
    _below(world, "/tiny", 6)
    tiny = Multi((RemoveRecursive("/tiny"), RemoveRecursive("/open"), Delete("/none")))
    assert [do(world, tiny)[0].failed_at for _ in range(100)] == [2] * 100
    tiny = Multi((RemoveRecursive("/tiny"), RemoveRecursive("/open"), RemoveRecursive("/brief")))
    (answer,) = do(world, tiny)
    assert (answer.failed_at, answer.code) == (2, ErrorCode.NOT_EMPTY), "its parts share what they may"
    do(world, *(SetData("/open") for _ in range(50)))
    _below(world, "/b", 8)
    assert do(world, RemoveRecursive("/b"), RemoveRecursive("/a")) == [Answer()] * 2
    assert do(world, *(RemoveRecursive("/none") for _ in range(100))) == [ErrorCode.NO_NODE] * 100


# -- what is due ---------------------------------------------------------------------------------------------


def _due(world: World, path: str, max_never_used: int = 0, **other: int) -> ErrorCode | None:
    """The refusal of what a server says that has found the node due as it is now; None if it goes."""
    node = world.nodes.get(path)
    seen = NodeDue(path, 0, 0, 0, max_never_used)
    if node is not None:
        seen = NodeDue(path, node.version, node.mtime, node.czxid, max_never_used)
    seen = seen._replace(**other)  # type: ignore[arg-type]
    zxid = world.machine.zxid
    (outcome,) = world.enter(Request(Kind.NODE_DUE, 0, 0, (), encode_node_due(*seen)))
    assert (path in world.nodes) is (outcome.err not in (0, ErrorCode.NO_NODE))
    assert world.machine.zxid == zxid + (outcome.err == 0)
    return ErrorCode(outcome.err) if outcome.err else None


def test_what_is_due_goes() -> None:
    world = room()
    do(world, CreateContainer("/c"), CreateContainer("/c/x"), CreateTtl("/t", ttl=10))
    assert _due(world, "/c") == ErrorCode.NOT_EMPTY
    assert _due(world, "/c/x") == ErrorCode.BAD_VERSION  # never used
    assert _due(world, "/c/x", max_never_used=10) is None
    assert world.fired[-1] == (EventType.NODE_DELETED, "/c/x")
    assert world.nodes["/c"].pzxid == world.machine.zxid
    assert _due(world, "/c") is None
    assert _due(world, "/c") == ErrorCode.NO_NODE
    assert _due(world, "/t") is None
    for path in ("/brief", "/closed", "/open/child"):
        assert _due(world, path, max_never_used=1) == ErrorCode.BAD_VERSION


@pytest.mark.parametrize("field", ["version", "mtime", "czxid"])
def test_what_is_no_longer_as_it_was_seen_stays(field: str) -> None:
    world = room()
    do(world, CreateTtl("/t", ttl=10), CreateContainer("/c"), Create("/c/x"), Delete("/c/x"))
    for path in ("/t", "/c"):
        assert _due(world, path, **{field: getattr(world.nodes[path], field) + 1}) == ErrorCode.BAD_VERSION
        assert _due(world, path) is None
    do(world, Create("/c"), Create("/c/x"), Delete("/c/x"))
    assert _due(world, "/c") == ErrorCode.BAD_VERSION, "an ordinary node in the place of a container"


# -- checkStat -----------------------------------------------------------------------------------------------


def _with(place: int, value: int) -> tuple[int, ...]:
    return tuple(value if other == place else -1 for other in range(11))


def test_every_field_of_a_stat_counts() -> None:
    world = room()
    stat = STAT.unpack(world.nodes["/open"].stat())
    assert ErrorCode.BAD_VERSION not in do(world, CheckStat("/open", -1, stat))
    wrong = [CheckStat("/open", -1, _with(place, value + 1)) for place, value in enumerate(stat)]
    assert do(world, *wrong) == [ErrorCode.BAD_VERSION] * 11


def test_a_change_in_the_same_multi_counts() -> None:
    world = room()
    zxid = world.machine.zxid
    for mzxid, failed_at in ((zxid, 1), (zxid + 2, None)):
        (answer,) = do(world, Multi((SetData("/open"), CheckStat("/open", -1, _with(1, mzxid)))))
        assert answer.failed_at == failed_at
