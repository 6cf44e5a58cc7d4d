"""The comparer can fail: every kind of difference that it is there for is found, and equal runs pass."""

import pytest

from lab.oracle.wire import Closed, Session, Silent, Stat
from tests.compat.compare import Answer, Matcher, Mismatch, Notice, Outcome, Seen, ZxidMap

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


@pytest.mark.parametrize(
    "other",
    [
        RIGHT._replace(xid=2),
        RIGHT._replace(err=-101),
        RIGHT._replace(zxid=70),
        RIGHT._replace(zxid=0),
        RIGHT._replace(wrote=True),
        RIGHT._replace(values=("/b", b"data", RIGHT_STAT)),
        RIGHT._replace(values=("/a", None, RIGHT_STAT)),
        RIGHT._replace(values=("/a", b"data")),
        Notice(80, 1, 3, "/a"),
        Closed(),
        Silent(),
    ],
)
def test_another_answer_is_found(other: Seen) -> None:
    with pytest.raises(Mismatch):
        compare([LEFT], [other])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", 2),
        ("cversion", 3),
        ("aversion", 4),
        ("data_length", 5),
        ("num_children", 6),
        ("ephemeral_owner", 0),
        ("ephemeral_owner", 0x100),
        ("czxid", 62),
        ("czxid", 0),
        ("mzxid", 50),
        ("mzxid", 78),
        ("pzxid", 61),
        ("ctime", 0),
        ("mtime", 0),
    ],
)
def test_another_stat_is_found(field: str, value: int) -> None:
    with pytest.raises(Mismatch):
        compare([LEFT], [RIGHT._replace(values=("/a", b"data", RIGHT_STAT._replace(**{field: value})))])


@pytest.mark.parametrize(
    "other", [Notice(80, 2, 3, "/a"), Notice(80, 1, 0, "/a"), Notice(80, 1, 3, "/b"), Notice(-1, 1, 3, "/a")]
)
def test_another_event_is_found(other: Notice) -> None:
    with pytest.raises(Mismatch):
        compare([Notice(8, 1, 3, "/a")], [other])


@pytest.mark.parametrize(
    "other",
    [
        SESSIONS[1]._replace(timeout_ms=4001),
        SESSIONS[1]._replace(protocol=1),
        SESSIONS[1]._replace(password=b"y" * 15),
        SESSIONS[1]._replace(password=b"\0" * 16),
        SESSIONS[1]._replace(trailer=b""),
        SESSIONS[1]._replace(id=0),
        SESSIONS[1]._replace(id=0x998),
    ],
)
def test_another_session_is_found(other: Session) -> None:
    with pytest.raises(Mismatch):
        compare([SESSIONS[0]], [other])


def test_missing_and_extra_messages_are_found() -> None:
    with pytest.raises(Mismatch):
        compare([LEFT], [])
    with pytest.raises(Mismatch):
        compare([], [RIGHT])


def test_order_of_event_and_reply_is_found() -> None:
    with pytest.raises(Mismatch):
        compare([LEFT, Notice(9, 1, 3, "/a")], [Notice(90, 1, 3, "/a"), RIGHT])


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
