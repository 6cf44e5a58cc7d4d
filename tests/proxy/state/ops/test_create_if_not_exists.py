"""createIfNotExists: create, content with a node that is there already."""

import pytest

from codec.constants import ErrorCode
from codec.errors import NullString
from codec.jute import INT, NULL, OPEN_ACLS, pack_buffer
from proxy.state.ops.create_if_not_exists import CREATE_IF_NOT_EXISTS
from tests.proxy.state.naive import Answer, CreateIfNotExists, SetData
from tests.proxy.state.ops.room import BAD, do, refusal, room


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (CreateIfNotExists("/new"), None),
        (CreateIfNotExists("/open"), None),
        (CreateIfNotExists("/closed"), None),
        (CreateIfNotExists("/brief", flags=1), None),
        (CreateIfNotExists("/missing/x"), ErrorCode.NO_NODE),
        (CreateIfNotExists("/closed/x"), ErrorCode.NO_AUTH),
        (CreateIfNotExists("/brief/x"), ErrorCode.NO_CHILDREN_FOR_EPHEMERALS),
        (CreateIfNotExists("/new", acl=BAD), ErrorCode.INVALID_ACL),
        (CreateIfNotExists("/new", flags=2), ErrorCode.BAD_ARGUMENTS),
        (CreateIfNotExists("/open", flags=3), ErrorCode.BAD_ARGUMENTS),
        (CreateIfNotExists("/new", flags=9), ErrorCode.BAD_ARGUMENTS),
        (CreateIfNotExists("/keeper"), ErrorCode.BAD_ARGUMENTS),
        (CreateIfNotExists("nowhere"), ErrorCode.BAD_ARGUMENTS),
    ],
)
def test_what_is_refused(asked: CreateIfNotExists, code: ErrorCode | None) -> None:
    assert refusal(asked, keeper=True) == code


def test_what_is_there_stays_as_it_is() -> None:
    world = room()
    do(world, SetData("/open", b"old"))
    before = world.machine.tree.nodes["/open"].stat()
    assert do(world, CreateIfNotExists("/open", b"new"), CreateIfNotExists("/new", b"new")) == [
        Answer("/open"),
        Answer("/new"),
    ]
    nodes = world.machine.tree.nodes
    assert (nodes["/open"].data, nodes["/open"].stat()) == (b"old", before)
    assert nodes["/new"].data == b"new"


def test_a_null_path_cannot_be_read() -> None:
    raw = NULL + pack_buffer(b"") + OPEN_ACLS + INT.pack(0)
    with pytest.raises(NullString) as null:
        CREATE_IF_NOT_EXISTS.decode(b"head" + raw + b"more", 4)
    assert null.value.end == 4 + len(raw)
