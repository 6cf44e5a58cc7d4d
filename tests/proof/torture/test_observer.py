"""Which sessions count as left behind by their proxy: their early end is set aside."""

from collections.abc import Sequence

import pytest

from proof.torture.cluster import later_incarnations
from proof.torture.observer import Observer
from proof.torture.real import RealClock

_LOG = """\
2026-01-01 00:00:00,000 INFO proxy.log.membership: registered as 0a
2026-01-01 00:00:09,000 WARNING proxy.log.incarnations: carrying sessions over from 0a; 3 sent again
2026-01-01 00:00:09,100 INFO proxy.log.membership: registered as 0b
"""


def test_the_later_incarnations_of_a_proxy_are_in_its_log() -> None:
    assert later_incarnations(_LOG, "0a") == ["0b"]
    assert later_incarnations(_LOG, "0b") == []
    assert later_incarnations(_LOG, "0c") == []


@pytest.mark.parametrize(
    ("gone", "successors", "applied", "is_left"),
    [
        ([], [], {}, False),  # its proxy lives
        (["0a"], [], {}, True),  # the process is gone
        (["0a"], ["0b"], {}, True),  # it has come back, and could not tell yet
        (["0a"], ["0b"], {"0b": 1}, False),  # what it says first is that it takes its sessions over
        (["0a"], ["0b", "0c"], {"0c": 4}, False),
        (["0a"], ["0b"], {"0d": 1}, True),
    ],
)
async def test_a_session_is_left_behind_until_a_new_incarnation_of_its_proxy_has_appended_something(
    gone: Sequence[str], successors: Sequence[str], applied: dict[str, int], is_left: bool
) -> None:
    observer = Observer(RealClock(1), ["http://127.0.0.1:1"])
    try:
        observer.successors = lambda incarnation: successors if incarnation == "0a" else []
        observer.oracle.machine.applied.update(applied)
        for incarnation in gone:
            observer.note_gone(incarnation)
        ended: list[int] = []
        observer.on_expiry = ended.append
        observer.expired(7, "0a")
        assert ended == [7]
        assert observer.excused == ({7} if is_left else set())
    finally:
        await observer.close()
