"""setACL: what is refused, in which order."""

import pytest

from codec.constants import ErrorCode
from tests.proxy.state.naive import SetAcl
from tests.proxy.state.ops.room import BAD, OPEN, do, room


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (SetAcl("/open", OPEN, 0), None),
        (SetAcl("/open", OPEN, 1), ErrorCode.BAD_VERSION),
        (SetAcl("/missing", OPEN, 1), ErrorCode.NO_NODE),
        (SetAcl("/missing", BAD), ErrorCode.INVALID_ACL),
        (SetAcl("/open/", BAD), ErrorCode.BAD_ARGUMENTS),
        (SetAcl("/read-only", OPEN, 7), ErrorCode.NO_AUTH),
    ],
)
def test_what_is_refused(asked: SetAcl, code: ErrorCode | None) -> None:
    (answer,) = do(room(), asked)
    assert (answer if isinstance(answer, ErrorCode) else None) == code
