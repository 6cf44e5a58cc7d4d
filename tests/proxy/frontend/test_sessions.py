"""Sessions of one proxy: when they begin, are resumed and end, with time as an argument.

What holds in any order of events is proven by proof.simulation (expiry.py); here are the exact times.
"""

import gc
import math
import weakref
from collections import Counter
from collections.abc import Iterator
from unittest import mock

import pytest
from typing_extensions import override

from codec.constants import ErrorCode
from proxy.frontend.sessions import ENDING_PER_TXN, ServedSession, Sessions, Timeouts
from proxy.log.append.outbox import Outbox
from proxy.log.append.pending import Pending
from proxy.log.append.sent import EntryHeader
from proxy.log.status import Contact, keep_alive_interval
from proxy.state.capture import new_machine
from proxy.state.notifications import Notifications
from proxy.state.outcome import CarriedOver, SessionChange
from proxy.state.pause import NO_PAUSE
from proxy.state.sessions import Session, hash_of
from proxy.support.counters import Counters
from schema.entry import Kind, decode_close, decode_terms

OWN, OTHER, DEAD = "own", "other", "dead"
LEASE = 5.0
WINDOW = 2
MOST_ENDING = ENDING_PER_TXN * WINDOW
INTERVAL = 0.5


class Connection:
    session_id = 1

    def __init__(self) -> None:
        self.closed = False
        self.quiet = math.inf  # seconds that it was silent while it was not read from

    def measure_silence(self) -> float:
        return self.quiet

    def close(self) -> None:
        self.closed = True

    def notify(self, notifications: Notifications) -> None:
        raise AssertionError("no client watches here")


def _done(_pending: Pending, _zxid: int, _err: int, _body: bytes) -> None:
    pass


