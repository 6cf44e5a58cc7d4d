"""Findings that the checker of histories cannot have: against the log, the other trees, and the clock."""

import pytest

from proof.history import GetData, History, Reply, SetData, Stat
from proof.simulation.exactly_once import Logged
from proof.simulation.oracle import Done, Oracle
from proof.simulation.packets import parts_of
from proof.torture.judge import Acknowledged, Seen, Verdict, differences, judge
from proof.torture.real import RealClock

_SESSION = 5
_SECOND = 1_000_000_000
_STALENESS = 15.0
_WRITE = SetData("/r/a", b"1")


@pytest.fixture
def oracle() -> Oracle:
    return Oracle(RealClock(1), 0)


def _answer(zxid: int, *, read: bool = False, time: float = 100.0) -> Acknowledged:
    return Acknowledged(time, _SESSION, GetData("/r/a") if read else _WRITE, Reply(zxid=zxid), 6.0)


def _verdict(
    oracle: Oracle, *answers: Acknowledged, history: History | None = None, excused: int = 0
) -> Verdict:
    return judge(
        history or History(),
        oracle,
        answers,
        excused={excused},
        loads=False,
        settle=True,
        max_staleness=_STALENESS,
    )


def test_an_acknowledged_write_that_the_log_does_not_have_is_found(oracle: Oracle) -> None:
    oracle.done[7] = Done(_SESSION, 5, 0)
    assert _verdict(oracle, _answer(7)).violations == []
    oracle.done[8] = Done(_SESSION + 1, 5, 0)
    oracle.done[9] = Done(_SESSION, 5, -101)
    for zxid in (6, 8, 9):
        (found,) = _verdict(oracle, _answer(zxid)).violations
        assert "acknowledgement" in found


def test_a_request_that_is_in_the_log_twice_is_found(oracle: Oracle) -> None:
    history = History()
    history.opened(0, _SESSION)
    call = history.invoke(1, _SESSION, _WRITE)
    history.lost(2, call)
    opcode, body = parts_of(_WRITE)
    logged = [Logged(0.0, zxid, opcode, body, -101, b"") for zxid in (3, 4)]
    oracle.writes[_SESSION] = logged[:1]
    assert _verdict(oracle, history=history).violations == []
    oracle.writes[_SESSION] = logged
    (found,) = _verdict(oracle, history=history).violations
    assert "twice" in found


def test_a_read_that_is_too_old_is_found(oracle: Oracle) -> None:
    oracle.times, oracle.zxids = [0.0, 50.0, 90.0], [1, 2, 3]
    assert _verdict(oracle, _answer(2, read=True)).violations == []
    (found,) = _verdict(oracle, _answer(1, read=True)).violations
    assert found.startswith("staleness: ")


def test_an_early_end_is_set_aside_only_for_a_session_whose_proxy_lost_its_lease(oracle: Oracle) -> None:
    history = History()
    history.opened(0, _SESSION, timeout_ms=6_000)
    call = history.invoke(_SECOND, _SESSION, GetData("/r/a"))
    history.reply(_SECOND + 1, call, Reply(-101, zxid=1))
    history.expired(2 * _SECOND, _SESSION)
    (found,) = _verdict(oracle, history=history).violations
    assert "lifetime" in found
    verdict = _verdict(oracle, history=history, excused=_SESSION)
    assert (verdict.violations, verdict.excused) == ([], 1)


def _seen(data: bytes = b"1", names: tuple[str, ...] = ("a",), version: int = 0) -> Seen:
    stat = Stat(version=version)
    return Seen(
        {"/r": Reply(data=b"", stat=stat), "/r/a": Reply(data=data, stat=stat)},
        {"/r": Reply(names=names, stat=stat), "/r/a": Reply(names=(), stat=stat)},
    )


def test_trees_that_differ_are_found() -> None:
    expected: dict[str, bytes | None] = {"/r": None, "/r/a": b"1"}
    assert differences(expected, {"proxy1": _seen(), "proxy2": _seen()}) == []
    for other in (_seen(data=b"2"), _seen(names=()), _seen(version=1)):
        assert differences(expected, {"proxy1": _seen(), "proxy2": other})
    silent = Seen({}, {})
    assert len(differences(expected, {"proxy1": silent, "proxy2": _seen()})) == 2


def test_an_entry_that_is_seen_late_counts_from_when_others_saw_what_came_behind_it(oracle: Oracle) -> None:
    """The observer's watch was broken; meanwhile a client saw a later state."""
    history = History()
    history.opened(0, _SESSION)
    lost = history.invoke(1 * _SECOND, _SESSION, _WRITE)
    history.lost(2 * _SECOND, lost)
    history.attached(2 * _SECOND + 1, _SESSION)
    call = history.invoke(3 * _SECOND, _SESSION, GetData("/r/a"))
    history.reply(3 * _SECOND + 1, call, Reply(-101, zxid=9))
    opcode, body = parts_of(_WRITE)
    oracle.writes[_SESSION] = [Logged(5.0, 7, opcode, body, -101, b"")]
    assert _verdict(oracle, history=history).violations == []
