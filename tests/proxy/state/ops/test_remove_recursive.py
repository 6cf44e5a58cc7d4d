"""removeRecursive: a tree goes as a whole, or stays."""

import pytest

from codec.constants import ErrorCode, EventType
from proxy.state.ops.remove_recursive import MOST
from tests.proxy.state.naive import Answer, Create, Delete, Multi, RemoveRecursive
from tests.proxy.state.ops.room import CLOSED, READ_ONLY, do, refusal, room
from tests.proxy.state.world import World, assert_sound


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (RemoveRecursive("/open"), None),
        (RemoveRecursive("/open", 2), None),
        (RemoveRecursive("/brief", 1), None),
        (RemoveRecursive("/missing/x"), None),
        (RemoveRecursive("/open", 1), ErrorCode.NOT_EMPTY),
        (RemoveRecursive("/brief", 0), ErrorCode.NOT_EMPTY),
        (RemoveRecursive("/missing"), ErrorCode.NO_NODE),
        (RemoveRecursive("/open/x"), ErrorCode.NO_NODE),
        (RemoveRecursive("/closed"), ErrorCode.NO_AUTH),
        (RemoveRecursive("/closed/x"), ErrorCode.NO_AUTH),
        (RemoveRecursive("/"), ErrorCode.BAD_ARGUMENTS),
        (RemoveRecursive("/zookeeper"), ErrorCode.BAD_ARGUMENTS),
        (RemoveRecursive("/keeper"), ErrorCode.BAD_ARGUMENTS),
        (RemoveRecursive("/keeper/feature_flags"), ErrorCode.BAD_ARGUMENTS),
        (RemoveRecursive("nowhere"), ErrorCode.BAD_ARGUMENTS),
    ],
)
def test_what_is_refused(asked: RemoveRecursive, code: ErrorCode | None) -> None:
    assert refusal(asked, keeper=True) == code


def test_leaves_go_first_and_everybody_hears_of_each() -> None:
    world = room()
    do(world, Create("/open/child/x"), Create("/open/other"), Create("/open/child/b", flags=1))
    world.events.clear()
    do(world, RemoveRecursive("/open"))
    paths = ["/open/child/x", "/open/child/b", "/open/other", "/open/child", "/open"]
    assert world.fired == [(EventType.NODE_DELETED, path) for path in paths]
    assert not any(path.startswith("/open") for path in world.machine.tree.nodes)
    assert world.machine.tree.ephemerals == {1: {"/brief"}}


@pytest.mark.parametrize("acl", [CLOSED, READ_ONLY])
def test_one_node_that_must_stay_keeps_all(acl: tuple[object, ...]) -> None:
    world = room()
    do(world, Create("/open/child/x", acl=acl))  # type: ignore[arg-type]
    assert do(world, RemoveRecursive("/open")) == [ErrorCode.NO_AUTH]
    assert "/open/child/x" in world.machine.tree.nodes


def _crowd(count: int) -> World:
    world = room()
    for start in range(0, count, 1000):
        names = range(start, min(count, start + 1000))
        do(world, Multi(tuple(Create(f"/open/child/{number}") for number in names)))
    return world


def test_what_an_earlier_part_of_a_multi_made_goes_as_well() -> None:
    world = room()
    do(world, Multi((Create("/open/new"), Create("/open/new/x"), RemoveRecursive("/open", 4))))
    assert "/open" not in world.machine.tree.nodes


def test_more_than_the_bound_is_refused_whatever_the_limit() -> None:
    world = _crowd(MOST - 1)  # /open and /open/child are two more
    zxid = world.machine.zxid
    assert do(world, RemoveRecursive("/open", 2**31 - 1)) == [ErrorCode.NOT_EMPTY]
    do(world, Delete("/open/child/0"))
    assert do(world, RemoveRecursive("/open", 2**31 - 1)) == [Answer()]
    assert world.machine.zxid == zxid + 3
    assert not any(path.startswith("/open") for path in world.nodes)
    assert_sound(world.machine)
