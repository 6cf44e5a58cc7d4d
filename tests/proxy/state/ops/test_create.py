"""create in all its forms: modes with a TTL, containers, names that are counted, and the answers."""

import pytest

from codec.constants import ErrorCode, OpCode
from codec.errors import NullString
from codec.jute import INT, NULL, OPEN_ACL, OPEN_ACL_PACKED, pack_buffer, pack_string
from codec.packets import STAT
from lab.oracle.requests import Create, CreateIfNotExists, Delete, SetData
from proof.naive import Answer
from proxy.state.capture import new_machine
from proxy.state.node import full_node
from proxy.state.operation import WriteOperation
from proxy.state.ops.create import CREATE2, CREATE_CONTAINER, CREATE_TTL
from proxy.state.ops.create_if_not_exists import CREATE_IF_NOT_EXISTS
from proxy.state.outcome import Refusal
from proxy.state.rights import OPEN
from proxy.state.transaction import Transaction
from schema.entry import Rules
from schema.znode import CONTAINER_OWNER, MAX_TTL, session_of, ttl_owner
from tests.proxy.state.ops.room import do, room
from tests.proxy.state.world import all_pages, assert_sound, client, reloaded
from tests.table import one_by_one

_EVERYTHING = int(Rules.EXTENDED_TYPES)


def ask(operation: WriteOperation, *fields: object, rules: int = _EVERYTHING) -> ErrorCode | tuple[str, int]:
    """The refusal, or the path and owner of what is created in a tree with a root and the container /c."""
    machine = new_machine(1)
    tx = Transaction(machine.tree, machine.sessions, machine.digest)
    tx.enter("home", 5, rules)
    tx.create("/c", "/", tx.nodes["/"], b"", OPEN, CONTAINER_OWNER)
    tx.session_id = 7
    try:
        path, node = operation.apply(tx, fields)
    except Refusal as refusal:
        return refusal.code
    stat = STAT.pack(0, 0, 5, 5, 0, 0, 0, session_of(node.owner), 0, 0, 0)
    assert operation.reply((path, node)).endswith(stat)
    assert tx.nodes[path] is node
    return path, node.owner


@one_by_one(
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


@one_by_one(
    ("flags", "answer"),
    [
        (4, ("/c/x", CONTAINER_OWNER)),
        (0, ("/c/x", CONTAINER_OWNER)),
        (1, ("/c/x", CONTAINER_OWNER)),  # the opcode says what it is
        (2, ("/c/x0000000000", CONTAINER_OWNER)),
        (5, ErrorCode.BAD_ARGUMENTS),  # a mode with a TTL wants one
        (6, ErrorCode.BAD_ARGUMENTS),
        (7, ErrorCode.BAD_ARGUMENTS),
    ],
)
def test_containers(flags: int, answer: object) -> None:
    assert ask(CREATE_CONTAINER, "/c/x", b"", OPEN_ACL, flags) == answer
    assert flags < 5 or ask(CREATE2, "/c/x", b"", OPEN_ACL, flags) == answer


def test_ttl_nodes_can_be_switched_off() -> None:
    assert ask(CREATE_TTL, None, b"", None, 5, 0, rules=0) == ErrorCode.UNIMPLEMENTED
    assert ask(CREATE_TTL, "/new", b"", OPEN_ACL, 0, 5, rules=0) == ErrorCode.BAD_ARGUMENTS
    for operation in (CREATE2, CREATE_CONTAINER):
        assert ask(operation, "/new", b"", OPEN_ACL, 5, rules=0) == ErrorCode.UNIMPLEMENTED


def test_null_paths() -> None:
    raw = b"head" + pack_string(None) + pack_buffer(b"d") + OPEN_ACL_PACKED + INT.pack(5) + b"\0" * 7 + b"\7"
    assert CREATE_TTL.decode(raw, 4) == ((None, b"d", OPEN_ACL, 5, 7), len(raw))
    raw = b"head" + NULL + pack_buffer(b"") + OPEN_ACL_PACKED + INT.pack(0)
    with pytest.raises(NullString) as null:
        CREATE_IF_NOT_EXISTS.decode(raw + b"more", 4)
    assert null.value.end == len(raw)


def test_a_sequential_name_counts_all_children_that_ever_were() -> None:
    world = room()
    answers = do(
        world,
        Create("/open/s", flags=2),
        Delete("/open/s0000000001"),
        Create("/open/s", flags=3),
        Create("/open/", flags=2),
    )
    paths = ["/open/s0000000001", None, "/open/s0000000002", "/open/0000000003"]
    assert [getattr(answer, "path", None) for answer in answers] == paths
    assert [world.nodes[path].owner for path in ("/open/s0000000002", "/open/0000000003")] == [1, 0]


def test_a_sequence_goes_round_as_javas() -> None:
    world = room()
    full_node(world.nodes, "/open").created = 2**31 - 1
    world.machine.reset_digest()
    answers = do(world, *[Create("/open/s", flags=2)] * 3)
    numbers = ["2147483647", "-2147483648", "-2147483647"]
    assert [answer.path for answer in answers] == [f"/open/s{number}" for number in numbers]
    assert full_node(world.nodes, "/open").created == -(2**31) + 2
    assert_sound(world.machine)
    assert all_pages(reloaded(world.machine)) == all_pages(world.machine)


def test_the_answers_on_the_wire() -> None:
    world = room()
    body = pack_string("/a") + pack_buffer(b"abc") + OPEN_ACL_PACKED + INT.pack(1)
    assert world.enter(client(1, OpCode.CREATE, body), clock=5) == [(0, b"\0\0\0\2/a")]
    body = body.replace(b"/a", b"/b")
    (outcome,) = world.enter(client(1, OpCode.CREATE2, body), clock=5)
    zxid = world.machine.zxid
    assert outcome.body == b"\0\0\0\2/b" + STAT.pack(zxid, zxid, 5, 5, 0, 0, 0, 1, 3, 0, zxid)


def test_create_if_not_exists_leaves_what_is_there_as_it_is() -> None:
    world = room()
    do(world, SetData("/open", b"old"))
    before = world.nodes["/open"].stat()
    answers = do(world, CreateIfNotExists("/open", b"new"), CreateIfNotExists("/new", b"new"))
    assert answers == [Answer("/open"), Answer("/new")]
    assert (world.nodes["/open"].data, world.nodes["/open"].stat()) == (b"old", before)
    assert world.nodes["/new"].data == b"new"
