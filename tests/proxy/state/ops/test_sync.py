"""sync: the path comes back, even a null one, and nothing else happens."""

import pytest

from codec.constants import OpCode
from codec.jute import NULL, pack_string
from tests.proxy.state.ops.room import room
from tests.proxy.state.world import all_pages, client


@pytest.mark.parametrize("raw", [pack_string("/a"), pack_string(""), NULL])
def test_the_path_comes_back(raw: bytes) -> None:
    world = room()
    zxid, before = world.machine.zxid, all_pages(world.machine)
    assert world.enter(client(1, OpCode.SYNC, raw)) == [(0, raw)]
    assert world.machine.zxid == zxid
    assert all_pages(world.machine)[:2] == before[:2]


def test_a_cut_one_spends_no_zxid_either() -> None:
    world = room()
    zxid = world.machine.zxid
    assert world.enter(client(1, OpCode.SYNC, b"\0"))[0].err == -5
    assert world.machine.zxid == zxid
