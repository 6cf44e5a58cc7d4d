"""The checker passes right histories, and finds each broken promise in a wrong one."""

import random
from collections.abc import Callable

import pytest

from proof.history import (
    AddWatch,
    Check,
    CloseSession,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    History,
    Multi,
    Reply,
    SetData,
    SetWatches,
    Stat,
    Sync,
    check,
)
from proof.history import records as r
from proof.history.calls import MalformedHistory
from proof.history.checker import RULES
from tests.proof.history.generated import Ensemble

_MS = 1_000_000


class Story(History):
    """A history told call by call; each record is a millisecond after the last."""

    now = 0

    def tick(self, milliseconds: int = 1) -> int:
        self.now += milliseconds * _MS
        return self.now

    def call(self, session: int, request: r.Request, reply: Reply) -> None:
        number = self.invoke(self.tick(), session, request)
        self.reply(self.tick(), number, reply)

    def unanswered(self, session: int, request: r.Request) -> None:
        number = self.invoke(self.tick(), session, request)
        self.lost(self.tick(), number)

    def told(self, session: int, type: int, path: str, zxid: int) -> None:
        self.event(self.tick(), session, type, path, zxid)


def rules(history: History) -> set[str]:
    return {violation.rule for violation in check(history)}


def created(path: str, zxid: int) -> Reply:
    return Reply(zxid=zxid, path=path)


def version(number: int) -> Stat:
    return Stat(version=number)


Wrong = Callable[[Story], None]


def an_acknowledged_write_is_lost(s: Story) -> None:
    s.call(1, Create("/a", b"1"), created("/a", 1))
    s.call(1, SetData("/a", b"2"), Reply(zxid=2, stat=version(1)))
    s.call(2, GetData("/a"), Reply(zxid=3, data=b"1", stat=version(0)))


def an_acknowledged_write_is_lost_without_zxids(s: Story) -> None:
    s.call(1, Create("/a", b"1"), Reply(path="/a"))
    s.call(1, SetData("/a", b"2"), Reply())
    s.call(1, GetData("/a"), Reply(data=b"1"))


def a_write_counts_twice(s: Story) -> None:
    s.call(1, Create("/a", b"1"), created("/a", 1))
    s.call(1, SetData("/a", b"2"), Reply(zxid=2, stat=version(1)))
    s.call(1, SetData("/a", b"3"), Reply(zxid=4, stat=version(3)))


def an_unanswered_write_counts_twice(s: Story) -> None:
    s.call(1, Create("/q"), created("/q", 1))
    s.unanswered(2, Create("/q/n-", b"x", sequential=True))
    s.call(1, GetChildren("/q"), Reply(zxid=9, names=("n-0000000000", "n-0000000001")))


def an_unanswered_write_comes_behind_a_later_one(s: Story) -> None:
    s.call(1, Create("/a", b"1"), created("/a", 1))
    s.unanswered(1, SetData("/a", b"2"))
    s.call(1, SetData("/a", b"3"), Reply(zxid=3, stat=version(1)))
    s.call(2, GetData("/a"), Reply(zxid=9, data=b"2"))


def an_unanswered_write_shows_and_is_gone(s: Story) -> None:
    s.call(1, Create("/a", b"1"), created("/a", 1))
    s.unanswered(1, SetData("/a", b"2"))
    s.call(2, GetData("/a"), Reply(zxid=3, data=b"2"))
    s.call(2, GetData("/a"), Reply(zxid=4, data=b"1"))


def a_value_comes_from_nowhere(s: Story) -> None:
    s.call(1, Create("/a", b"1"), created("/a", 1))
    s.call(2, GetData("/a"), Reply(zxid=2, data=b"9"))


def a_refused_write_counts(s: Story) -> None:
    s.call(1, Create("/a", b"1"), created("/a", 1))
    s.call(1, SetData("/a", b"2", 7), Reply(r.BAD_VERSION, 2))
    s.call(1, GetData("/a"), Reply(zxid=3, data=b"2"))


def a_refusal_without_reason(s: Story) -> None:
    s.call(1, Create("/a"), Reply(r.NODE_EXISTS, 1))


def a_multi_counts_in_part(s: Story) -> None:
    multi = Multi((Create("/a"), Check("/absent")))
    s.call(1, multi, Reply(zxid=1, parts=(Reply(), Reply(r.NO_NODE))))
    s.call(1, Exists("/a"), Reply(zxid=2, stat=Stat(czxid=1)))


def a_multi_names_the_wrong_part(s: Story) -> None:
    multi = Multi((Check("/absent"), Delete("/absent")))
    s.call(1, multi, Reply(zxid=1, parts=(Reply(), Reply(r.NO_NODE))))


