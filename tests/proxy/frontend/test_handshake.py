"""Connect requests: new sessions, sessions that are resumed, and those that cannot be."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from codec.constants import ErrorCode, OpCode
from codec.packets import ConnectRequest
from lab.fakes.connection import FakeLoop
from proxy.frontend.admission import ConnectionLimits
from proxy.frontend.connection import Connections
from proxy.frontend.handshake import Handshake, PastHandshake
from proxy.frontend.read_only import ReadOnlySessions
from proxy.frontend.session_timer import SessionTimer, interval_of
from proxy.frontend.sessions import ServedSession, Sessions, Timeouts
from proxy.log.append.outbox import Outbox
from proxy.log.append.sent import EntryHeader
from proxy.log.status import Freshness
from proxy.state.capture import new_machine
from proxy.state.outcome import SessionChange
from proxy.support.counters import Counters
from proxy.support.environment import HOST
from schema.entry import Entry, Kind, Request, encode_close, encode_epoch
from tests.proxy.frontend.applicants import Applicant, Link

OWN, OTHER = "own", "other"
NEW = ConnectRequest(0, 0, 5000, 0, bytes(16), False)
AHEAD = NEW._replace(last_zxid_seen=1 << 40)
WISH = NEW._replace(read_only=True)


class Proxy:
    """A handshake on a state machine."""

    def __init__(self, *, read_only: bool = False) -> None:
        self.loop = FakeLoop()
        self.machine = new_machine(1)
        self.sessions = Sessions(self.machine, Timeouts(1000, 10000), 0.5, Counters(), self.loop.time)
        self.sessions.registered(OWN)
        self.link = Link()
        self.link.keep_alive_sent = self.loop.now
        self.outbox = Outbox()
        self.pending = self.outbox.queue
        self.read_only = ReadOnlySessions(
            self.machine, self.sessions, self.link.contact, self.loop.time, HOST.randomness
        )
        replicated: Any = SimpleNamespace(
            machine=self.machine,
            outbox=self.outbox,
            contact=self.link.contact,
            context=SimpleNamespace(environment=HOST),
        )
        loop: Any = self.loop
        read_only_sessions = self.read_only if read_only else None
        self.handshake = Handshake(replicated, self.sessions, read_only_sessions, loop)
        self.handshake.is_open = True
        connections = Connections(ConnectionLimits(0, 0, Counters()))
        self.sessions.submit = replicated.outbox.submit
        self.timer = SessionTimer(replicated, self.sessions, self.handshake, self.read_only, connections, 0.5)

    def attach(self, request: ConnectRequest = NEW, *, is_keepers: bool = False) -> Applicant:
        applicant = Applicant(is_keepers=is_keepers)
        self.handshake.begin(applicant.connection, request)
        return applicant

    def commit(self, error: int = 0) -> None:
        """Apply what was submitted; or refuse it."""
        while self.pending:
            pending = self.pending.popleft()
            if error:
                pending.callback(pending, self.machine.zxid, error, b"")
                continue
            request = Request(
                pending.kind, pending.session_id, pending.opcode, pending.identities, pending.body
            )
            pending.callback(pending, self.machine.zxid, self.apply(request, OWN), b"")
            for change in self.machine.session_changes:
                assert isinstance(change, SessionChange)
                self.sessions.session_changed(change)

    def apply(self, request: Request, incarnation: str = OTHER) -> int:
        """An entry of any proxy."""
        number = self.machine.applied.get(incarnation, 0) + 1
        (outcome,) = self.machine.apply(incarnation, number, Entry(1, 0, 0, 0, [request]))
        return outcome.err

    def open_elsewhere(self, session_id: int) -> None:
        """Another proxy opens a session."""
        opened = self.sessions.open(session_id, 4000, b"", lambda *_: None)
        self.apply(Request(Kind.OPEN, session_id, 0, (), opened.body))

    def established(self, request: ConnectRequest = NEW) -> tuple[Applicant, ServedSession, ConnectRequest]:
        """A client, its session, and its request to continue it."""
        applicant = self.attach(request)
        self.commit()
        session = applicant.session
        assert session is not None
        return applicant, session, NEW._replace(session_id=session.id, password=applicant.password)


@pytest.fixture
def proxy() -> Proxy:
    return Proxy()


def test_of_two_that_come_at_once_the_later_one_stays(proxy: Proxy) -> None:
    _, session, again = proxy.established()
    second, third = proxy.attach(again), proxy.attach(again)
    proxy.commit()
    assert second.closed
    assert session.connection is third
    assert not third.closed


@pytest.mark.parametrize(
    ("seen", "password", "goes_on"), [(0, None, True), (1, None, False), (1, b"wrong", True)]
)
def test_after_a_restore_the_sessions_end_whose_clients_have_seen_what_is_undone(
    proxy: Proxy, seen: int, password: bytes | None, goes_on: bool
) -> None:
    """`seen`: so much more than the backup has. The session of another one's client goes on."""
    _, session, again = proxy.established()
    backup = proxy.machine.zxid
    proxy.apply(Request(Kind.EPOCH, 0, 0, (), encode_epoch(99, 5 << 32)))
    again = again._replace(last_zxid_seen=backup + seen, password=password or again.password)
    client = proxy.attach(again)
    proxy.commit()
    assert client.outcome == ("refused" if password or not goes_on else "established")
    assert (session.id in proxy.machine.sessions) == goes_on


