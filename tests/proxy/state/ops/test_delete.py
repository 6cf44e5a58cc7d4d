"""delete: what is refused, in which order."""

import pytest

from codec.constants import ErrorCode
from tests.proxy.state.naive import Delete
from tests.proxy.state.ops.room import refusal


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
