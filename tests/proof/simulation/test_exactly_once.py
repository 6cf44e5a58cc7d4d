"""What the log says of calls without an answer."""

import pytest

from codec.constants import ErrorCode
from proof.history import Create, Delete, Exists, History, check
from proof.history.records import NO_NODE, GetData, Lost, Opened, Replied, Reply
from proof.simulation import packets
from proof.simulation.exactly_once import Logged, settled

_SESSION = 7
_MOVED = -118


def _never(what: str) -> None:
    raise AssertionError(what)


def _logged(time: float, zxid: int, error: int) -> Logged:
    asked = packets.asked(Delete("/d"))
    return Logged(time, zxid, asked.opcode, asked.body, error, b"")


def test_a_lost_call_gets_the_outcome_that_the_log_has() -> None:
    history = History()
    history.opened(0, _SESSION)
    call = history.invoke(1, _SESSION, Delete("/d"))
    history.lost(2, call)
    (_, _, replied) = settled(history, {_SESSION: [_logged(3e-9, 5, -101)]}, _never).records
    assert replied == Replied(3, call, Reply(-101, 5))


def test_of_two_equal_calls_one_of_which_was_refused_the_log_does_not_say_which_was_done() -> None:
    """The first goes to a proxy that the session leaves, the second to the next one (stormy seed 220)."""
    history = History()
    history.opened(0, _SESSION)
    first = history.invoke(1, _SESSION, Delete("/d"))
    history.lost(2, first)
    history.attached(3, _SESSION)
    read = history.invoke(4, _SESSION, GetData("/other"))
    history.reply(5, read, Reply(-101, 3))
    second = history.invoke(6, _SESSION, Delete("/d"))
    history.lost(7, second)
    log = [_logged(8e-9, 4, _MOVED), _logged(9e-9, 5, -101)]
    told = settled(history, {_SESSION: log}, _never)
    assert [record.call for record in told.records if isinstance(record, Lost)] == [first, second]
    assert check(told) == []


@pytest.mark.parametrize(("end", "rules"), [(None, set()), (5, set()), (12, {"linearizable"})])
def test_a_session_ends_where_the_log_ends_it(end: int | None, rules: set[str]) -> None:
    """A search for the places of many ends takes too many steps (torture's seeds 102 and 103)."""
    history = History()
    history.opened(0, _SESSION, 10)
    made = history.invoke(1, _SESSION, Create("/e", ephemeral=True))
    history.reply(2, made, Reply(zxid=1, path="/e"))
    history.expired(100_000_000, _SESSION)
    other = history.invoke(100_000_001, 2, Create("/b"))
    history.reply(100_000_002, other, Reply(zxid=9, path="/b"))
    read = history.invoke(100_000_003, 2, Exists("/e"))
    history.reply(100_000_004, read, Reply(NO_NODE, 9))
    told = settled(history, {}, _never, {} if end is None else {_SESSION: end})
    assert {violation.rule for violation in check(told)} == rules


def test_a_lost_call_that_is_not_in_the_log_was_never_done() -> None:
    history = History()
    history.opened(0, _SESSION)
    call = history.invoke(1, _SESSION, Create("/a"))
    history.lost(2, call)
    assert [type(record) for record in settled(history, {}, _never).records] == [Opened]
    read = history.invoke(3, 2, Exists("/a"))
    history.reply(4, read, Reply(zxid=7))
    assert check(history) == []
    assert [violation.rule for violation in check(settled(history, {}, _never))] == ["linearizable"]


def test_a_refusal_that_is_not_in_the_log_has_the_zxid_of_another_write() -> None:
    """etcd is full: a lost write is done, and then the server refuses the next one (stormy seed 107)."""
    history = History()
    history.opened(0, _SESSION)
    call = history.invoke(1, _SESSION, Delete("/d"))
    history.lost(2, call)
    refused = history.invoke(3, _SESSION, Create("/a"))
    history.reply(4, refused, Reply(ErrorCode.SYSTEM_ERROR, 5))
    told = settled(history, {_SESSION: [_logged(3e-9, 5, NO_NODE)]}, _never)
    assert Replied(3, call, Reply(NO_NODE, 5)) in told.records