@pytest.mark.parametrize("password", [b"wrong", b"", None, bytes(16)])
def test_a_wrong_password_is_refused_and_counts_for_nothing(proxy: Proxy, password: bytes | None) -> None:
    first, session, again = proxy.established()
    heard = session.heard
    proxy.loop.now += 3
    stranger = proxy.attach(again._replace(password=password))
    assert not proxy.pending  # it costs the log nothing
    assert stranger.outcome == "refused"
    assert not first.closed
    assert proxy.sessions.get(session.id) is session
    assert session.heard == heard
    proxy.attach()
    assert [pending.kind for pending in proxy.pending] == [Kind.OPEN]  # new clients do not wait for it


def test_a_dead_clients_session_ends_whoever_tries_wrong_passwords(proxy: Proxy) -> None:
    first, session, again = proxy.established()
    first.gone = True
    session.connection = None
    while not session.ending and proxy.loop.now - session.heard < 60:
        proxy.loop.now += 0.5
        proxy.attach(again._replace(password=b"wrong"))
        proxy.sessions.check(proxy.link.contact())
    assert proxy.loop.now - session.heard == session.timeout_ms / 1000


def test_clients_of_unknown_sessions_do_not_hold_up_new_ones(proxy: Proxy) -> None:
    proxy.attach(NEW._replace(session_id=4711))
    proxy.attach()
    assert [pending.kind for pending in proxy.pending] == [Kind.ATTACH, Kind.OPEN]


def test_a_session_that_is_gone_is_refused(proxy: Proxy) -> None:
    _, session, again = proxy.established()
    proxy.apply(Request(Kind.CLOSE, session.id, 0, (), encode_close("a test", "")))
    for session_id in (session.id, 4711, -5):
        late = proxy.attach(again._replace(session_id=session_id))
        proxy.commit()
        assert late.outcome == "refused"


def test_a_client_that_left_meanwhile_is_not_answered(proxy: Proxy) -> None:
    first, session, again = proxy.established()
    for request in (NEW, again, NEW._replace(session_id=4711), AHEAD):
        late = proxy.attach(request)
        late.gone = True
        proxy.commit()
        assert (late.session, late.refused, late.closed) == (None, False, False)
    assert session.connection in (None, first)
    # What was opened for the first of them runs out.
    assert [other.connection for other in proxy.sessions if other is not session] == [None]
    assert not proxy.pending


