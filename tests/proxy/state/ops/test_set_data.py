"""setData: what is refused, in which order."""

import pytest

from codec.constants import ErrorCode
from tests.proxy.state.naive import Check, Multi, MultiAnswer, SetData
from tests.proxy.state.ops.room import do, refusal, with_quota


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (SetData("/open"), None),
        (SetData("/open", None, 0), None),
        (SetData("/open", b"", 1), ErrorCode.BAD_VERSION),
        (SetData("/open", b"", -2), ErrorCode.BAD_VERSION),
        (SetData("/missing", b"", 1), ErrorCode.NO_NODE),
        (SetData("/read-only", b"", 7), ErrorCode.NO_AUTH),
        (SetData("/open/"), ErrorCode.BAD_ARGUMENTS),
        (SetData("nowhere"), ErrorCode.BAD_ARGUMENTS),
        (SetData(""), ErrorCode.BAD_ARGUMENTS),
    ],
)
def test_what_is_refused(asked: SetData, code: ErrorCode | None) -> None:
    assert refusal(asked) == code


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (SetData("/open", b"12345"), None),
        (SetData("/open", b"123456"), ErrorCode.QUOTA_EXCEEDED),
        (SetData("/open", b"123456", 7), ErrorCode.QUOTA_EXCEEDED),  # before the version
        (SetData("/open/none", b"123456"), ErrorCode.NO_NODE),
        (SetData("/read-only", b"123456", 7), ErrorCode.NO_AUTH),
        (SetData("/closed", b"123456"), ErrorCode.NO_AUTH),
        (
            Multi((Check("/open"), SetData("/open", b"123456"))),
            MultiAnswer([], 1, ErrorCode.QUOTA_EXCEEDED),
        ),
    ],
)
def test_a_quota_is_looked_at_before_the_version(asked: SetData | Multi, code: object) -> None:
    (answer,) = do(with_quota("/open", b"byteHardLimit=5"), asked)
    assert answer == code or (code is None and not isinstance(answer, ErrorCode))


def test_limits_that_cannot_be_read_end_a_whole_multi() -> None:
    asked = SetData("/open", b"1"), Multi((Check("/open"), SetData("/open", b"1")))
    assert do(with_quota("/open", b"?"), *asked) == [ErrorCode.MARSHALLING_ERROR] * 2
