"""reconfig is disabled, and getConfig finds an empty configuration."""

import pytest

from codec.constants import ErrorCode
from codec.errors import MalformedPacket
from codec.jute import LONG, NULL, pack_string
from proxy.operation import Reading
from proxy.ops.reconfig import reconfig
from proxy.refusal import Refusal
from tests.proxy.ops.room import room
from tests.proxy.ops.test_reads import Client


def test_reconfig_is_refused_once_it_is_read() -> None:
    proxy = room()
    reading = Reading(proxy.mirror.tree, proxy.watches)
    whole = pack_string("server.1=a:1:2") + NULL + NULL + LONG.pack(-1)
    with pytest.raises(Refusal) as refusal:
        reconfig(reading, Client(), b"head" + whole, 4)
    assert refusal.value.code is ErrorCode.RECONFIG_DISABLED
    for end in range(len(whole)):
        with pytest.raises(MalformedPacket):
            reconfig(reading, Client(), whole[:end], 0)