def a_multis_keys_are_seen_apart(s: Story) -> None:
    s.call(1, Create("/a", b"1"), created("/a", 1))
    s.call(1, Create("/b", b"1"), created("/b", 2))
    s.call(1, Multi((SetData("/a", b"2"), SetData("/b", b"2"))), Reply(zxid=3, parts=(Reply(), Reply())))
    s.call(2, GetData("/a"), Reply(zxid=3, data=b"2"))
    s.call(2, GetData("/b"), Reply(zxid=3, data=b"1"))


def a_stat_is_wrong(s: Story) -> None:
    s.call(1, Create("/a"), created("/a", 1))
    s.call(1, Create("/a/b"), created("/a/b", 2))
    s.call(1, Exists("/a"), Reply(zxid=2, stat=Stat(pzxid=1)))


def two_writes_have_one_zxid(s: Story) -> None:
    s.call(1, Create("/a"), created("/a", 1))
    s.call(2, Create("/b"), created("/b", 1))


def a_later_write_has_an_earlier_zxid(s: Story) -> None:
    s.call(1, Create("/a"), created("/a", 5))
    s.call(2, Create("/b"), created("/b", 4))


def a_session_goes_back(s: Story) -> None:
    s.call(1, Create("/a"), created("/a", 1))
    s.call(1, Create("/b"), created("/b", 2))
    s.call(1, Exists("/b"), Reply(r.NO_NODE, 1))


def a_session_misses_what_its_event_said(s: Story) -> None:
    s.call(1, Create("/a", b"1"), created("/a", 1))
    s.call(2, GetData("/a", watch=True), Reply(zxid=1, data=b"1"))
    s.call(1, SetData("/a", b"2"), Reply(zxid=2))
    s.told(2, r.CHANGED, "/a", 2)
    s.call(2, GetData("/a"), Reply(zxid=1, data=b"1"))


def a_read_behind_a_sync_is_old(s: Story) -> None:
    s.call(1, Create("/a"), created("/a", 2))
    s.call(2, Sync(), Reply(zxid=2))
    s.call(2, Exists("/a"), Reply(r.NO_NODE, 1))


def a_sync_is_old(s: Story) -> None:
    s.call(1, Create("/a"), created("/a", 2))
    s.call(2, Sync(), Reply(zxid=1))


def a_read_behind_a_sync_is_old_without_zxids(s: Story) -> None:
    s.call(1, Create("/a"), Reply(path="/a"))
    s.call(2, Sync(), Reply())
    s.call(2, Exists("/a"), Reply(r.NO_NODE))


def a_number_is_given_twice(s: Story) -> None:
    s.call(1, Create("/q"), created("/q", 1))
    s.call(1, Create("/q/n-", sequential=True), created("/q/n-0000000000", 2))
    s.call(2, Create("/q/m-", sequential=True), created("/q/m-0000000000", 3))


def a_number_is_left_out(s: Story) -> None:
    s.call(1, Create("/q"), created("/q", 1))
    s.call(1, Create("/q/n-", sequential=True), created("/q/n-0000000001", 2))


def numbers_do_not_grow(s: Story) -> None:
    s.call(1, Create("/q"), created("/q", 1))
    s.call(1, Create("/q/n-", sequential=True), created("/q/n-0000000001", 2))
    s.call(1, Create("/q/n-", sequential=True), created("/q/n-0000000000", 3))


def an_ephemeral_outlives_its_session(s: Story) -> None:
    s.call(1, Create("/e", ephemeral=True), created("/e", 1))
    s.call(1, CloseSession(), Reply(zxid=2))
    s.call(2, Exists("/e"), Reply(zxid=2, stat=Stat(czxid=1)))


def an_ephemeral_outlives_an_expiry(s: Story) -> None:
    s.opened(s.tick(), 1, 10)
    s.call(1, Create("/e", ephemeral=True), created("/e", 1))
    s.expired(s.tick(100), 1)
    s.call(2, Create("/b"), created("/b", 9))
    s.call(2, Exists("/e"), Reply(zxid=9, stat=Stat(czxid=1)))


def ephemerals_go_one_by_one(s: Story) -> None:
    s.call(1, Create("/e", ephemeral=True), created("/e", 1))
    s.call(1, Create("/f", ephemeral=True), created("/f", 2))
    s.call(2, Exists("/e"), Reply(r.NO_NODE, 5))
    s.call(2, Exists("/f"), Reply(zxid=6, stat=Stat(czxid=2)))


