"""check: the version test of multis."""

import pytest

from codec.constants import ErrorCode
from tests.proxy.state.naive import Check
from tests.proxy.state.ops.room import refusal


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (Check("/open", 0), None),
        (Check("/open"), None),
        (Check("/read-only", 0), None),
        (Check("/open", 1), ErrorCode.BAD_VERSION),
        (Check("/missing", 1), ErrorCode.NO_NODE),
        (Check("/closed", 7), ErrorCode.NO_AUTH),
        (Check("/open/"), ErrorCode.BAD_ARGUMENTS),
    ],
)
def test_what_is_refused(asked: Check, code: ErrorCode | None) -> None:
    assert refusal(asked) == code