class Proxy:
    """The sessions of a proxy, and how it looks at them; etcd answers unless a test says otherwise."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.machine = new_machine(1)
        self.now = 100.0
        self.expired: list[int | str] = []  # sessions, or who killed them
        self.sessions = Sessions(
            self.machine,
            Timeouts(1000, 40000),
            INTERVAL,
            self.counters,
            lambda: self.now,
            lambda session_id, killer: self.expired.append(killer or session_id),
        )
        self.sessions.registered(OWN)
        self.rank = 0
        self.silent_since: float | None = None
        self.appended: list[Pending] = []  # without an answer
        self._submitted: list[Pending] = []  # since the last check
        self.sessions.submit = self.submit

    def submit(self, pending: Pending) -> None:
        assert pending.kind == Kind.CLOSE
        self.appended.append(pending)
        self._submitted.append(pending)

    def attached(self, incarnation: str, **timeouts: int) -> None:
        """The state machine has these sessions of a proxy: s7=4000 is session 7."""
        for name, timeout_ms in timeouts.items():
            self.machine.sessions[int(name[1:])] = Session(0, timeout_ms, b"", incarnation)

    def gone(self, incarnation: str = DEAD, now: float = 100.0, lease: float = LEASE) -> None:
        """The key of a proxy with this lease goes."""
        self.now = now
        self.sessions.proxy_gone(incarnation, lease)

    def begin(self, session_id: int = 1, timeout_ms: int = 4000) -> tuple[ServedSession, Connection]:
        """A session with a connection."""
        session = self.sessions.began(session_id, timeout_ms)
        session.connection = connection = Connection()
        self.attached(OWN, **{f"s{session_id}": timeout_ms})
        return session, connection

    def check(self, now: float | None = None) -> list[tuple[int, str]]:
        """One look; the sessions that are to be closed, and their holders."""
        self.now = now = self.now + INTERVAL if now is None else now
        heard = now if self.silent_since is None else self.silent_since
        self._submitted.clear()
        for connection in self.sessions.check(Contact(now - heard, heard, LEASE, self.rank, window=WINDOW)):
            connection.close()
        return [(pending.session_id, decode_close(pending.body).holder) for pending in self._submitted]

    def pass_to(self, time: float) -> list[tuple[int, str, float]]:
        """Look every so often until a time; what is to be closed, and when."""
        closed = []
        while self.now < time:
            closed += [(*one, self.now) for one in self.check()]
        return closed

    def answer(self, err: int = 0) -> None:
        """The log answers what was appended."""
        appended, self.appended = self.appended, []
        for pending in appended:
            pending.callback(pending, 1, err, b"")
            if not err:
                former = self.machine.sessions.pop(pending.session_id).incarnation
                self.change(pending.session_id, former, None)

    def change(self, session_id: int, former: str, incarnation: str | None) -> None:
        """A SessionChange of the log."""
        if incarnation is not None:
            self.attached(incarnation, **{f"s{session_id}": 4000})
        self.sessions.session_changed(SessionChange(session_id, former, incarnation))


@pytest.fixture
def proxy() -> Proxy:
    return Proxy()


def test_a_client_that_comes_again_is_not_ended_meanwhile(proxy: Proxy) -> None:
    session, connection = proxy.begin()
    proxy.now = 103.9
    pending = proxy.sessions.attach(1, 6000, b"word", _done)
    assert (pending.kind, decode_terms(pending.body)) == (Kind.ATTACH, (6000, hash_of(b"word")))
    assert connection.closed
    assert proxy.pass_to(110.9) == []  # nor while the answer is late
    pending.callback(pending, 5, 0, b"")
    proxy.sessions.began(1, 6000)
    assert session.timeout_ms == 6000  # as in ZooKeeper the last one wanted holds
    assert proxy.pass_to(130.0) == [(1, OWN, 116.9)]


@pytest.mark.parametrize(
    ("err", "due"),
    [
        (ErrorCode.SESSION_EXPIRED, 110.5),  # it came in vain: the session runs out
        (ErrorCode.SYSTEM_ERROR, 110.5),
        # A load skips the answer of an ATTACH that was long on its way. Found by the simulation.
        (ErrorCode.CONNECTION_LOSS, 114.0),
    ],
)
def test_a_session_whose_attach_may_count_has_its_whole_timeout(
    proxy: Proxy, err: ErrorCode, due: float
) -> None:
    proxy.begin()
    attach = proxy.sessions.attach(1, 4000, b"", _done)
    assert proxy.pass_to(110.0) == []
    attach.callback(attach, 1, int(err), b"")
    assert proxy.pass_to(115.0) == [(1, OWN, due)]


def test_no_close_goes_behind_an_attach_of_a_session_that_was_not_here_yet(proxy: Proxy) -> None:
    """Its client may come twice before the first attach is applied. Found by the simulation."""
    outcomes: list[int] = []
    first, second = (
        proxy.sessions.attach(7, 4000, b"", lambda _pending, _zxid, err, _body: outcomes.append(err))
        for _ in range(2)
    )
    first.callback(first, 1, 0, b"")
    proxy.sessions.began(7, 4000)
    assert proxy.pass_to(110.0) == []
    second.callback(second, 2, 0, b"")
    assert outcomes == [0, 0]
    proxy.sessions.began(7, 4000)
    assert proxy.pass_to(115.0) == [(7, OWN, 114.0)]


def test_a_silent_client_loses_its_session_once(proxy: Proxy) -> None:
    _, connection = proxy.begin()
    assert proxy.check(103.9) == []  # and a look after a pause of the process ends nothing
    assert proxy.check(104.0) == [(1, OWN)]
    assert proxy.pass_to(106.0) == []
    proxy.answer(ErrorCode.SYSTEM_ERROR)
    assert proxy.check() == [(1, OWN)]  # an end that was refused is tried again
    proxy.answer()
    assert connection.closed
    assert (len(proxy.sessions), proxy.counters.sessions_expired, proxy.expired) == (0, 1, [1])
    assert proxy.pass_to(120.0) == []


def test_a_client_that_is_not_listened_to_keeps_its_session(proxy: Proxy) -> None:
    session, connection = proxy.begin()
    connection.quiet = 0.0
    assert proxy.pass_to(110.0) == []
    session.hear_unread(connection, proxy.now)
    connection.quiet = math.inf  # it is read from again
    assert proxy.pass_to(116.0) == [(1, OWN, 114.0)]


def test_a_session_whose_answer_was_skipped_by_a_load_is_looked_after(proxy: Proxy) -> None:
    proxy.change(5, "", OWN)
    proxy.attached(OWN, s6=8000)
    proxy.sessions.loaded({OWN})
    assert proxy.pass_to(110.0) == [(5, OWN, 104.0), (6, OWN, 108.0)]


def test_sessions_stay_while_the_incarnation_changes(proxy: Proxy) -> None:
    session, connection = proxy.begin()
    proxy.sessions.registered("own again")
    # Entries of the old incarnation still count, up to the end of its key.
    proxy.change(2, "", OWN)
    proxy.gone(OWN)
    assert len(proxy.sessions.orphans) == 0
    for session_id in (1, 2):
        proxy.change(session_id, OWN, "own again")
    assert not connection.closed
    assert proxy.sessions.get(1) is session
    assert proxy.pass_to(110.0) == [(1, "own again", 104.0), (2, "own again", 104.0)]
    proxy.sessions.carried_over(OWN)
    proxy.change(3, "", OWN)
    assert proxy.sessions.get(3) is None, "it is not kept for ever"


# -- many that are due at once -------------------------------------------------------------------------------

MANY = 1000


def _due_at_once(proxy: Proxy, kind: str) -> None:
    """Many sessions are due at 104.0."""
    for session_id in range(1, MANY + 1):
        proxy.attached(OWN if kind == "silent" else DEAD, **{f"s{session_id}": 4000})
        if kind == "silent":
            proxy.sessions.began(session_id, 4000)
    if kind == "orphaned":
        proxy.gone(now=102.0)


@pytest.mark.parametrize("kind", ["silent", "orphaned"])
def test_few_ends_wait_in_the_log_and_each_answer_brings_the_next(proxy: Proxy, kind: str) -> None:
    _due_at_once(proxy, kind)
    ended = [session_id for session_id, _, _ in proxy.pass_to(104.0)]
    assert len(ended) == MOST_ENDING
    while proxy.appended:  # no check is needed
        assert len(proxy.appended) <= MOST_ENDING
        proxy.appended, rest = proxy.appended[:1], proxy.appended[1:]
        proxy.answer()
        proxy.appended[:0] = rest
    assert proxy.expired == list(range(1, MANY + 1))
    assert proxy.pass_to(110.0) == []


@pytest.mark.parametrize("kind", ["silent", "orphaned"])
def test_ends_that_fail_do_not_keep_others_from_their_turn(proxy: Proxy, kind: str) -> None:
    _due_at_once(proxy, kind)
    proxy.pass_to(104.0)
    while proxy.appended:
        proxy.answer(ErrorCode.SYSTEM_ERROR)
    assert len(proxy.check()) == MOST_ENDING
    while proxy.appended:
        proxy.answer()
    assert proxy.expired == list(range(1, MANY + 1))


def test_an_end_is_not_asked_for_again_before_the_log_reports_it(proxy: Proxy) -> None:
    for session_id in range(1, 201):  # those that are due first come last
        timeout_ms = 4400 if session_id <= 100 else 4000
        proxy.attached(OWN, **{f"s{session_id}": timeout_ms})
        proxy.sessions.began(session_id, timeout_ms)
    ended = [session_id for session_id, _, _ in proxy.pass_to(104.5)]
    while proxy.appended:
        proxy.appended, rest = proxy.appended[:1], proxy.appended[1:]
        proxy.answer()
        ended += [pending.session_id for pending in proxy.appended]
        proxy.appended[:0] = rest
    assert sorted(ended) == list(range(1, 201))


def test_a_check_costs_those_that_may_be_due(proxy: Proxy) -> None:
    for session_id in range(1, MANY + 1):
        proxy.begin(session_id, 9000)
    calls = Counter[float]()

    def judged(session: ServedSession, now: float, _passed: float) -> bool:
        calls[now] += 1
        return now >= session.due

    with mock.patch.object(ServedSession, "check_due", judged):
        assert proxy.pass_to(108.5) == []
        assert not calls
        for session in proxy.sessions:
            session.heard = 108.0  # those that are filed again are not judged
        assert proxy.pass_to(116.5) == []
        assert not calls
        proxy.check()
    assert calls[117.0] == MOST_ENDING


def test_very_many_that_may_be_due_are_looked_at_in_several_turns(proxy: Proxy) -> None:
    _due_at_once(proxy, "silent")
    for session_id in range(1, MANY):
        session = proxy.sessions.get(session_id)
        assert session is not None
        session.heard = 101.0
    assert proxy.pass_to(104.0) == []
    while proxy.sessions.end_due():
        assert proxy.appended == []
    assert [pending.session_id for pending in proxy.appended] == [MANY]


def test_the_farther_etcd_is_the_more_ends_are_on_their_way(proxy: Proxy) -> None:
    _due_at_once(proxy, "silent")
    proxy.pass_to(103.5)
    proxy.now = 104.0
    proxy.sessions.check(Contact(0.0, 104.0, LEASE, 0, window=8))
    assert len(proxy.appended) == 8 * ENDING_PER_TXN


def test_younger_proxies_leave_orphans_to_one_that_ends_them(proxy: Proxy) -> None:
    proxy.rank = 1
    _due_at_once(proxy, "orphaned")
    for session_id in range(1, 11):
        assert proxy.pass_to(proxy.now + INTERVAL) == []
        proxy.now += 0.25
        del proxy.machine.sessions[session_id]
        proxy.change(session_id, DEAD, None)
    stopped = proxy.now
    (*_, (_, _, began)) = proxy.pass_to(stopped + 1.5)
    assert stopped + 1 <= began
    while proxy.appended:  # its own ends are none of the others'
        proxy.answer()
    assert proxy.expired == list(range(11, MANY + 1))


def test_clients_requests_overtake_ends_that_wait(proxy: Proxy) -> None:
    outbox = Outbox()
    proxy.sessions.submit = outbox.submit
    _due_at_once(proxy, "silent")
    proxy.pass_to(104.0)
    write = Pending(Kind.CLIENT, MANY + 1, 1, (), b"")
    outbox.submit(write)
    counts: list[int] = []
    while (entry := outbox.cut(EntryHeader(1, 0, 0, 0))) is not None:
        counts.append(len(entry.requests))
        if len(counts) == 1:
            assert entry.requests[-1] is write
        for pending in entry.requests:
            pending.answer(1, 0)
            if pending is not write:
                proxy.change(pending.session_id, OWN, None)
        outbox.settle(entry.number)
    assert sum(counts) == MANY + 1
    assert max(counts) == MOST_ENDING + 1


def test_a_client_that_comes_back_keeps_a_session_whose_end_waits(proxy: Proxy) -> None:
    _due_at_once(proxy, "silent")
    proxy.pass_to(104.0)
    heard, coming, moved = (proxy.sessions.get(MANY - number) for number in range(3))
    assert heard
    assert coming
    assert moved
    proxy.now = heard.heard = 104.1
    attach = proxy.sessions.attach(coming.id, 4000, b"", _done)
    coming.heard = 0.0  # the answer is late
    proxy.change(moved.id, OWN, OTHER)
    while proxy.appended:
        proxy.answer()
    assert proxy.expired == list(range(1, MANY - 2))
    attach.callback(attach, 1, int(ErrorCode.SYSTEM_ERROR), b"")
    assert proxy.pass_to(110.0) == [(coming.id, OWN, 104.6), (heard.id, OWN, 108.1)]


def test_an_orphan_whose_client_comes_to_another_proxy_is_not_ended(proxy: Proxy) -> None:
    _due_at_once(proxy, "orphaned")
    proxy.pass_to(104.0)
    proxy.change(MANY, DEAD, OTHER)
    while proxy.appended:
        proxy.answer()
    assert proxy.expired == list(range(1, MANY))


def test_what_clients_have_sent_since_the_last_check_is_read_before_more_sessions_end(proxy: Proxy) -> None:
    _, connection = proxy.begin(MANY + 1, 4400)
    _due_at_once(proxy, "silent")
    proxy.pass_to(104.0)
    connection.quiet = 0.0
    proxy.now = 110.0  # the process was paused
    while proxy.appended:
        proxy.answer()
    assert len(proxy.expired) == MANY
    assert proxy.check() == []


def test_a_silence_is_measured_back_from_the_current_time(proxy: Proxy) -> None:
    _due_at_once(proxy, "silent")
    _, connection = proxy.begin(MANY + 1)
    proxy.pass_to(104.0)
    connection.quiet = 6.1  # since 103.9
    proxy.now = 110.0  # the process was paused
    while proxy.appended:
        proxy.answer()
    assert len(proxy.expired) == MANY


@pytest.mark.parametrize("trouble", ["outage", "pause", "hold"])
def test_what_stops_the_ends_of_sessions_stops_those_that_wait(proxy: Proxy, trouble: str) -> None:
    _due_at_once(proxy, "silent")
    proxy.pass_to(104.0)
    if trouble == "outage":
        proxy.silent_since = 104.0
        assert proxy.pass_to(107.5) == []
        assert not any(pending.is_wanted for pending in proxy.appended)
    elif trouble == "pause":
        assert proxy.check(110.0) == []
    else:
        proxy.sessions.hold()
        assert proxy.check() == []
    proxy.answer()
    assert (proxy.appended, len(proxy.expired)) == ([], MOST_ENDING)
    proxy.silent_since = None
    proxy.sessions.release()
    again = proxy.check()
    if trouble == "outage":
        assert again == []  # all have their whole timeouts
        assert {time for _, _, time in proxy.pass_to(112.0)} == {112.0}
    while proxy.appended:
        proxy.answer()
    assert proxy.expired == list(range(1, MANY + 1))


# -- etcd ----------------------------------------------------------------------------------------------------


def test_while_etcd_is_silent_no_session_ends_but_connections_close(proxy: Proxy) -> None:
    connections = [proxy.begin(number, timeout)[1] for number, timeout in ((1, 4000), (2, 10000), (3, 1000))]
    proxy.silent_since = 100.0
    for session in proxy.sessions:
        session.heard = 102.0  # so that none is due before the outage counts as one
    for time, ended, closed in (
        (102.0, [], [False, False, False]),
        (102.5, [], [False, False, True]),  # others wait for the lease at least, so not before 2.5 s
        (103.0, [(3, OWN, 103.0)], [False, False, True]),
        (103.5, [], [True, False, True]),
        (109.5, [], [True, True, True]),
    ):
        assert proxy.pass_to(time) == ended
        assert [connection.closed for connection in connections] == closed
        proxy.appended.clear()


def test_an_outage_ends_with_the_answer_to_a_keep_alive(proxy: Proxy) -> None:
    """Before that, clients wait to be let in: their sessions must not run out meanwhile."""
    proxy.begin()
    proxy.silent_since = 100.0
    assert proxy.pass_to(110.0) == []
    while proxy.now < 116.0:
        proxy.now += INTERVAL
        proxy.sessions.check(Contact(0.0, 100.0, LEASE, 0))
        assert proxy.appended == []
    proxy.silent_since = None
    assert [time for _, _, time in proxy.pass_to(130.0)] == [120.5]


def test_while_etcd_takes_no_entry_no_session_ends(proxy: Proxy) -> None:
    """It answers, and refuses what would carry the sessions over from an incarnation that has ended."""
    proxy.begin()
    while proxy.now < 120.0:
        proxy.now += INTERVAL
        contact = Contact(0.0, proxy.now, LEASE, 0, ended_at=100.0)
        proxy.sessions.check(contact)
        assert proxy.appended == []
    assert [time for _, _, time in proxy.pass_to(130.0)] == [124.5]


def test_an_outage_calls_off_an_end_that_is_not_in_the_log(proxy: Proxy) -> None:
    """Etcd has refused it; when it takes entries again, the client may come back first."""
    proxy.begin()
    assert len(proxy.pass_to(104.0)) == 1
    (pending,) = proxy.appended
    was_wanted = pending.is_wanted
    proxy.now = 108.0
    proxy.sessions.check(Contact(0.0, 108.0, LEASE, 0, ended_at=104.0))
    assert (was_wanted, pending.is_wanted) == (True, False)
    proxy.answer(int(ErrorCode.SYSTEM_ERROR))
    assert [time for _, _, time in proxy.pass_to(130.0)] == [112.5]


@pytest.mark.parametrize("lease", [2.0, 5.0, 60.0])
def test_a_proxy_that_keeps_its_lease_alive_keeps_its_connections(proxy: Proxy, lease: float) -> None:
    late = 100 + keep_alive_interval(lease) + 0.3  # an answer takes its time
    proxy.now = late
    assert proxy.sessions.is_kept(1000, Contact(0.0, 100.0, lease, 0))


@pytest.mark.parametrize(
    ("lease", "timeout_ms", "closed_at"), [(5.0, 1000, 3.0), (2.0, 1000, 2.0), (5.0, 8000, 8.0)]
)
def test_a_connection_is_closed_before_others_may_have_ended_its_session(
    proxy: Proxy, lease: float, timeout_ms: int, closed_at: float
) -> None:
    """The others end it at the earliest max(L, T) after the last answered keep-alive was sent."""
    assert closed_at <= max(lease, timeout_ms / 1000)
    session, _ = proxy.begin(1, timeout_ms)
    session.ending = True
    last_look = closed_at - INTERVAL  # before it is too late
    for now, is_closed in ((last_look - 0.01, False), (last_look, True)):
        # etcd answers, but does not keep the lease alive
        proxy.now = 100 + now
        assert bool(proxy.sessions.check(Contact(0.0, 100.0, lease, 0))) is is_closed


@pytest.mark.parametrize(("timeout_ms", "closed_at"), [(1000, 2.0), (6000, 2.0), (12_000, 7.0)])
def test_a_connection_is_closed_if_its_session_is_not_carried_over_in_time(
    proxy: Proxy, timeout_ms: int, closed_at: float
) -> None:
    """The others end it at the earliest max(2 s, T - L) after the end of its incarnation."""
    session, connection = proxy.begin(1, timeout_ms)
    session.ending = True
    for now, is_closed in ((closed_at - INTERVAL - 0.01, False), (closed_at - INTERVAL, True)):
        proxy.now = 100 + now
        contact = Contact(0.0, proxy.now, LEASE, 0, ended_at=100.0)
        assert proxy.sessions.is_kept(timeout_ms, contact) is not is_closed
        assert (proxy.sessions.check(contact) == [connection]) is is_closed


def test_when_etcd_is_back_everybody_has_the_whole_timeout(proxy: Proxy) -> None:
    proxy.begin()
    proxy.attached(DEAD, s7=9000)
    proxy.attached("dead too", s8=5000)
    proxy.gone()
    proxy.silent_since = 100.0
    assert proxy.pass_to(150.0) == []
    proxy.gone("dead too", 150.0)  # which was reported before the next check
    proxy.silent_since = None
    assert proxy.pass_to(170.0) == [(1, OWN, 154.5), (8, "dead too", 155.5), (7, DEAD, 159.5)]


# -- other proxies' sessions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("timeout_ms", "wait"), [(4000, 2.0), (5000, 2.0), (9000, 4.0), (40000, 35.0)])
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_the_sessions_of_a_dead_proxy_end_after_what_is_left_of_their_timeout(
    proxy: Proxy, timeout_ms: int, wait: float, rank: int
) -> None:
    """The n-th eldest proxy does so n seconds later."""
    proxy.rank = rank
    proxy.check(100.0)
    proxy.attached(DEAD, s7=timeout_ms)
    proxy.attached(OTHER, s8=1000)
    proxy.gone()
    assert len(proxy.sessions.orphans) == 1
    assert proxy.pass_to(150.0) == [(7, DEAD, 100 + wait + rank)]
    proxy.answer(ErrorCode.SYSTEM_ERROR)
    assert proxy.check() == [(7, DEAD)]  # an orphan that could not be ended is tried again
    assert proxy.check() == []
    proxy.answer()
    assert len(proxy.sessions.orphans) == 0


@pytest.mark.parametrize(
    ("lease", "wait"), [(30.0, 2.0), (10.0, 20.0), (LEASE, 25.0), (2.0, 28.0), (0.0, 30.0)]
)
def test_the_lease_of_the_dead_proxy_counts_not_that_of_the_one_that_ends_its_sessions(
    proxy: Proxy, lease: float, wait: float
) -> None:
    """Its own proxy keeps the connection for the whole timeout. 0: its key, damaged, names no lease."""
    proxy.attached(DEAD, s7=30_000)
    proxy.gone(lease=lease)
    assert proxy.pass_to(150.0) == [(7, DEAD, 100.0 + wait)]


def test_when_the_eldest_goes_the_next_has_its_place(proxy: Proxy) -> None:
    proxy.rank = 5
    proxy.attached(DEAD, s7=4000)
    proxy.gone()
    assert proxy.pass_to(103.0) == []
    proxy.rank = 0
    assert proxy.check() == [(7, DEAD)]


def test_a_proxy_that_a_load_shows_after_its_sessions_keeps_them(proxy: Proxy) -> None:
    """It came while this proxy was cut off, which then loads the tree anew. Found by the simulation."""
    proxy.attached(OTHER, s7=4000)
    proxy.sessions.loaded(set())
    assert len(proxy.sessions.orphans) == 1
    proxy.sessions.proxy_came(OTHER)
    assert len(proxy.sessions.orphans) == 0
    assert proxy.pass_to(120.0) == []


@pytest.mark.parametrize("former", ["", OTHER, None], ids=["is new", "moves", "is loaded"])
def test_a_session_that_comes_to_a_proxy_just_before_its_end_has_its_timeout_from_then(
    proxy: Proxy, former: str | None
) -> None:
    """A proxy can let clients in, by the log, while its lease is about to end. Found by the simulation."""
    proxy.attached(DEAD, s1=8000)
    proxy.now = 99.0
    if former is None:  # it may have moved there just before the load
        proxy.sessions.loaded({DEAD})
    else:
        proxy.sessions.session_changed(SessionChange(1, former, DEAD))
    proxy.gone()
    assert proxy.pass_to(110.0) == [(1, DEAD, 107.0)]


def test_after_a_start_the_sessions_of_the_dead_have_their_whole_timeout(proxy: Proxy) -> None:
    proxy.attached(DEAD, s7=9000, s9=2000)
    proxy.attached(OTHER, s8=1000)
    proxy.sessions.loaded({OTHER, OWN})
    proxy.rank = 1
    assert proxy.pass_to(130.0) == [(9, DEAD, 103.0), (7, DEAD, 110.0)]


def test_a_load_leaves_orphans_what_they_have_and_forgets_those_that_are_none(proxy: Proxy) -> None:
    proxy.attached(DEAD, s7=9000, s8=9000)
    proxy.gone()
    del proxy.machine.sessions[8]
    proxy.attached("dead too", s9=4000)
    proxy.now = 102.0
    proxy.sessions.loaded({OWN})
    assert proxy.pass_to(130.0) == [(7, DEAD, 104.0), (9, "dead too", 106.0)]


@pytest.mark.parametrize(
    ("holder", "reason"),
    [(DEAD, f"proxy {DEAD} is gone"), ("", "its client has not come since the tree was moved or loaded")],
)
def test_why_an_orphan_ends(proxy: Proxy, holder: str, reason: str) -> None:
    proxy.attached(holder, s7=4000)
    proxy.sessions.loaded({OWN})
    proxy.pass_to(120.0)
    assert {decode_close(pending.body).reason for pending in proxy.appended} == {reason}


def test_who_killed_a_session_is_known_where_it_was_held(caplog: pytest.LogCaptureFixture) -> None:
    proxy = Proxy()
    proxy.attached(OWN, s7=4000, s8=4000)
    for session_id in (7, 8):
        proxy.sessions.began(session_id, 4000)
    answers: list[int] = []
    request = proxy.sessions.kill(7, "amy", answers.append)
    assert decode_close(request.body) == ("killed by amy", "")
    request.callback(request, 1, 0, b"")
    proxy.sessions.session_changed(SessionChange(7, OWN, None, "killed by amy"))
    proxy.sessions.session_changed(SessionChange(8, OWN, None))
    proxy.sessions.session_changed(SessionChange(9, OTHER, None, "killed by amy"))
    assert (answers, proxy.expired) == ([0], ["amy"])
    assert len(proxy.sessions) == 0


@pytest.mark.parametrize(("rank", "known"), [(0, ["amy"]), (1, [])])
def test_who_killed_the_session_of_a_dead_proxy_is_known_at_the_eldest(rank: int, known: list[str]) -> None:
    proxy = Proxy()
    proxy.rank = rank
    proxy.attached(DEAD, s7=40000, s8=40000)
    proxy.gone()
    proxy.pass_to(101.0)
    proxy.sessions.session_changed(SessionChange(7, DEAD, None, "killed by amy"))
    proxy.sessions.session_changed(SessionChange(8, DEAD, None, "ended by another proxy"))
    assert proxy.expired == known


class _Many(list[int]):
    """Session ids that are not looked at one by one."""

    @override
    def __iter__(self) -> Iterator[int]:
        raise AssertionError("clients wait meanwhile")


def test_the_process_that_hands_over_spends_no_time_on_each_session(proxy: Proxy) -> None:
    """100,000 took it 0.3 s, while all clients waited."""
    session, connection = proxy.begin()
    counts: list[int] = []
    proxy.sessions.expect_successor(OTHER, counts.append)
    proxy.sessions.all_changed(CarriedOver(OWN, OTHER, _Many([1, 2])))
    assert counts == [2]
    assert proxy.sessions.get(1) is session
    assert not connection.closed
    proxy.sessions.forget_successor()
    assert proxy.sessions.incarnation == OWN


def test_the_process_that_takes_over_looks_after_most_sessions_later(proxy: Proxy) -> None:
    ids = range(1, 6)
    proxy.attached(OTHER, **{f"s{each}": 4000 for each in ids})
    proxy.sessions.loaded({OTHER})
    proxy.attached(OWN, **{f"s{each}": 4000 for each in ids})
    proxy.sessions.all_changed(CarriedOver(OTHER, OWN, ids))
    assert len(proxy.sessions) == 0
    first = proxy.sessions.get(1)
    assert first is not None
    assert (first.timeout_ms, first.heard, proxy.sessions.get(6)) == (4000, 100.0, None)
    del proxy.machine.sessions[2]
    proxy.sessions.session_changed(SessionChange(2, OWN, None, "killed by amy"))
    assert proxy.expired == ["amy"]
    proxy.change(3, OWN, "elsewhere")
    assert proxy.pass_to(103.0) == []
    proxy.sessions.look_after_all(NO_PAUSE)
    assert proxy.sessions.get(1) is first
    assert proxy.pass_to(107.0) == [(1, OWN, 104.0), (4, OWN, 107.0), (5, OWN, 107.0)]


def test_sessions_that_go_from_one_proxy_to_another_are_no_orphans(proxy: Proxy) -> None:
    proxy.attached(DEAD, s1=4000, s2=4000)
    proxy.gone(lease=0)
    proxy.attached("new", s1=4000, s2=4000)
    proxy.now = 102.0
    proxy.sessions.all_changed(CarriedOver(DEAD, "new", [1, 2]))
    assert len(proxy.sessions.orphans) == 0
    proxy.gone("new", 103.0)
    assert proxy.pass_to(107.0) == [(1, "new", 106.0), (2, "new", 106.0)], "they have 4 s from their move"


def test_sessions_that_another_process_has_taken_without_a_word_are_closed_here(proxy: Proxy) -> None:
    _, connection = proxy.begin()
    proxy.attached(OTHER, s1=4000)
    proxy.sessions.all_changed(CarriedOver(OWN, OTHER, [1]))
    assert connection.closed
    assert len(proxy.sessions) == 0


def test_of_a_handover_that_failed_nothing_is_kept() -> None:
    """Its sender has all connections of that time, and their watches."""
    sessions = Proxy().sessions
    sessions.registered(OWN)
    counts = Counter[int]()
    sessions.expect_successor(OTHER, counts.__delitem__)
    kept = weakref.ref(counts)
    del counts
    gc.collect()
    assert kept() is not None
    sessions.forget_successor()
    gc.collect()
    assert kept() is None
    assert sessions.incarnation == OWN
