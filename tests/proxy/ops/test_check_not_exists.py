"""checkNotExists: the opposite of check."""

import pytest

from codec.constants import ErrorCode
from tests.proxy.naive import CheckNotExists, Create, Multi
from tests.proxy.ops.room import CLOSED, do, refusal, room


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
    proxy = room()
    (answer,) = do(proxy, Multi((Create("/new", acl=CLOSED), CheckNotExists("/new"))))
    assert answer == ([], 1, ErrorCode.NODE_EXISTS)
    assert "/new" not in proxy.mirror.tree.nodes