def an_ephemeral_goes_while_its_session_works(s: Story) -> None:
    s.call(1, Create("/e", ephemeral=True), created("/e", 1))
    s.call(2, Exists("/e"), Reply(r.NO_NODE, 3))
    s.call(1, Create("/b"), created("/b", 5))


def an_ephemeral_goes_before_the_timeout(s: Story) -> None:
    s.opened(s.tick(), 1, 4000)
    s.call(1, Create("/e", ephemeral=True), created("/e", 1))
    s.call(2, Exists("/e"), Reply(r.NO_NODE, 3))


def a_session_expires_too_early(s: Story) -> None:
    s.opened(s.tick(), 1, 4000)
    s.call(1, Create("/a"), created("/a", 1))
    s.expired(s.tick(), 1)


def a_refusal_is_old(s: Story) -> None:
    s.call(1, Create("/lock"), created("/lock", 1))
    s.call(1, Delete("/lock"), Reply(zxid=5))
    s.call(2, Create("/lock"), Reply(r.NODE_EXISTS, 4))


def a_refused_multi_is_old(s: Story) -> None:
    s.call(1, Create("/a"), created("/a", 1))
    s.call(1, SetData("/a"), Reply(zxid=5))
    multi = Multi((Check("/a", 1), Delete("/a")))
    s.call(2, multi, Reply(zxid=2, parts=(Reply(r.BAD_VERSION), Reply(r.RUNTIME_INCONSISTENCY))))


def a_sync_without_zxid_promises_too_much(s: Story) -> None:
    s.call(1, Create("/a"), created("/a", 2))
    s.call(2, Sync(), Reply())
    s.call(2, Exists("/a"), Reply(r.NO_NODE, 1))


def a_read_behind_a_sync_is_old_elsewhere(s: Story) -> None:
    s.call(1, Create("/a"), created("/a", 2))
    s.call(2, Sync(), Reply(zxid=2))
    s.disconnected(s.tick(), 2)
    s.attached(s.tick(), 2)
    s.call(2, Exists("/a"), Reply(r.NO_NODE, 1))


def a_multi_without_an_answer_is_seen_in_part(s: Story) -> None:
    s.call(1, Create("/a", b"1"), created("/a", 1))
    s.call(1, Create("/b", b"1"), created("/b", 2))
    s.unanswered(1, Multi((SetData("/a", b"2"), SetData("/b", b"2"))))
    s.call(2, GetData("/a"), Reply(zxid=5, data=b"2"))
    s.call(2, GetData("/b"), Reply(zxid=5, data=b"1"))


def a_multi_has_too_few_results(s: Story) -> None:
    s.call(1, Multi((Create("/a"), Create("/b"))), Reply(zxid=1, parts=(Reply(path="/a"),)))


def an_unanswered_write_has_the_zxid_of_another(s: Story) -> None:
    s.call(1, Create("/a", b"1"), created("/a", 1))
    s.call(1, Create("/b"), created("/b", 3))
    s.unanswered(2, SetData("/a", b"2"))
    s.call(1, Create("/c"), created("/c", 5))
    s.call(1, GetData("/a"), Reply(zxid=5, data=b"2", stat=Stat(mzxid=5)))


def an_unanswered_write_is_seen_before_it_was_sent(s: Story) -> None:
    s.call(1, Create("/a", b"1"), created("/a", 1))
    s.call(2, GetData("/a"), Reply(zxid=2, data=b"2"))
    s.unanswered(1, SetData("/a", b"2"))


def a_number_comes_again_when_its_node_is_gone(s: Story) -> None:
    s.call(1, Create("/q"), created("/q", 1))
    s.call(1, Create("/q/n-", sequential=True), created("/q/n-0000000000", 2))
    s.call(1, Delete("/q/n-0000000000"), Reply(zxid=3))
    s.call(2, Create("/q/n-", sequential=True), created("/q/n-0000000000", 4))


def a_number_of_an_unanswered_create_comes_again(s: Story) -> None:
    s.call(1, Create("/q"), created("/q", 1))
    s.unanswered(1, Create("/q/n-", sequential=True))
    s.call(2, GetChildren("/q"), Reply(zxid=3, names=("n-0000000000",)))
    s.call(2, Create("/q/n-", sequential=True), Reply(r.NODE_EXISTS, 4))
    s.call(3, Create("/q/m-", sequential=True), created("/q/m-0000000000", 5))


def a_session_moved_and_its_old_connection_is_answered(s: Story) -> None:
    s.call(2, Create("/a"), created("/a", 1))
    late = s.invoke(s.tick(), 1, SetData("/a", b"1"))
    s.disconnected(s.tick(), 1)
    s.attached(s.tick(), 1)
    s.call(1, SetData("/a", b"2"), Reply(zxid=5, stat=version(1)))
    s.reply(s.tick(), late, Reply(zxid=6, stat=version(2)))


