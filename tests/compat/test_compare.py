"""The comparer can fail: every kind of difference that it is there for is found, and equal runs pass."""

from typing import Any

import pytest

from lab.oracle.wire import Closed, Session, Silent, Stat
from tests.compat.compare import Answer, Matcher, Mismatch, Notice, Outcome, Seen, ZxidMap
from tests.table import one_by_one

LEFT_STAT = Stat(5, 6, 1000, 2000, 1, 2, 3, 0x100, 4, 5, 7)
RIGHT_STAT = Stat(50, 61, 1111, 2222, 1, 2, 3, 0x999, 4, 5, 77)
LEFT = Answer(1, 8, 0, ("/a", b"data", LEFT_STAT), False)
RIGHT = Answer(1, 80, 0, ("/a", b"data", RIGHT_STAT), False)
SESSIONS = (Session(0, 4000, 0x100, b"x" * 16, b"\0"), Session(0, 4000, 0x999, b"y" * 16, b"\0"))


def compare(left: list[Seen], right: list[Seen], *, unordered: bool = False, strict: bool = True) -> None:
    matcher = Matcher("left", "right", strict)
    matcher.compare({0: [SESSIONS[0]]}, {0: [SESSIONS[1]]}, unordered=False, positions=True)
    matcher.compare({0: left}, {0: right}, unordered=unordered, positions=True)


def test_equal_answers_pass() -> None:
    compare([LEFT, Notice(9, 1, 3, "/a"), Closed()], [RIGHT, Notice(90, 1, 3, "/a"), Closed()])


NOTICE = Notice(8, 1, 3, "/a")
Change = dict[str, Any]
OF_ANSWERS: list[Change] = [
    *({"xid": 2}, {"err": -101}, {"zxid": 70}, {"zxid": 0}, {"wrote": True}),
    *(
        {"values": values}
        for values in (("/b", b"data", RIGHT_STAT), ("/a", None, RIGHT_STAT), ("/a", b"data"))
    ),
]
OF_STATS: list[Change] = [
    *({"version": 2}, {"cversion": 3}, {"aversion": 4}, {"data_length": 5}, {"num_children": 6}),
    *({"ephemeral_owner": 0}, {"ephemeral_owner": 0x100}, {"czxid": 62}, {"czxid": 0}, {"mzxid": 50}),
    *({"mzxid": 78}, {"pzxid": 61}, {"ctime": 0}, {"mtime": 0}),
]
OF_SESSIONS: list[Change] = [
    *({"timeout_ms": 4001}, {"protocol": 1}, {"password": b"y" * 15}, {"password": bytes(16)}),
    *({"trailer": b""}, {"id": 0}, {"id": 0x998}),
]
OF_NOTICES: list[Change] = [{"type": 2}, {"state": 0}, {"path": "/b"}, {"zxid": -1}]
DIFFERENT: list[tuple[list[Any], list[Any]]] = [
    *[([LEFT], [RIGHT._replace(**change)]) for change in OF_ANSWERS],
    *[
        ([LEFT], [RIGHT._replace(values=("/a", b"data", RIGHT_STAT._replace(**change)))])
        for change in OF_STATS
    ],
    *[([LEFT], [other]) for other in (Notice(80, 1, 3, "/a"), Closed(), Silent())],
    *[([NOTICE], [NOTICE._replace(zxid=80)._replace(**change)]) for change in OF_NOTICES],
    *[([SESSIONS[0]], [SESSIONS[1]._replace(**change)]) for change in OF_SESSIONS],
    *[([LEFT], []), ([], [RIGHT])],
    ([LEFT, Notice(9, 1, 3, "/a")], [Notice(90, 1, 3, "/a"), RIGHT]),
]


@one_by_one(("left", "right"), DIFFERENT)
def test_a_difference_is_found(left: list[Seen], right: list[Seen]) -> None:
    with pytest.raises(Mismatch):
        compare(left, right)


def test_order_of_events_counts_unless_a_session_ends() -> None:
    left: list[Seen] = [Notice(9, 1, 3, "/a"), Notice(9, 1, 3, "/b")]
    right: list[Seen] = [Notice(90, 1, 3, "/b"), Notice(90, 1, 3, "/a")]
    compare(left, right, unordered=True)
    with pytest.raises(Mismatch):
        compare(left, right)


def test_two_times_of_one_change_are_found() -> None:
    later = RIGHT._replace(values=("/a", b"data", RIGHT_STAT._replace(mtime=2223)))
    with pytest.raises(Mismatch):
        compare([LEFT, LEFT], [RIGHT, later])


def test_zxids_keep_their_order() -> None:
    zxids = ZxidMap()
    zxids.change(10, 100)
    zxids.change(30, 300)
    zxids.change(20, 200)
    zxids.change(20, 200)
    for left, right in [(20, 201), (15, 200), (25, 300), (25, 150), (5, 100), (40, 300)]:
        with pytest.raises(Mismatch):
            zxids.change(left, right)
    zxids.position(25, 299)
    for left, right in [(25, 199), (25, 300), (5, 100)]:
        with pytest.raises(Mismatch):
            zxids.position(left, right)


def test_zxids_may_coincide_in_pipelined_runs_only() -> None:
    zxids = ZxidMap(strict=False)
    zxids.change(10, 100)
    zxids.change(11, 100)
    zxids.position(10, 105)
    with pytest.raises(Mismatch):
        zxids.change(12, 99)
    with pytest.raises(Mismatch):
        zxids.change(10, 101)


def test_outcome_of_another_slot_is_found() -> None:
    left: Outcome = {0: [], 1: [LEFT]}
    right: Outcome = {0: [RIGHT], 1: []}
    with pytest.raises(Mismatch):
        Matcher("left", "right").compare(left, right, unordered=False, positions=True)
