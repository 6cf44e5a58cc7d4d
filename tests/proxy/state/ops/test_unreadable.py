"""What cannot be decoded: the answer. And sync and reconfig."""

import pytest

from codec.constants import ErrorCode, OpCode
from codec.errors import MalformedPacket, NullString
from codec.jute import LONG, NULL, pack_string
from proxy.state.ops import EXTENDED
from proxy.state.ops.unreadable import NullAcl, code_of
from tests.proxy.state.ops.room import room
from tests.proxy.state.world import all_pages, client

CUT, NULL_PATH, NULL_ACL = MalformedPacket(), NullString("", 0), NullAcl()


@pytest.mark.parametrize("error", [CUT, NULL_PATH, NULL_ACL])
def test_the_answer(error: MalformedPacket) -> None:
    for opcode, operation in EXTENDED.writes.items():
        checked = error is NULL_PATH and opcode in (OpCode.SET_DATA, OpCode.SET_ACL)
        assert code_of(operation, error) is (
            ErrorCode.BAD_ARGUMENTS if checked else ErrorCode.MARSHALLING_ERROR
        )


@pytest.mark.parametrize("raw", [pack_string("/a"), pack_string(""), NULL])
def test_the_path_of_a_sync_comes_back_and_nothing_else_happens(raw: bytes) -> None:
    world = room()
    zxid, before = world.machine.zxid, all_pages(world.machine)
    assert world.enter(client(1, OpCode.SYNC, raw)) == [(0, raw)]
    assert world.machine.zxid == zxid
    assert all_pages(world.machine)[:2] == before[:2]


def test_reconfig_is_refused_once_it_is_read() -> None:
    world = room()
    whole = pack_string("server.1=a:1:2") + NULL + NULL + LONG.pack(-1)
    zxid = world.machine.zxid
    assert world.enter(client(1, OpCode.RECONFIG, whole))[0].err == ErrorCode.RECONFIG_DISABLED
    for end in range(len(whole)):
        assert world.enter(client(1, OpCode.RECONFIG, whole[:end]))[0].err == ErrorCode.MARSHALLING_ERROR
    assert world.machine.zxid == zxid + 1