def a_closed_session_works_on(s: Story) -> None:
    s.call(1, CloseSession(), Reply(zxid=2))
    s.call(1, Create("/e", ephemeral=True), created("/e", 3))


def an_expired_session_works_on(s: Story) -> None:
    s.expired(s.tick(), 1)
    s.call(1, Exists("/a"), Reply(r.NO_NODE, 3))


def an_ephemeral_outlives_a_session_with_an_id_below_0(s: Story) -> None:
    s.opened(s.tick(), -5, 10)
    s.call(-5, Create("/e", ephemeral=True), created("/e", 1))
    s.expired(s.tick(100), -5)
    s.call(2, Create("/b"), created("/b", 9))
    s.call(2, Exists("/e"), Reply(zxid=9, stat=Stat(czxid=1)))


def _watched(s: Story) -> None:
    s.call(1, Create("/a", b"1"), created("/a", 1))
    s.call(2, GetData("/a", watch=True), Reply(zxid=1, data=b"1"))
    s.call(1, SetData("/a", b"2"), Reply(zxid=2))


def an_event_is_lost(s: Story) -> None:
    _watched(s)
    s.call(2, GetData("/a"), Reply(zxid=2, data=b"2"))


def an_event_comes_behind_newer_data(s: Story) -> None:
    an_event_is_lost(s)
    s.told(2, r.CHANGED, "/a", 2)


def an_event_comes_twice(s: Story) -> None:
    _watched(s)
    s.told(2, r.CHANGED, "/a", 2)
    s.told(2, r.CHANGED, "/a", 2)


def a_lasting_watchs_event_comes_twice(s: Story) -> None:
    s.call(1, Create("/a"), created("/a", 1))
    s.call(2, AddWatch("/a", recursive=True), Reply(zxid=1))
    s.call(1, Create("/a/b"), created("/a/b", 2))
    s.told(2, r.CREATED, "/a/b", 2)
    s.told(2, r.CREATED, "/a/b", 2)


def a_lasting_watch_leaves_one_out(s: Story) -> None:
    s.call(1, Create("/a"), created("/a", 1))
    s.call(2, AddWatch("/a"), Reply(zxid=1))
    s.call(1, Create("/a/b"), created("/a/b", 2))
    s.call(1, Create("/a/c"), created("/a/c", 3))
    s.told(2, r.CHILDREN, "/a", 3)


def an_event_without_a_watch(s: Story) -> None:
    s.call(1, Create("/a"), created("/a", 1))
    s.told(2, r.CREATED, "/a", 1)
    s.call(2, Exists("/a"), Reply(zxid=1))


def an_event_without_a_change(s: Story) -> None:
    s.call(1, Create("/a", b"1"), created("/a", 1))
    s.call(2, GetData("/a", watch=True), Reply(zxid=1, data=b"1"))
    s.told(2, r.CHANGED, "/a", 2)


def a_reconnected_client_misses_an_event(s: Story) -> None:
    _watched(s)
    s.disconnected(s.tick(), 2)
    s.attached(s.tick(), 2)
    s.call(2, SetWatches(1, data=("/a",)), Reply(zxid=2))


def an_event_comes_behind_another_node_of_its_multi(s: Story) -> None:
    s.call(1, Create("/a", b"1"), created("/a", 1))
    s.call(1, Create("/b", b"1"), created("/b", 2))
    s.call(2, GetData("/a", watch=True), Reply(zxid=2, data=b"1"))
    s.call(1, Multi((SetData("/b", b"2"), SetData("/a", b"2"))), Reply(zxid=3, parts=(Reply(), Reply())))
    s.call(2, GetData("/b"), Reply(zxid=3, data=b"2"))
    s.told(2, r.CHANGED, "/a", 3)


def _two_watched(s: Story) -> None:
    for zxid, path in ((1, "/a"), (2, "/b")):
        s.call(1, Create(path, b"1"), created(path, zxid))
        s.call(2, GetData(path, watch=True), Reply(zxid=2, data=b"1"))


def events_come_in_another_order(s: Story) -> None:
    _two_watched(s)
    s.call(1, SetData("/a", b"2"), Reply(zxid=3))
    s.call(1, SetData("/b", b"2"), Reply(zxid=4))
    s.told(2, r.CHANGED, "/b", 4)
    s.told(2, r.CHANGED, "/a", 3)


