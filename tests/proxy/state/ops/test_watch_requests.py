"""setWatches: what rights its events carry, and where it ends at a null; more in tests/compat."""

import pytest

from codec.constants import OpCode
from codec.errors import MalformedPacket
from codec.jute import INT, LONG, NULL, pack_string
from tests.proxy.state.ops.room import Client, read, room
from tests.proxy.state.world import World
from tests.table import one_by_one

_List = list[str | None] | None


def _lists(last_seen: int, *lists: _List) -> bytes:
    """What setWatches takes, with three lists, and setWatches2 with five."""
    return LONG.pack(last_seen) + b"".join(
        NULL if texts is None else INT.pack(len(texts)) + b"".join(map(pack_string, texts)) for texts in lists
    )


def _set(world: World, last_seen: int, *lists: _List) -> Client:
    client = Client()
    opcode = OpCode.SET_WATCHES if len(lists) == 3 else OpCode.SET_WATCHES2
    assert read(world, opcode, _lists(last_seen, *lists), client) == b""
    return client


def test_what_was_missed_carries_the_acl_that_may_withhold_it() -> None:
    world = room()
    client = _set(world, 0, ["/closed"], ["/closed"], ["/closed"])
    closed = world.machine.tree.nodes["/closed"].rights
    assert [rights for *_, rights in client.told] == [closed] * 3


@one_by_one(
    ("lists", "set_before"),
    [
        ((["/open"], None, [], [], []), 1),
        ((["/open", None], [], [], [], []), 1),
        (([], ["/gone", None], [], [], []), 1),
        (([], [], ["/open", None, "/"], [], []), 1),
        ((["/open"], ["/gone"], None, ["/open"], []), 2),
        ((["/open"], [], [], None, ["/open"]), 1),
        (([], [], [], ["/"], None), 2),
    ],
)
def test_a_null_is_stumbled_over_at_its_turn(lists: tuple[_List, ...], set_before: int) -> None:
    world = room()
    with pytest.raises(MalformedPacket):
        _set(world, world.machine.zxid, *lists)
    assert world.watches.total() == set_before
