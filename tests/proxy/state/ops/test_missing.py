"""What the server keeps for itself is not to be written, unless the tree has such a node of its own."""

import pytest

from codec.constants import ErrorCode
from schema.entry import Rules
from tests.proxy.state.naive import Check, Create, Delete, SetAcl, SetData, Single
from tests.proxy.state.ops.room import do, refusal, room
from tests.proxy.state.world import RULES


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
    without = refusal(asked, keeper=False)
    assert without == (None if asked == Create("/keeper") else ErrorCode.NO_NODE)


@pytest.mark.parametrize("path", ["/keepers", "/keeper0", "/open/keeper"])
def test_other_nodes_are_anybodys(path: str) -> None:
    assert refusal(Create(path), keeper=True) is None


def test_a_tree_with_a_node_keeper_keeps_it() -> None:
    world = room()
    world.rules = int(Rules.EXTENDED_TYPES)
    do(world, Create("/keeper"), Create("/keeper/feature_flags", b"my own"))
    world.rules = RULES
    do(world, Create("/keeper/x"), SetData("/keeper/x", b"data"))
    assert world.machine.tree.nodes["/keeper/x"].data == b"data"
    assert do(world, Delete("/keeper/y")) == [ErrorCode.NO_NODE]