def an_event_has_a_change_before_its_watch(s: Story) -> None:
    s.call(1, Create("/a", b"1"), created("/a", 1))
    s.call(1, SetData("/a", b"2"), Reply(zxid=2))
    s.call(2, GetData("/a", watch=True), Reply(zxid=2, data=b"2"))
    s.told(2, r.CHANGED, "/a", 2)


def a_lasting_watch_tells_of_what_was_before_it(s: Story) -> None:
    s.call(1, Create("/a", b"1"), created("/a", 1))
    s.call(1, SetData("/a", b"2"), Reply(zxid=2))
    s.call(2, AddWatch("/a"), Reply(zxid=3))
    s.told(2, r.CHANGED, "/a", 2)


def a_recursive_watch_leaves_out_a_part_of_a_multi(s: Story) -> None:
    s.call(1, Create("/a"), created("/a", 1))
    s.call(2, AddWatch("/a", recursive=True), Reply(zxid=1))
    parts = (Reply(path="/a/b"), Reply(path="/a/c"))
    s.call(1, Multi((Create("/a/b"), Create("/a/c"))), Reply(zxid=2, parts=parts))
    s.told(2, r.CREATED, "/a/b", 2)
    s.call(2, Exists("/a/c"), Reply(zxid=2))


def a_persistent_watch_leaves_out_a_part_of_a_multi(s: Story) -> None:
    s.call(1, Create("/a"), created("/a", 1))
    s.call(2, AddWatch("/a"), Reply(zxid=1))
    s.call(1, Multi((SetData("/a", b"1"), SetData("/a", b"2"))), Reply(zxid=2, parts=(Reply(), Reply())))
    s.told(2, r.CHANGED, "/a", 2)
    s.call(2, Exists("/a"), Reply(zxid=2))


def _reconnected(s: Story, event: int, path: str) -> None:
    """Both nodes are watched and not changed; /a alone is set again, and then the event comes."""
    _two_watched(s)
    s.disconnected(s.tick(), 2)
    s.attached(s.tick(), 2)
    number = s.invoke(s.tick(), 2, SetWatches(2, data=("/a",)))
    s.event(s.tick(), 2, event, path)
    s.reply(s.tick(), number, Reply(zxid=2))


def a_reconnected_client_is_told_of_no_change(s: Story) -> None:
    _reconnected(s, r.CHANGED, "/a")


def a_reconnected_client_is_told_that_a_node_is_gone(s: Story) -> None:
    _reconnected(s, r.DELETED, "/a")


def a_reconnected_client_is_told_of_what_it_did_not_ask(s: Story) -> None:
    _reconnected(s, r.CHANGED, "/b")


