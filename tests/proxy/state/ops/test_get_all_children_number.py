"""getAllChildrenNumber: how many nodes lie below one."""

import pytest

from codec.constants import ErrorCode
from codec.jute import INT, pack_string
from proxy.state.ops.get_all_children_number import get_all_children_number
from proxy.state.refusal import Refusal
from tests.proxy.state.naive import Create
from tests.proxy.state.ops.room import do, room
from tests.proxy.state.ops.test_reads import Client


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("/open", 3),
        ("/open/child", 1),
        ("/open/child/x", 0),
        ("/", 11),
        ("", 12),
        ("/missing", ErrorCode.NO_NODE),
        ("/closed", ErrorCode.NO_AUTH),
    ],
)
def test_numbers(path: str, number: int) -> None:
    world = room()
    do(world, Create("/open/child/x"), Create("/open2"), Create("/open/y"))
    reading = world.reading
    frame = b"head" + pack_string(path)
    if isinstance(number, ErrorCode):
        with pytest.raises(Refusal) as refusal:
            get_all_children_number(reading, Client(), frame, 4)
        assert refusal.value.code is number
    else:
        assert get_all_children_number(reading, Client(), frame, 4) == INT.pack(number)
