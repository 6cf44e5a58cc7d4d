"""What the server keeps for itself is not to be written, unless the tree has such a node of its own."""

import pytest

from codec.constants import ErrorCode
from tests.proxy.naive import Check, Create, Delete, SetAcl, SetData, Single
from tests.proxy.ops.room import do, refusal, room
from tests.proxy.world import with_keeper


@pytest.mark.parametrize(
    "asked",
    [
        Create("/keeper"),
        Create("/keeper/x"),
        Create("/keeper/feature_flags/x"),
        Delete("/keeper"),
        Delete("/keeper/feature_flags"),
        SetData("/keeper/feature_flags"),
        SetAcl("/keeper"),
        Check("/keeper/feature_flags"),
    ],
)
def test_writes_below_keeper(asked: Single) -> None:
    assert refusal(asked, keeper=True) == ErrorCode.BAD_ARGUMENTS
    without = refusal(asked) if not isinstance(asked, SetAcl) else do(room(), asked)[0]
    assert without == (None if asked == Create("/keeper") else ErrorCode.NO_NODE)


@pytest.mark.parametrize("path", ["/keepers", "/keeper0", "/open/keeper"])
def test_other_nodes_are_anybodys(path: str) -> None:
    assert refusal(Create(path), keeper=True) is None


def test_a_tree_with_a_node_keeper_keeps_it() -> None:
    proxy = room()
    do(proxy, Create("/keeper"), Create("/keeper/feature_flags", b"my own"))
    with_keeper(proxy)
    do(proxy, Create("/keeper/x"), SetData("/keeper/x", b"data"))
    assert proxy.mirror.tree.nodes["/keeper/x"].data == b"data"
    assert do(proxy, Delete("/keeper/y")) == [ErrorCode.NO_NODE]