WRONG: list[tuple[Wrong, str]] = [
    (an_acknowledged_write_is_lost, "linearizable"),
    (an_acknowledged_write_is_lost_without_zxids, "linearizable"),
    (a_write_counts_twice, "linearizable"),
    (an_unanswered_write_counts_twice, "linearizable"),
    (an_unanswered_write_comes_behind_a_later_one, "linearizable"),
    (an_unanswered_write_shows_and_is_gone, "linearizable"),
    (a_value_comes_from_nowhere, "linearizable"),
    (a_refused_write_counts, "linearizable"),
    (a_refusal_without_reason, "linearizable"),
    (a_multi_counts_in_part, "linearizable"),
    (a_multi_names_the_wrong_part, "linearizable"),
    (a_multis_keys_are_seen_apart, "linearizable"),
    (a_stat_is_wrong, "linearizable"),
    (two_writes_have_one_zxid, "zxid"),
    (a_later_write_has_an_earlier_zxid, "real time"),
    (a_session_goes_back, "session order"),
    (a_session_misses_what_its_event_said, "session order"),
    (a_read_behind_a_sync_is_old, "sync"),
    (a_sync_is_old, "sync"),
    (a_read_behind_a_sync_is_old_without_zxids, "linearizable"),
    (a_number_is_given_twice, "sequence"),
    (a_number_is_left_out, "linearizable"),
    (numbers_do_not_grow, "sequence"),
    (an_ephemeral_outlives_its_session, "linearizable"),
    (an_ephemeral_outlives_an_expiry, "linearizable"),
    (ephemerals_go_one_by_one, "linearizable"),
    (an_ephemeral_goes_while_its_session_works, "linearizable"),
    (an_ephemeral_goes_before_the_timeout, "linearizable"),
    (a_session_expires_too_early, "lifetime"),
    (an_event_is_lost, "watch lost or late"),
    (an_event_comes_behind_newer_data, "watch lost or late"),
    (an_event_comes_twice, "watch doubled"),
    (a_lasting_watchs_event_comes_twice, "watch doubled"),
    (a_lasting_watch_leaves_one_out, "watch lost or late"),
    (an_event_without_a_watch, "watch doubled"),
    (an_event_without_a_change, "watch without change"),
    (a_reconnected_client_misses_an_event, "watch lost or late"),
    (a_refusal_is_old, "real time"),
    (a_refused_multi_is_old, "real time"),
    (a_sync_without_zxid_promises_too_much, "linearizable"),
    (a_read_behind_a_sync_is_old_elsewhere, "sync"),
    (a_multi_without_an_answer_is_seen_in_part, "linearizable"),
    (a_multi_has_too_few_results, "linearizable"),
    (an_unanswered_write_has_the_zxid_of_another, "linearizable"),
    (an_unanswered_write_is_seen_before_it_was_sent, "linearizable"),
    (a_number_comes_again_when_its_node_is_gone, "sequence"),
    (a_number_of_an_unanswered_create_comes_again, "linearizable"),
    (a_session_moved_and_its_old_connection_is_answered, "linearizable"),
    (a_closed_session_works_on, "lifetime"),
    (an_expired_session_works_on, "lifetime"),
    (an_ephemeral_outlives_a_session_with_an_id_below_0, "linearizable"),
    (an_event_comes_behind_another_node_of_its_multi, "watch lost or late"),
    (events_come_in_another_order, "watch order"),
    (an_event_has_a_change_before_its_watch, "watch doubled"),
    (a_lasting_watch_tells_of_what_was_before_it, "watch doubled"),
    (a_recursive_watch_leaves_out_a_part_of_a_multi, "watch lost or late"),
    (a_persistent_watch_leaves_out_a_part_of_a_multi, "watch lost or late"),
    (a_reconnected_client_is_told_of_no_change, "watch without change"),
    (a_reconnected_client_is_told_that_a_node_is_gone, "watch without change"),
    (a_reconnected_client_is_told_of_what_it_did_not_ask, "watch without change"),
]


@pytest.mark.parametrize(("wrong", "rule"), WRONG, ids=[wrong.__name__ for wrong, _ in WRONG])
def test_a_broken_promise_is_found(wrong: Wrong, rule: str) -> None:
    story = Story()
    wrong(story)
    assert rule in rules(story)


def test_each_rule_is_tested() -> None:
    """But "undecided", which is no broken promise."""
    assert {rule for _, rule in WRONG} == RULES.keys() - {"undecided"}


def test_a_message_does_not_depend_on_the_order_of_names() -> None:
    messages = set()
    for names in (("a", "b", "never made"), ("never made", "b", "a")):
        story = Story()
        story.call(1, Create("/l"), created("/l", 1))
        story.call(1, Create("/l/a"), created("/l/a", 2))
        story.call(1, Create("/l/b"), created("/l/b", 3))
        story.call(1, GetChildren("/l"), Reply(zxid=3, names=names))
        messages |= {violation.message for violation in check(story)}
    (message,) = messages
    assert "names=('a', 'b', 'never made')" in message
    assert message.endswith("names=('a', 'b'))")


def test_an_unanswered_write_may_count_or_not() -> None:
    for seen in (b"1", b"2"):
        story = Story()
        story.call(1, Create("/a", b"1"), created("/a", 1))
        story.unanswered(1, SetData("/a", b"2"))
        story.call(2, GetData("/a"), Reply(zxid=3, data=seen))
        assert check(story) == []


def test_a_read_may_be_stale_and_a_concurrent_write_come_in_either_order() -> None:
    story = Story()
    story.call(1, Create("/a", b"1"), Reply(path="/a"))
    first = story.invoke(story.tick(), 1, SetData("/a", b"2"))
    second = story.invoke(story.tick(), 2, SetData("/a", b"3"))
    story.reply(story.tick(), first, Reply(stat=version(2)))
    story.reply(story.tick(), second, Reply(stat=version(1)))
    story.call(3, GetData("/a"), Reply(data=b"3", stat=version(1)))
    assert check(story) == []


def test_a_reconnected_clients_events_need_no_zxid() -> None:
    story = Story()
    _watched(story)
    story.disconnected(story.tick(), 2)
    story.attached(story.tick(), 2)
    number = story.invoke(story.tick(), 2, SetWatches(1, data=("/a",)))
    story.event(story.tick(), 2, r.CHANGED, "/a", -1)
    story.reply(story.tick(), number, Reply(zxid=2))
    assert check(story) == []


