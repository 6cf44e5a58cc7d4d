"""setData: what is refused, in which order."""

import pytest

from codec.constants import ErrorCode
from tests.proxy.naive import SetData
from tests.proxy.ops.room import do, refusal, room


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


def test_null_is_not_empty() -> None:
    proxy = room()
    do(proxy, SetData("/open", None))
    assert proxy.mirror.tree.nodes["/open"].data is None
    do(proxy, SetData("/open", b""))
    assert proxy.mirror.tree.nodes["/open"].data == b""
