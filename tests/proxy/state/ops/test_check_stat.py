"""checkStat: any field of the Stat."""

import pytest

from codec.constants import ErrorCode
from codec.packets import STAT
from tests.proxy.state.naive import CheckStat, Multi, SetData
from tests.proxy.state.ops.room import do, refusal, room

_ANY = (-1,) * 11


def _with(place: int, value: int) -> tuple[int, ...]:
    return (*_ANY[:place], value, *_ANY[place + 1 :])


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (CheckStat("/open"), None),
        (CheckStat("/open", 0, _with(9, 1)), None),
        (CheckStat("/open", 1), ErrorCode.BAD_VERSION),
        (CheckStat("/open", 0, _with(9, 2)), ErrorCode.BAD_VERSION),
        (CheckStat("/open", 0, _with(4, 7)), ErrorCode.BAD_VERSION),
        (CheckStat("/missing"), ErrorCode.NO_NODE),
        (CheckStat("/keeper/x"), ErrorCode.BAD_ARGUMENTS),
        (CheckStat("/closed", 7), ErrorCode.NO_AUTH),
        (CheckStat("/open/"), ErrorCode.BAD_ARGUMENTS),
    ],
)
def test_what_is_refused(asked: CheckStat, code: ErrorCode | None) -> None:
    assert refusal(asked, keeper=True) == code


def test_every_field_counts() -> None:
    world = room()
    stat = STAT.unpack(world.machine.tree.nodes["/open"].stat())
    assert ErrorCode.BAD_VERSION not in do(world, CheckStat("/open", -1, stat))
    wrong = [CheckStat("/open", -1, _with(place, value + 1)) for place, value in enumerate(stat)]
    assert do(world, *wrong) == [ErrorCode.BAD_VERSION] * 11


def test_a_change_in_the_same_multi_counts() -> None:
    world = room()
    zxid = world.machine.zxid
    for mzxid, failed_at in ((zxid, 1), (zxid + 2, None)):
        (answer,) = do(world, Multi((SetData("/open"), CheckStat("/open", -1, _with(1, mzxid)))))
        assert answer.failed_at == failed_at