def _a_multi_changes_one_node_twice(s: Story) -> None:
    s.call(1, Create("/a"), created("/a", 1))
    s.call(2, AddWatch("/a"), Reply(zxid=1))
    s.call(1, Multi((Delete("/a"), Create("/a"))), Reply(zxid=2, parts=(Reply(), Reply(path="/a"))))
    s.told(2, r.DELETED, "/a", 2)
    s.told(2, r.CREATED, "/a", 2)
    s.call(2, Exists("/a"), Reply(zxid=2))


def _a_node_is_gone_and_two_watches_are_set_again(s: Story) -> None:
    s.call(1, Create("/a"), created("/a", 1))
    s.call(2, GetData("/a", watch=True), Reply(zxid=1, data=b""))
    s.call(2, GetChildren("/a", watch=True), Reply(zxid=1, names=()))
    s.call(1, Delete("/a"), Reply(zxid=2))
    s.disconnected(s.tick(), 2)
    s.attached(s.tick(), 2)
    number = s.invoke(s.tick(), 2, SetWatches(1, data=("/a",), children=("/a",)))
    s.event(s.tick(), 2, r.DELETED, "/a")
    s.event(s.tick(), 2, r.DELETED, "/a")
    s.reply(s.tick(), number, Reply(zxid=2))


def _an_old_node_is_watched_as_absent(s: Story) -> None:
    s.call(1, Create("/a"), created("/a", 1))
    s.call(2, Exists("/b"), Reply(r.NO_NODE, 5))
    s.disconnected(s.tick(), 2)
    s.attached(s.tick(), 2)
    number = s.invoke(s.tick(), 2, SetWatches(5, exists=("/a",)))
    s.event(s.tick(), 2, r.CREATED, "/a")
    s.reply(s.tick(), number, Reply(zxid=5))


def _events_of_a_lasting_watch_have_no_zxids(s: Story) -> None:
    """As those of a ZooKeeper before 3.9."""
    s.call(1, Create("/a"), created("/a", 1))
    s.call(2, AddWatch("/a"), Reply(zxid=1))
    for zxid in (2, 3):
        s.call(1, SetData("/a"), Reply(zxid=zxid))
        s.event(s.tick(), 2, r.CHANGED, "/a")
    s.call(2, Exists("/a"), Reply(zxid=3))


def _an_id_is_below_0(s: Story) -> None:
    s.opened(s.tick(), -5, 10)
    s.call(-5, Create("/e", ephemeral=True), created("/e", 1))
    s.expired(s.tick(100), -5)
    s.call(2, Create("/b"), created("/b", 9))
    s.call(2, Exists("/e"), Reply(r.NO_NODE, 9))


@pytest.mark.parametrize(
    "right",
    [
        _a_multi_changes_one_node_twice,
        _a_node_is_gone_and_two_watches_are_set_again,
        _an_old_node_is_watched_as_absent,
        _events_of_a_lasting_watch_have_no_zxids,
        _an_id_is_below_0,
    ],
)
def test_a_right_history_is_not_accused(right: Wrong) -> None:
    story = Story()
    right(story)
    assert check(story) == []


def _ended_early(s: Story) -> None:
    """Session 1 ends at zxid 4, long before its timeout has passed."""
    s.opened(s.tick(), 1, 4000)
    s.call(2, Create("/l"), created("/l", 1))
    s.call(1, Create("/l/e", ephemeral=True), created("/l/e", 2))
    late = s.invoke(s.tick(), 1, Exists("/l/e"))
    s.call(2, Create("/b"), created("/b", 3))
    s.call(2, Create("/c"), created("/c", 5))
    s.call(2, GetChildren("/l"), Reply(zxid=5, names=(), stat=Stat(pzxid=4)))
    s.reply(s.tick(), late, Reply(zxid=3, stat=Stat(czxid=2)))  # its proxy had not heard of the end yet


def test_a_session_whose_proxy_is_gone_may_end_early() -> None:
    story = Story()
    _ended_early(story)
    assert rules(story) == {"linearizable"}
    assert check(story, orphans={1}) == []


def test_an_early_end_is_told_with_its_proxy_gone_as_well() -> None:
    story = Story()
    _ended_early(story)
    story.expired(story.tick(), 1)
    assert {violation.rule for violation in check(story, orphans={1})} == {"lifetime"}


def _comes_again(s: Story) -> None:
    s.call(2, Create("/d"), created("/d", 6))
    s.call(2, Exists("/l/e"), Reply(zxid=6, stat=Stat(czxid=2)))


def _works_on(s: Story) -> None:
    s.call(1, SetData("/l"), Reply(zxid=7, stat=version(1)))


