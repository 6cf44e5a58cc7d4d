"""checkNotExists: the opposite of check."""

import pytest

from codec.constants import ErrorCode
from tests.proxy.state.naive import Answer, CheckNotExists, Create, Delete, Multi, MultiAnswer
from tests.proxy.state.ops.room import CLOSED, do, refusal, room


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (CheckNotExists("/missing"), None),
        (CheckNotExists("/missing/x"), None),
        (CheckNotExists("/open", 1), None),
        (CheckNotExists("/open"), ErrorCode.NODE_EXISTS),
        (CheckNotExists("/open", 0), ErrorCode.NODE_EXISTS),
        (CheckNotExists("/"), ErrorCode.NODE_EXISTS),
        (CheckNotExists("/closed/x"), ErrorCode.NO_AUTH),
        (CheckNotExists("/open/"), ErrorCode.BAD_ARGUMENTS),
    ],
)
def test_what_is_refused(asked: CheckNotExists, code: ErrorCode | None) -> None:
    assert refusal(asked) == code


def test_it_sees_what_earlier_parts_of_a_multi_did() -> None:
    world = room()
    (answer,) = do(world, Multi((Create("/new", acl=CLOSED), CheckNotExists("/new"))))
    assert answer == ([], 1, ErrorCode.NODE_EXISTS)
    assert "/new" not in world.machine.tree.nodes


def test_nobody_is_asked_for_a_parent_that_is_not_there() -> None:
    """Neither one that has gone in the same batch nor one that never came."""
    refused = Multi((Create("/new", acl=CLOSED), Delete("/missing")))
    answers = do(room(), Delete("/closed"), CheckNotExists("/closed/x"), refused, CheckNotExists("/new/x"))
    assert answers == [Answer(), Answer(), MultiAnswer([], 1, ErrorCode.NO_NODE), Answer()]