def test_clients_that_come_back_go_before_new_ones(proxy: Proxy) -> None:
    _, _, again = proxy.established()
    proxy.attach(again)
    late, gone = proxy.attach(), proxy.attach()
    gone.gone = True
    proxy.loop.wait(0.04)
    proxy.attach(again)
    proxy.loop.wait(0.04)
    assert [pending.kind for pending in proxy.pending] == [Kind.ATTACH, Kind.ATTACH]
    proxy.loop.wait(0.05)
    assert [pending.kind for pending in proxy.pending] == [Kind.ATTACH, Kind.ATTACH, Kind.OPEN]
    proxy.commit()
    assert (late.outcome, gone.session) == ("established", None)
    proxy.attach()
    assert [pending.kind for pending in proxy.pending] == [Kind.OPEN]  # nothing has come back for long


def test_new_clients_do_not_wait_for_ever_and_open_a_hundred_sessions_a_turn(proxy: Proxy) -> None:
    _, _, again = proxy.established()
    proxy.attach(again)
    late = [proxy.attach() for _ in range(150)]
    for _ in range(25):
        proxy.loop.wait(0.04)
        proxy.attach(again)
    proxy.commit()
    assert [each.outcome for each in late] == ["established"] * 100 + ["waits"] * 50
    proxy.loop.wait(0.001)
    proxy.commit()
    assert {each.outcome for each in late} == {"established"}


def test_an_attach_that_its_client_gave_up_is_not_sent(proxy: Proxy) -> None:
    """The client may be at another proxy by then: the attach would take the session away from there."""
    _, session, again = proxy.established()
    before, gone, after = proxy.attach(again), proxy.attach(again), proxy.attach(again)
    gone.gone = True
    entries = [proxy.outbox.cut(EntryHeader(1, 0, 0, 0)) for _ in range(3)]
    assert [entry and len(entry.requests) for entry in entries] == [1, 1, None]
    for entry in entries[:2]:
        assert entry is not None
        for pending, error in ((entry.requests[0], 0), *entry.after):
            pending.callback(pending, 1, error, b"")
    assert (before.closed, gone.session, after.outcome) == (True, None, "established")
    proxy.loop.now += 60
    proxy.sessions.check(proxy.link.contact())
    assert session.ending  # no attach is waited for


def test_a_session_that_its_client_gave_up_is_not_opened(proxy: Proxy) -> None:
    """After an outage each client has come many times: such sessions would live for their timeouts."""
    gone, stays = proxy.attach(), proxy.attach()
    gone.gone = True
    entry = proxy.outbox.cut(EntryHeader(1, 0, 0, 0))
    assert entry is not None
    for pending, error in ((entry.requests[0], 0), *entry.after):
        pending.callback(pending, 1, error, b"")
    assert (len(entry.requests), gone.session, stays.outcome) == (1, None, "established")


# -- a client that has seen more ------------------------------------------------------------------------


def test_a_client_that_has_seen_more_waits_until_it_is_here_too(proxy: Proxy) -> None:
    seen = proxy.machine.zxid + 1
    applicant = proxy.attach(NEW._replace(last_zxid_seen=seen))
    (pending,) = proxy.pending
    assert (pending.kind, pending.session_id, pending.opcode) == (Kind.CLIENT, 0, OpCode.SYNC)
    proxy.open_elsewhere(5)  # comes before it
    proxy.commit()
    assert applicant.outcome == "established"
    assert proxy.machine.zxid == seen + 1  # the session's own start


def test_a_client_that_has_seen_what_never_was_is_sent_away(proxy: Proxy) -> None:
    zxid = proxy.machine.zxid
    applicant = proxy.attach(AHEAD)
    proxy.commit()
    assert applicant.outcome == "closed"
    assert proxy.machine.zxid == zxid
    assert len(proxy.sessions) == 0