def _goes_later(s: Story) -> None:
    s.call(2, GetChildren("/l"), Reply(zxid=6, names=(), stat=Stat(pzxid=6)))


def _an_unanswered_write_comes_behind_the_end(s: Story) -> None:
    s.unanswered(1, SetData("/l", b"1"))
    s.call(2, GetData("/l"), Reply(zxid=9, data=b"1"))


@pytest.mark.parametrize(
    "more", [_comes_again, _works_on, _goes_later, _an_unanswered_write_comes_behind_the_end]
)
def test_an_early_end_is_an_end(more: Wrong) -> None:
    story = Story()
    _ended_early(story)
    more(story)
    assert "linearizable" in {violation.rule for violation in check(story, orphans={1})}


@pytest.mark.parametrize("seed", range(12))
def test_right_histories_pass(seed: int) -> None:
    assert check(Ensemble(seed).run(1_500)) == []


@pytest.mark.parametrize("seed", range(6))
def test_right_histories_without_zxids_pass(seed: int) -> None:
    history = Ensemble(seed).run(800)
    assert check(History(map(_without_zxids, history.records))) == []


def _without_zxids(record: r.Record) -> r.Record:
    if isinstance(record, r.Replied):
        return record._replace(reply=_bare(record.reply))
    return record._replace(zxid=None) if isinstance(record, r.Event) else record


def _bare(reply: Reply) -> Reply:
    stat = reply.stat and reply.stat._replace(czxid=None, mzxid=None, pzxid=None)
    return reply._replace(zxid=None, stat=stat, parts=reply.parts and tuple(map(_bare, reply.parts)))


def _other_data(record: r.Record) -> r.Record | None:
    if isinstance(record, r.Replied) and record.reply.data is not None:
        return record._replace(reply=record.reply._replace(data=b"never written"))
    return None


def _other_version(record: r.Record) -> r.Record | None:
    if isinstance(record, r.Replied) and record.reply.stat is not None:
        stat = record.reply.stat
        return record._replace(
            reply=record.reply._replace(stat=stat._replace(version=(stat.version or 0) + 1000))
        )
    return None


def _other_names(record: r.Record) -> r.Record | None:
    if isinstance(record, r.Replied) and record.reply.names is not None:
        return record._replace(reply=record.reply._replace(names=(*record.reply.names, "never made")))
    return None


def _other_number(record: r.Record) -> r.Record | None:
    if isinstance(record, r.Replied) and record.reply.path and "n-" in record.reply.path:
        return record._replace(reply=record.reply._replace(path=record.reply.path[:-10] + "0000999999"))
    return None


def _other_error(record: r.Record) -> r.Record | None:
    if isinstance(record, r.Replied) and record.reply.error == r.NO_NODE:
        return record._replace(reply=record.reply._replace(error=r.NOT_EMPTY))
    return None


def _other_zxid(record: r.Record) -> r.Record | None:
    if isinstance(record, r.Replied) and record.reply.zxid is not None and record.reply.zxid > 20:
        return record._replace(reply=record.reply._replace(zxid=1))
    return None


def _other_event(record: r.Record) -> r.Record | None:
    if isinstance(record, r.Event) and record.zxid is not None:
        return record._replace(path="/never watched")
    return None


@pytest.mark.parametrize(
    "change",
    [_other_data, _other_version, _other_names, _other_number, _other_error, _other_zxid, _other_event],
)
def test_one_wrong_record_among_many_is_found(change: Callable[[r.Record], r.Record | None]) -> None:
    for seed in range(3):
        history = Ensemble(seed, faults=0.2).run(1_500)
        changed = [
            (place, new) for place, old in enumerate(history.records) if (new := change(old)) is not None
        ]
        place, new = random.Random(seed).choice(changed)
        history.records[place] = new
        assert check(history) != [], (seed, place, new)


def test_a_long_history_is_checked_in_one_pass() -> None:
    """50,000 operations; where nothing is lost the search has nothing to choose."""
    history = Ensemble(1, faults=0.02, told=1.0, multis=0.02).run(50_000)
    assert check(history) == []


@pytest.mark.parametrize(
    "records",
    [
        [r.Replied(0, 7, Reply())],
        [r.Invoked(0, 1, 0, Sync()), r.Invoked(0, 1, 0, Sync())],
        [r.Invoked(0, 1, 0, Sync()), r.Lost(1, 0), r.Replied(2, 0, Reply())],
        [r.Opened(5, 1), r.Opened(4, 2)],
    ],
)
def test_records_that_do_not_fit_together_are_refused(records: list[r.Record]) -> None:
    with pytest.raises(MalformedHistory):
        check(History(records))
