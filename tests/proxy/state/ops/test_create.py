"""create: null paths, a counter that wraps, and Keeper's createIfNotExists; more in tests/compat."""

import pytest

from codec.errors import NullString
from codec.jute import INT, NULL, OPEN_ACL, OPEN_ACL_PACKED, pack_buffer, pack_string
from lab.oracle.requests import Create, CreateIfNotExists, SetData
from proof.naive import Answer
from proxy.state.node import full_node
from proxy.state.ops.create import CREATE_TTL
from proxy.state.ops.create_if_not_exists import CREATE_IF_NOT_EXISTS
from tests.proxy.state.ops.room import do, room
from tests.proxy.state.world import all_pages, assert_sound, reloaded


def test_null_paths() -> None:
    raw = b"head" + pack_string(None) + pack_buffer(b"d") + OPEN_ACL_PACKED + INT.pack(5) + b"\0" * 7 + b"\7"
    assert CREATE_TTL.decode(raw, 4) == ((None, b"d", OPEN_ACL, 5, 7), len(raw))
    raw = b"head" + NULL + pack_buffer(b"") + OPEN_ACL_PACKED + INT.pack(0)
    with pytest.raises(NullString) as null:
        CREATE_IF_NOT_EXISTS.decode(raw + b"more", 4)
    assert null.value.end == len(raw)


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


def test_create_if_not_exists_leaves_what_is_there_as_it_is() -> None:
    world = room()
    do(world, SetData("/open", b"old"))
    before = world.nodes["/open"].stat()
    answers = do(world, CreateIfNotExists("/open", b"new"), CreateIfNotExists("/new", b"new"))
    assert answers == [Answer("/open"), Answer("/new")]
    assert (world.nodes["/open"].data, world.nodes["/open"].stat()) == (b"old", before)
    assert world.nodes["/new"].data == b"new"
