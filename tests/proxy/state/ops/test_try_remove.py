"""tryRemove: delete that minds nothing but permissions and paths."""

import pytest

from codec.constants import ErrorCode
from tests.proxy.state.naive import TryRemove
from tests.proxy.state.ops.room import do, refusal, room


@pytest.mark.parametrize(
    ("asked", "code", "stays"),
    [
        (TryRemove("/open/child"), None, False),
        (TryRemove("/open/child", 0), None, False),
        (TryRemove("/open/child", 1), None, True),
        (TryRemove("/open"), None, True),
        (TryRemove("/missing"), None, False),
        (TryRemove("/missing/x"), None, False),
        (TryRemove("/closed/x"), ErrorCode.NO_AUTH, False),
        (TryRemove("/"), ErrorCode.BAD_ARGUMENTS, True),
        (TryRemove("/keeper/feature_flags"), ErrorCode.BAD_ARGUMENTS, False),
    ],
)
def test_what_becomes_of_a_node(asked: TryRemove, code: ErrorCode | None, stays: bool) -> None:
    assert refusal(asked, keeper=True) == code
    world = room()
    do(world, asked)
    assert (asked.path in world.machine.tree.nodes) is stays
