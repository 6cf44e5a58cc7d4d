"""deleteContainer as clients may send it, and the end of what a server has found due."""

import pytest

from codec.constants import ErrorCode, EventType
from schema.entry import Kind, NodeDue, Request, encode_node_due
from tests.proxy.state.naive import Create, CreateMortal, Delete, DeleteContainer, SetAcl
from tests.proxy.state.ops.room import READ_ONLY, do, room
from tests.proxy.state.world import World


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/open/child", None),  # it need not be a container
        ("/open", ErrorCode.NOT_EMPTY),
        ("/brief", ErrorCode.BAD_VERSION),
        ("/missing", ErrorCode.NO_NODE),
        ("/closed", None),
        ("/open/", ErrorCode.NO_NODE),
        ("relative", ErrorCode.BAD_ARGUMENTS),
        ("", ErrorCode.BAD_ARGUMENTS),
        ("/nul\0l", ErrorCode.BAD_ARGUMENTS),
        ("/", ErrorCode.BAD_ARGUMENTS),
        ("/zookeeper", ErrorCode.BAD_ARGUMENTS),
    ],
)
def test_what_a_client_may_delete_with_it(path: str, code: ErrorCode | None) -> None:
    world = room()
    (answer,) = do(world, DeleteContainer(path))
    assert (answer if isinstance(answer, ErrorCode) else None) == code
    assert (path in world.machine.tree.nodes) is (code is not None and path in room().machine.tree.nodes)


def test_a_client_needs_the_permission_that_delete_needs() -> None:
    world = room()
    do(world, SetAcl("/open", READ_ONLY))
    assert do(world, DeleteContainer("/open/child"), Delete("/open/child")) == [ErrorCode.NO_AUTH] * 2


def test_it_fires_what_delete_fires() -> None:
    fired = []
    for asked in (Delete("/open/child"), DeleteContainer("/open/child")):
        world = room()
        world.events.clear()
        do(world, asked)
        fired.append(world.fired)
    assert fired[0] == fired[1] != []


def _due(world: World, path: str, max_never_used: int = 0, **other: int) -> ErrorCode | None:
    """The refusal of what a server says that has found the node due as it is now; None if it goes."""
    node = world.nodes.get(path)
    seen = NodeDue(path, 0, 0, 0, max_never_used)
    if node is not None:
        seen = NodeDue(path, node.version, node.mtime, node.czxid, max_never_used)
    seen = NodeDue(**{**seen._asdict(), **other})
    zxid = world.machine.zxid
    (outcome,) = world.enter(Request(Kind.NODE_DUE, 0, 0, (), encode_node_due(*seen)))
    assert (path in world.nodes) is (outcome.err not in (0, ErrorCode.NO_NODE))
    assert world.machine.zxid == zxid + (outcome.err == 0)
    return ErrorCode(outcome.err) if outcome.err else None


def test_what_is_due_goes() -> None:
    world = room()
    do(world, CreateMortal("/c"), CreateMortal("/c/x"), CreateMortal("/t", ttl=10))
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
    do(world, CreateMortal("/t", ttl=10), CreateMortal("/c"), Create("/c/x"), Delete("/c/x"))
    for path in ("/t", "/c"):
        assert _due(world, path, **{field: getattr(world.nodes[path], field) + 1}) == ErrorCode.BAD_VERSION
        assert _due(world, path) is None


def test_an_ordinary_node_in_the_place_of_a_container_stays() -> None:
    world = room()
    do(world, CreateMortal("/c"), Create("/c/x"), Delete("/c/x"), DeleteContainer("/c"))
    do(world, Create("/c"), Create("/c/x"), Delete("/c/x"))
    assert _due(world, "/c") == ErrorCode.BAD_VERSION
