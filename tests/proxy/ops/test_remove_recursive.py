"""removeRecursive: a tree goes as a whole, or stays."""

import pytest

from codec.constants import ErrorCode, EventType
from proxy.ops.remove_recursive import MOST
from tests.proxy.naive import Create, Multi, RemoveRecursive
from tests.proxy.ops.room import CLOSED, READ_ONLY, do, refusal, room
from tests.proxy.world import Proxy


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
    proxy = room()
    do(proxy, Create("/open/child/x"), Create("/open/other"), Create("/open/child/b", flags=1))
    proxy.watches.fired.clear()
    do(proxy, RemoveRecursive("/open"))
    paths = ["/open/child/x", "/open/child/b", "/open/other", "/open/child", "/open"]
    assert proxy.watches.fired == [(EventType.NODE_DELETED, path) for path in paths]
    assert not any(path.startswith("/open") for path in proxy.mirror.tree.nodes)
    assert proxy.mirror.tree.ephemerals == {1: {"/brief"}}


@pytest.mark.parametrize("acl", [CLOSED, READ_ONLY])
def test_one_node_that_must_stay_keeps_all(acl: tuple[object, ...]) -> None:
    proxy = room()
    do(proxy, Create("/open/child/x", acl=acl))  # type: ignore[arg-type]
    assert do(proxy, RemoveRecursive("/open")) == [ErrorCode.NO_AUTH]
    assert "/open/child/x" in proxy.mirror.tree.nodes


def _crowd(count: int) -> Proxy:
    proxy = room()
    for start in range(0, count, 1000):
        names = range(start, min(count, start + 1000))
        do(proxy, Multi(tuple(Create(f"/open/child/{number}") for number in names)))
    return proxy


def test_what_an_earlier_part_of_a_multi_made_goes_as_well() -> None:
    proxy = room()
    do(proxy, Multi((Create("/open/new"), Create("/open/new/x"), RemoveRecursive("/open", 4))))
    assert "/open" not in proxy.mirror.tree.nodes


def test_a_tree_of_thousands_goes_in_one_txn() -> None:
    proxy = _crowd(3000)
    before = proxy.store.revision
    do(proxy, RemoveRecursive("/open", 10_000))
    assert proxy.store.revision == before + 1
    assert "/open" not in proxy.mirror.tree.nodes
    assert len(proxy.mirror.tree.nodes) == 4


def test_more_than_a_txn_holds_is_refused_whatever_the_limit() -> None:
    proxy = _crowd(MOST)
    assert do(proxy, RemoveRecursive("/open", 2**32 - 1)) == [ErrorCode.NOT_EMPTY]
