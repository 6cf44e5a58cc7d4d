"""create: what is refused, in which order, and what a new node looks like."""

import pytest

from codec.constants import CreateMode, ErrorCode
from codec.jute import INT, OPEN_ACLS, pack_buffer, pack_string
from codec.packets import STAT
from proxy.acl import Caller
from proxy.draft import Draft
from proxy.operation import WriteOperation
from proxy.ops.create import CREATE, CREATE2, CREATE_CONTAINER, CREATE_TTL
from proxy.ops.stats import pack_stat
from proxy.refusal import Refusal
from proxy.rules import DEFAULT_RULES, Rules
from proxy.tree import CONTAINER_OWNER, MAX_TTL, Tree, session_of, ttl_owner
from schema.values import OPEN_ACL
from tests.proxy.naive import Create, CreateMortal, Delete, Multi
from tests.proxy.ops.room import BAD, do, refusal, room, with_quota


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


TTL_FLAGS = (CreateMode.PERSISTENT_WITH_TTL, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL)


def ask(
    operation: WriteOperation, *fields: object, rules: Rules = DEFAULT_RULES
) -> ErrorCode | tuple[str, int]:
    """The refusal, or the path and owner of what is created in a tree with a root and the container /c."""
    tree = Tree()
    draft = Draft(tree, {}, {}, 5, rules)
    draft.begin()
    root = draft.look("/", 0)
    root.exists, root.owner = True, 0
    draft.create(root, draft.look("/c", 0), b"", OPEN_ACL, CONTAINER_OWNER)
    try:
        path, stat = operation.apply(draft, Caller(7, ()), fields)
    except Refusal as refusal:
        return refusal.code
    assert stat[7] == session_of(draft.entries[path].owner)
    return path, draft.entries[path].owner


@pytest.mark.parametrize("flags", TTL_FLAGS)
def test_a_mode_with_a_ttl_wants_one(flags: int) -> None:
    for operation in (CREATE2, CREATE_CONTAINER):
        assert ask(operation, "/new", b"", OPEN_ACL, flags) == ErrorCode.BAD_ARGUMENTS
        assert (
            ask(operation, "/new", b"", OPEN_ACL, flags, rules=Rules(extended_types=False))
            == ErrorCode.UNIMPLEMENTED
        )


@pytest.mark.parametrize(
    ("path", "flags", "ttl", "answer"),
    [
        ("/new", 5, 1, ("/new", ttl_owner(1))),
        ("/c/new", 6, MAX_TTL, ("/c/new0000000000", ttl_owner(MAX_TTL))),
        ("/new", 5, 0, ErrorCode.BAD_ARGUMENTS),
        ("/new", 5, -1, ErrorCode.BAD_ARGUMENTS),
        ("/new", 5, MAX_TTL + 1, ErrorCode.BAD_ARGUMENTS),
        ("/new", 0, 5, ErrorCode.BAD_ARGUMENTS),
        ("/new", 0, -1, ErrorCode.BAD_ARGUMENTS),
        ("/new", 7, 5, ErrorCode.BAD_ARGUMENTS),
        (None, 5, 0, ErrorCode.BAD_ARGUMENTS),
        (None, 5, 5, ErrorCode.MARSHALLING_ERROR),
        ("/c", 5, 5, ErrorCode.NODE_EXISTS),
    ],
)
def test_ttl_nodes(path: str | None, flags: int, ttl: int, answer: object) -> None:
    assert ask(CREATE_TTL, path, b"", OPEN_ACL, flags, ttl) == answer


def test_ttl_nodes_can_be_switched_off() -> None:
    off = Rules(extended_types=False)
    assert ask(CREATE_TTL, None, b"", None, 5, 0, rules=off) == ErrorCode.UNIMPLEMENTED
    assert ask(CREATE_TTL, "/new", b"", OPEN_ACL, 0, 5, rules=off) == ErrorCode.BAD_ARGUMENTS


@pytest.mark.parametrize(
    ("flags", "answer"),
    [
        (4, ("/c/x", CONTAINER_OWNER)),
        (0, ("/c/x", CONTAINER_OWNER)),
        (1, ("/c/x", CONTAINER_OWNER)),  # the opcode says what it is
        (2, ("/c/x0000000000", CONTAINER_OWNER)),
        (7, ErrorCode.BAD_ARGUMENTS),
    ],
)
def test_containers(flags: int, answer: object) -> None:
    assert ask(CREATE_CONTAINER, "/c/x", b"", OPEN_ACL, flags) == answer


def test_a_null_path_of_a_ttl_node_can_be_read() -> None:
    raw = b"head" + pack_string(None) + pack_buffer(b"d") + OPEN_ACLS + INT.pack(5) + b"\0" * 7 + b"\7"
    assert CREATE_TTL.decode(raw, 4) == ((None, b"d", OPEN_ACL, 5, 7), len(raw))


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


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (Create("/open/x"), ErrorCode.QUOTA_EXCEEDED),
        (CreateMortal("/open/x"), ErrorCode.QUOTA_EXCEEDED),
        (CreateMortal("/open/x", ttl=5), ErrorCode.QUOTA_EXCEEDED),
        (Create("/open/child"), ErrorCode.NODE_EXISTS),
        (Create("/open/none/x"), ErrorCode.NO_NODE),
        (Create("/open/x", acl=BAD), ErrorCode.INVALID_ACL),
        (Create("/x"), None),
    ],
)
def test_a_quota_comes_last(asked: Create | CreateMortal, code: ErrorCode | None) -> None:
    (answer,) = do(with_quota("/open", b"countHardLimit=2"), asked)
    assert (answer if isinstance(answer, ErrorCode) else None) == code


def test_a_multi_is_judged_by_what_is_applied() -> None:
    """As in ZooKeeper, so that it may go beyond a quota once."""
    proxy = with_quota("/open", b"countHardLimit=3")
    answers = do(proxy, Multi((Create("/open/1"), Create("/open/2"))), Create("/open/3"))
    assert [answer for answer in answers if isinstance(answer, ErrorCode)] == []
    assert proxy.mirror.tree.nodes["/zookeeper/quota/open/zookeeper_stats"].data == b"count=5,bytes=0"
    assert do(proxy, Create("/open/4")) == [ErrorCode.QUOTA_EXCEEDED]
