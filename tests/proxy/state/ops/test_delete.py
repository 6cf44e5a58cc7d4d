"""delete: what is refused, in which order."""

import pytest

from codec.constants import ErrorCode
from tests.proxy.state.naive import Create, Delete, Multi
from tests.proxy.state.ops.room import READ_ONLY, do, refusal, room


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (Delete("/open/child"), None),
        (Delete("/open/child", 0), None),
        (Delete("/closed"), None),  # its parent's permission counts
        (Delete("/brief"), None),
        (Delete("/open"), ErrorCode.NOT_EMPTY),
        (Delete("/open", 7), ErrorCode.BAD_VERSION),
        (Delete("/missing"), ErrorCode.NO_NODE),
        (Delete("/missing/x"), ErrorCode.NO_NODE),
        (Delete("/closed/x"), ErrorCode.NO_AUTH),
        (Delete("/"), ErrorCode.BAD_ARGUMENTS),
        (Delete("/zookeeper"), ErrorCode.BAD_ARGUMENTS),
        (Delete("/zookeeper/quota"), ErrorCode.BAD_ARGUMENTS),
        (Delete("/zookeeper/config"), ErrorCode.BAD_ARGUMENTS),
        (Delete("nowhere"), ErrorCode.BAD_ARGUMENTS),
        (Delete(""), ErrorCode.BAD_ARGUMENTS),
    ],
)
def test_what_is_refused(asked: Delete, code: ErrorCode | None) -> None:
    assert refusal(asked) == code


def test_a_child_of_a_node_closed_later_stays() -> None:
    world = room()
    do(world, Create("/p", acl=READ_ONLY))
    assert do(world, Delete("/p/x")) == [ErrorCode.NO_AUTH]


def test_children_first_then_their_parent() -> None:
    world = room()
    do(world, Multi((Delete("/open/child"), Delete("/open"))))
    assert "/open" not in world.machine.tree.nodes