# -- refusals and outages -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [ErrorCode.SYSTEM_ERROR, ErrorCode.CONNECTION_LOSS, ErrorCode.SESSION_MOVED]
)
def test_where_the_log_cannot_answer_the_connection_is_closed(
    proxy: Proxy, error: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    *_, again = proxy.established()
    for request in (NEW, again):
        applicant = proxy.attach(request)
        proxy.commit(error)
        assert applicant.outcome == "closed"
    assert len(proxy.sessions) == 1
    (line,) = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert line.endswith(f": its session cannot be opened or continued: {error.name}")


@pytest.mark.parametrize(("wanted", "seconds"), [(5000, 5.0), (1, 1.0), (99999, 10.0)])
def test_a_client_waits_at_most_for_its_timeout(proxy: Proxy, wanted: int, seconds: float) -> None:
    assert proxy.attach(NEW._replace(timeout_ms=wanted)).limit == seconds


def test_without_etcd_a_session_waits_for_it(proxy: Proxy) -> None:
    *_, again = proxy.established()
    proxy.link.freshness = Freshness.OLD
    patient, gone = proxy.attach(again), proxy.attach(again)
    gone.gone = True
    proxy.handshake.check()
    assert not proxy.pending  # else it might take the session from where the client is by then
    proxy.link.freshness = Freshness.RECENT
    proxy.handshake.check()
    proxy.handshake.check()
    assert len(proxy.pending) == 1
    proxy.commit()
    assert patient.outcome == "established"


@pytest.mark.parametrize("session_id", [0, 77])
def test_a_client_is_not_let_in_before_a_keep_alive_that_lets_it_stay(proxy: Proxy, session_id: int) -> None:
    """etcd is back, and has not answered a keep-alive yet: a check would close the connection at once."""
    opened = proxy.sessions.open(77, 5000, b"", lambda *_: None)
    proxy.apply(Request(Kind.OPEN, 77, 0, (), opened.body), OTHER)
    proxy.loop.now += 9
    request = NEW._replace(session_id=session_id, password=b"")
    brief, long = proxy.attach(request), proxy.attach(request._replace(timeout_ms=10_000))
    proxy.handshake.check()
    proxy.commit()
    assert (brief.outcome, long.outcome) == ("waits", "established")
    proxy.outbox.set_full(True)
    proxy.attach(request)
    assert len(proxy.pending) == 1  # to be refused: a full etcd gives no lease
    proxy.pending.clear()
    proxy.outbox.set_full(False)
    assert proxy.sessions.check(proxy.link.contact()) == []
    proxy.link.keep_alive_sent = proxy.loop.now
    proxy.handshake.check()
    proxy.commit()
    assert brief.outcome == "established"


@pytest.mark.parametrize("allowed", [True, False])
def test_without_etcd_a_client_that_allows_it_is_served_read_only_if_the_server_does(allowed: bool) -> None:
    proxy = Proxy(read_only=allowed)
    proxy.link.freshness = Freshness.OLD
    assert proxy.attach(WISH).outcome == ("read-only" if allowed else "turned away")
    assert proxy.attach().outcome == "turned away"
    assert proxy.attach(WISH, is_keepers=True).outcome == "turned away"
    assert proxy.attach(WISH._replace(session_id=99)).outcome == ("closed" if allowed else "waits")
    assert not proxy.pending


def test_a_state_that_is_wrong_is_not_served_read_only() -> None:
    proxy = Proxy(read_only=True)
    proxy.link.freshness = Freshness.WRONG
    assert proxy.attach(WISH).outcome == "turned away"
    assert proxy.attach(WISH._replace(session_id=99)).outcome == "waits"  # for the right state
    assert not proxy.pending


@pytest.mark.parametrize("freshness", [Freshness.RECENT, Freshness.OLD])
def test_a_tree_that_follows_another_one_is_only_read(freshness: Freshness) -> None:
    proxy = Proxy(read_only=True)
    proxy.link.freshness, proxy.link.is_copy = freshness, True
    served = proxy.attach(WISH)
    assert served.outcome == "read-only"
    assert proxy.attach().outcome == "turned away"
    assert proxy.attach(NEW._replace(session_id=99)).outcome == "turned away"
    assert proxy.attach(WISH._replace(session_id=99)).outcome == "closed"  # it is the source's
    assert proxy.attach(WISH, is_keepers=True).outcome == "turned away"
    proxy.timer.check()
    assert not served.is_closed()
    proxy.link.freshness = Freshness.WRONG
    for request in (NEW, WISH, WISH._replace(session_id=99)):
        assert proxy.attach(request).outcome == "turned away"
    proxy.link.freshness = Freshness.RECENT
    proxy.link.is_copy = False
    proxy.timer.check()
    assert served.is_closed()
    assert not proxy.pending
    assert proxy.attach(WISH).outcome == "waits"  # for a session of the tree


def test_before_the_tree_is_loaded_every_client_is_sent_elsewhere() -> None:
    proxy = Proxy(read_only=True)
    proxy.handshake.is_open = False
    for request in (NEW, WISH, NEW._replace(session_id=99)):
        for freshness in Freshness:
            proxy.link.freshness = freshness
            assert proxy.attach(request).outcome == "turned away"
    assert not proxy.pending


def test_clients_that_are_rejected_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """In an outage all clients come again and again."""
    caplog.set_level(logging.INFO)
    proxy = Proxy(read_only=True)
    proxy.link.freshness = Freshness.OLD
    for _ in range(9):
        assert proxy.attach().outcome == "turned away"
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "it is OLD" in record.getMessage()


# -- the past ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("serves_all", [True, False])
def test_a_moment_of_an_archive_is_only_read(serves_all: bool, caplog: pytest.LogCaptureFixture) -> None:
    proxy = Proxy()
    proxy.link.freshness = Freshness.PAST
    past = PastHandshake(proxy.read_only, HOST.clock, serves_all=serves_all)

    def outcome(request: ConnectRequest, *, is_keepers: bool = False) -> str:
        applicant = Applicant(is_keepers=is_keepers)
        past.begin(applicant.connection, request)
        return applicant.outcome

    assert outcome(WISH) == outcome(NEW) == "turned away"
    assert "has not loaded the tree" in caplog.text
    past.is_open = True
    assert outcome(WISH) == "read-only"
    assert outcome(WISH._replace(session_id=99)) == "closed"  # it is the tree's
    reads = "read-only" if serves_all else "turned away"
    assert outcome(NEW) == outcome(WISH, is_keepers=True) == reads
    proxy.read_only.check()
    assert len(proxy.read_only) == (3 if serves_all else 1), "they stay"
    assert not proxy.pending


# -- the timer -------------------------------------------------------------------------------------------


def test_the_timer_checks_sessions_and_clients_that_wait() -> None:
    proxy = Proxy(read_only=True)
    applicant, _, again = proxy.established()
    for passed, is_closed in ((4.4, False), (0.2, True)):  # too long without an answered keep-alive
        proxy.link.keep_alive_sent -= passed
        proxy.timer.check()
        assert applicant.closed is is_closed
    proxy.link.freshness = Freshness.OLD
    waiting, reader = proxy.attach(again), proxy.attach(WISH)
    assert (waiting.outcome, reader.outcome) == ("waits", "read-only")
    proxy.link.freshness = Freshness.RECENT
    proxy.link.keep_alive_sent = proxy.loop.now
    proxy.timer.check()
    assert [pending.kind for pending in proxy.pending] == [Kind.ATTACH]
    assert reader.closed
    proxy.commit()
    proxy.loop.now += 5.0
    proxy.link.keep_alive_sent = proxy.loop.now
    proxy.timer.check()  # after a pause of the process, clients are heard first
    proxy.timer.check()
    assert [pending.kind for pending in proxy.pending] == [Kind.CLOSE]


@pytest.mark.parametrize(("tick", "interval"), [(2000, 0.5), (200, 0.05), (60000, 0.5)])
def test_the_interval_is_a_quarter_of_a_tick(tick: int, interval: float) -> None:
    assert interval_of(tick) == interval
