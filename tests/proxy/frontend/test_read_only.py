"""Read-only sessions: who gets one while etcd is silent, and how it ends."""

import pytest

from codec.packets import ConnectRequest
from proxy.frontend.read_only import ReadOnlySessions
from proxy.frontend.sessions import ServedSession, Sessions, Timeouts
from proxy.log.status import Freshness
from proxy.state.capture import new_machine
from proxy.support.counters import Counters
from proxy.support.environment import HOST
from tests.proxy.frontend.applicants import Applicant, Link

WISH = ConnectRequest(0, 0, 5000, 0, bytes(16), True)


class Server:
    def __init__(self, freshness: Freshness = Freshness.OLD) -> None:
        self.now = 100.0
        self.link = Link()
        self.link.freshness = freshness
        machine = new_machine(1)
        machine.zxid = 50
        sessions = Sessions(machine, Timeouts(1000, 10000), 0.5, Counters(), lambda: self.now)
        self.sessions = ReadOnlySessions(
            machine, sessions, self.link.contact, lambda: self.now, HOST.randomness
        )

    def serve(self, request: ConnectRequest = WISH) -> Applicant:
        applicant = Applicant()
        self.sessions.serve(applicant.connection, request)
        return applicant

    def check(self, *, later: float = 0) -> int:
        """How many sessions there are after a look."""
        self.now += later
        self.sessions.check()
        return len(self.sessions)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.mark.parametrize("request_", [WISH._replace(last_zxid_seen=51), WISH._replace(session_id=4711)])
def test_a_client_that_others_may_know_better_is_closed(server: Server, request_: ConnectRequest) -> None:
    assert server.serve(request_).is_closed()
    assert len(server.sessions) == 0


def test_a_client_may_come_back_to_its_session(server: Server) -> None:
    first = server.serve()
    assert first.session is not None
    known = WISH._replace(session_id=first.session.id, password=first.password)
    second = server.serve(known)
    assert second.session is first.session
    assert first.is_closed()
    for password in (b"wrong", None):
        assert server.serve(known._replace(password=password)).is_closed()
    assert not second.is_closed()
    second.close()
    assert server.serve(known).session is first.session


def test_a_session_that_its_client_has_closed_is_gone(server: Server) -> None:
    first = server.serve()
    assert first.session is not None
    first.session.closed = True  # Connection.local_session_closed
    known = WISH._replace(session_id=first.session.id, password=first.password)
    assert server.serve(known).is_closed()
    assert server.check() == 0


def test_a_silent_client_loses_its_session(server: Server) -> None:
    applicant = server.serve()
    assert server.check(later=4.9) == 1
    assert not applicant.is_closed()
    assert server.check(later=0.1) == 0
    assert applicant.is_closed()


def test_all_end_when_the_state_is_wrong(server: Server) -> None:
    applicant, waiting = server.serve(), Applicant()
    server.sessions.stand_by(waiting.connection, WISH)
    server.link.freshness = Freshness.WRONG
    assert server.check() == 0
    assert applicant.is_closed()
    assert waiting.session is None


def test_clients_that_wait_are_served_once_etcd_falls_silent() -> None:
    server = Server(Freshness.RECENT)
    waiting, served, left = Applicant(), Applicant(), Applicant()
    for applicant in (waiting, served, left):
        server.sessions.stand_by(applicant.connection, WISH)
    server.check()
    left.close()
    served.established(ServedSession(1, 4000, 100.0), b"", read_only=True)
    server.sessions.stand_by(served.connection, WISH)
    server.link.freshness = Freshness.OLD
    assert (server.check(), server.check()) == (1, 1)
    assert waiting.session is not None
