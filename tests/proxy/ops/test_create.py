"""create: what is refused, in which order, and what a new node looks like."""

import pytest

from codec.constants import CreateMode, ErrorCode
from codec.packets import STAT
from proxy.ops.create import CREATE, CREATE2
from proxy.ops.stats import pack_stat
from tests.proxy.naive import Create, Delete
from tests.proxy.ops.room import BAD, do, refusal, room


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (Create("/new"), None),
        (Create("/new", flags=CreateMode.CONTAINER), None),
        (Create("/open/child/deep"), None),
        (Create("nowhere"), ErrorCode.BAD_ARGUMENTS),
        (Create(""), ErrorCode.BAD_ARGUMENTS),
        (Create("/nul\0l"), ErrorCode.BAD_ARGUMENTS),
        (Create("/new/"), ErrorCode.NO_NODE),  # below /new
        (Create("/open/"), ErrorCode.BAD_ARGUMENTS),
        (Create("/open/../x"), ErrorCode.NO_NODE),
        (Create("/open/."), ErrorCode.BAD_ARGUMENTS),
        (Create("/"), ErrorCode.NODE_EXISTS),
        (Create("/missing/x"), ErrorCode.NO_NODE),
        (Create("/open"), ErrorCode.NODE_EXISTS),
        (Create("/open/child", acl=BAD), ErrorCode.INVALID_ACL),
        (Create("/missing/x", acl=BAD), ErrorCode.INVALID_ACL),
        (Create("/closed/x"), ErrorCode.NO_AUTH),
        (Create("/closed/."), ErrorCode.NO_AUTH),
        (Create("/read-only/x"), ErrorCode.NO_AUTH),
        (Create("/brief/x"), ErrorCode.NO_CHILDREN_FOR_EPHEMERALS),
        (Create("/brief/x", flags=1), ErrorCode.NO_CHILDREN_FOR_EPHEMERALS),
    ],
)
def test_what_is_refused(asked: Create, code: ErrorCode | None) -> None:
    assert refusal(asked) == code


@pytest.mark.parametrize("flags", [-1, 7, 100])
def test_unknown_flags(flags: int) -> None:
    assert do(room(), Create("/new", flags=flags)) == [ErrorCode.BAD_ARGUMENTS]


@pytest.mark.parametrize("flags", [CreateMode.PERSISTENT_WITH_TTL, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL])
def test_time_to_live_is_not_switched_on(flags: int) -> None:
    assert do(room(), Create("/new", flags=flags)) == [ErrorCode.UNIMPLEMENTED]


def test_a_sequential_name_counts_all_children_that_ever_were() -> None:
    proxy = room()
    answers = do(
        proxy,
        Create("/open/s", flags=2),
        Delete("/open/s0000000001"),
        Create("/open/s", flags=3),
        Create("/open/", flags=2),
    )
    assert [getattr(answer, "path", None) for answer in answers] == [
        "/open/s0000000001",
        None,
        "/open/s0000000002",
        "/open/0000000003",
    ]
    assert proxy.mirror.tree.nodes["/open/s0000000002"].owner == 1
    assert proxy.mirror.tree.nodes["/open/0000000003"].owner == 0


def test_the_answers_on_the_wire() -> None:
    stat = (-1, -1, 5, 5, 0, 0, 0, 0, 3, 0, -1)
    path = b"\0\0\0\2/a"
    assert CREATE.reply("/a", 9) == path
    assert CREATE2.reply(("/a", stat), 9) == path + STAT.pack(9, 9, 5, 5, 0, 0, 0, 0, 3, 0, 9)
    assert pack_stat((1, -1, 5, 5, 0, 0, 0, 0, 3, 0, 2), 9) == STAT.pack(1, 9, 5, 5, 0, 0, 0, 0, 3, 0, 2)
