"""reconfig is disabled, and getConfig finds an empty configuration."""

from codec.constants import ErrorCode, OpCode
from codec.jute import LONG, NULL, pack_string
from tests.proxy.state.ops.room import room
from tests.proxy.state.world import client


def test_reconfig_is_refused_once_it_is_read() -> None:
    world = room()
    whole = pack_string("server.1=a:1:2") + NULL + NULL + LONG.pack(-1)
    zxid = world.machine.zxid
    assert world.enter(client(1, OpCode.RECONFIG, whole))[0].err == ErrorCode.RECONFIG_DISABLED
    assert world.machine.zxid == zxid + 1
    for end in range(len(whole)):
        assert world.enter(client(1, OpCode.RECONFIG, whole[:end]))[0].err == ErrorCode.MARSHALLING_ERROR
    assert world.machine.zxid == zxid + 1
