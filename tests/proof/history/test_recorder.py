"""Histories of several recorders become one."""

from proof.history import Create, History, Reply
from proof.history.records import Invoked, Replied


def test_merged_histories_are_in_the_order_of_time_with_calls_of_their_own() -> None:
    one, other = History(), History()
    one.reply(30, one.invoke(10, 1, Create("/a")), Reply())
    other.reply(40, other.invoke(20, 2, Create("/b")), Reply())
    merged = one.merged(other)
    assert [record.time for record in merged.records] == [10, 20, 30, 40]
    calls = [record.call for record in merged.records if isinstance(record, Invoked | Replied)]
    assert calls == [0, 1, 0, 1]
    assert merged.invoke(50, 1, Create("/c")) == 2
