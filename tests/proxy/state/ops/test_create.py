"""create: what is refused, in which order, and what a new node looks like."""

import pytest

from codec.constants import CreateMode, ErrorCode, OpCode
from codec.jute import INT, OPEN_ACLS, pack_buffer, pack_string
from codec.packets import STAT
from proxy.state.capture import new_machine
from proxy.state.operation import WriteOperation
from proxy.state.ops.create import CREATE2, CREATE_CONTAINER, CREATE_TTL
from proxy.state.refusal import Refusal
from proxy.state.transaction import Transaction
from schema.entry import Rules
from schema.znode import CONTAINER_OWNER, MAX_TTL, OPEN_ACL, session_of, ttl_owner
from tests.proxy.state.naive import Create, CreateMortal, Delete, Multi
from tests.proxy.state.ops.room import BAD, do, refusal, room, with_quota
from tests.proxy.state.world import all_pages, assert_sound, client, reloaded


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
        (Create("//"), ErrorCode.BAD_ARGUMENTS),
        (Create("//x"), ErrorCode.BAD_ARGUMENTS),
        (Create("//", flags=CreateMode.PERSISTENT_SEQUENTIAL), ErrorCode.BAD_ARGUMENTS),
        (Create("//x", flags=CreateMode.EPHEMERAL_SEQUENTIAL), ErrorCode.BAD_ARGUMENTS),
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


_EVERYTHING = int(Rules.EXTENDED_TYPES)


def ask(operation: WriteOperation, *fields: object, rules: int = _EVERYTHING) -> ErrorCode | tuple[str, int]:
    """The refusal, or the path and owner of what is created in a tree with a root and the container /c."""
    machine = new_machine(1)
    tx = Transaction(machine.tree, machine.sessions, machine.digest)
    tx.enter("home", 5, rules)
    tx.create("/c", "/", tx.nodes["/"], b"", OPEN_ACL, CONTAINER_OWNER)
    tx.session_id = 7
    try:
        path, node = operation.apply(tx, fields)
    except Refusal as refusal:
        return refusal.code
    assert operation.reply((path, node)).endswith(
        STAT.pack(0, 0, 5, 5, 0, 0, 0, session_of(node.owner), 0, 0, 0)
    )
    assert tx.nodes[path] is node
    return path, node.owner


@pytest.mark.parametrize("flags", TTL_FLAGS)
def test_a_mode_with_a_ttl_wants_one(flags: int) -> None:
    for operation in (CREATE2, CREATE_CONTAINER):
        assert ask(operation, "/new", b"", OPEN_ACL, flags) == ErrorCode.BAD_ARGUMENTS
        assert ask(operation, "/new", b"", OPEN_ACL, flags, rules=0) == ErrorCode.UNIMPLEMENTED


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
    off = 0
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
    world = room()
    answers = do(
        world,
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
    assert world.machine.tree.nodes["/open/s0000000002"].owner == 1
    assert world.machine.tree.nodes["/open/0000000003"].owner == 0


def test_the_answers_on_the_wire() -> None:
    world = room()
    body = pack_string("/a") + pack_buffer(b"abc") + OPEN_ACLS + INT.pack(1)
    assert world.enter(client(1, OpCode.CREATE, body), clock=5) == [(0, b"\0\0\0\2/a")]
    body = body.replace(b"/a", b"/b")
    (outcome,) = world.enter(client(1, OpCode.CREATE2, body), clock=5)
    zxid = world.machine.zxid
    assert outcome.body == b"\0\0\0\2/b" + STAT.pack(zxid, zxid, 5, 5, 0, 0, 0, 1, 3, 0, zxid)


def test_a_sequence_goes_round_as_javas() -> None:
    world = room()
    world.nodes["/open"].created = 2**31 - 1
    world.machine.reset_digest()
    answers = do(world, Create("/open/s", flags=2), Create("/open/s", flags=2), Create("/open/s", flags=2))
    assert [answer.path for answer in answers] == [
        "/open/s2147483647",
        "/open/s-2147483648",
        "/open/s-2147483647",
    ]
    assert world.nodes["/open"].created == -(2**31) + 2
    assert_sound(world.machine)
    assert all_pages(reloaded(world.machine)) == all_pages(world.machine)


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


def test_a_multi_is_judged_by_what_was_before_it() -> None:
    """As in ZooKeeper, so that it may go beyond a quota once."""
    world = with_quota("/open", b"countHardLimit=3")
    multi, late = do(world, Multi((Create("/open/1"), Create("/open/2"))), Create("/open/3"))
    assert multi.failed_at is None
    assert late == ErrorCode.QUOTA_EXCEEDED
    assert world.nodes["/zookeeper/quota/open/zookeeper_stats"].data == b"count=4,bytes=0"
