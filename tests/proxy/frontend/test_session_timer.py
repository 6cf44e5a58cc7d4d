"""The shell around the sessions: what it passes on, and to whom."""

import asyncio

import pytest

from codec.packets import ConnectRequest
from proxy.frontend.handshake import Handshake
from proxy.frontend.read_only import ReadOnlySessions
from proxy.frontend.session_timer import SessionTimer, interval_of
from proxy.frontend.sessions import Contact, Sessions
from proxy.log.pending import Pending
from proxy.state.capture import new_machine
from proxy.state.sessions import Session as Attached
from proxy.support.counters import Counters
from proxy.support.tasks import Tasks
from schema.entry import Kind
from tests.proxy.frontend.test_handshake import OTHER, OWN, Applicant


class Proxy:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.machine = new_machine(1)
        self.sessions = Sessions(10, 10000, 0.005, Counters())
        self.sessions.incarnation = OWN
        self.in_touch = True
        self.kept: float | None = None
        self.pending: list[Pending] = []
        self.read_only = ReadOnlySessions(
            self.sessions, lambda: self.machine.zxid, lambda: self.in_touch, self.loop.time
        )
        self.handshake = Handshake(
            self.machine,
            self.sessions,
            self.pending.append,
            lambda: self.in_touch,
            self.read_only,
            self.loop,
        )
        self.timer = SessionTimer(
            self.machine,
            self.sessions,
            self.handshake,
            self.read_only,
            self.pending.append,
            self.contact,
            0.005,
        )

    def contact(self) -> Contact:
        return Contact(0.0, self.loop.time() if self.kept is None else self.kept, 5.0, 0)

    def begin(self, timeout_ms: int = 10000) -> Applicant:
        applicant = Applicant()
        self.machine.sessions[1] = Attached(1, timeout_ms, bytes(16), OWN)
        applicant.established(self.sessions.began(1, timeout_ms, self.loop.time()), b"")
        return applicant


async def test_it_looks_every_so_often() -> None:
    proxy = Proxy()
    proxy.begin(timeout_ms=10)
    tasks = Tasks()
    tasks.start(proxy.timer.run(), "look after the sessions")
    async with asyncio.timeout(20):
        while not proxy.pending:  # noqa: ASYNC110 - a list has no event
            await asyncio.sleep(0.002)
    await tasks.close()
    assert (proxy.pending[0].kind, proxy.pending[0].session_id) == (Kind.CLOSE, 1)


async def test_connections_without_a_lease_are_closed() -> None:
    proxy = Proxy()
    applicant = proxy.begin(timeout_ms=4000)
    proxy.kept = proxy.loop.time() - 3.8
    proxy.timer.check()
    assert not applicant.closed
    proxy.kept -= 0.2
    proxy.timer.check()
    assert applicant.closed


async def test_those_that_wait_are_looked_after() -> None:
    proxy = Proxy()
    proxy.in_touch = False
    waiting, reader = Applicant(), Applicant()
    proxy.handshake.attach(waiting, ConnectRequest(0, 0, 4000, 77, b"", False))
    proxy.handshake.attach(reader, ConnectRequest(0, 0, 4000, 0, b"", True))
    assert reader.outcome == "read-only"
    assert proxy.pending == []
    proxy.in_touch = True
    proxy.timer.check()
    assert [pending.kind for pending in proxy.pending] == [Kind.ATTACH]
    assert reader.closed


@pytest.mark.parametrize("to", [OTHER, None])
async def test_a_session_that_goes_closes_its_connection(to: str | None) -> None:
    proxy = Proxy()
    applicant = proxy.begin()
    proxy.timer.session_changed((1, OWN, to))
    assert applicant.closed
    assert len(proxy.sessions) == 0


async def test_news_of_proxies() -> None:
    proxy = Proxy()
    for session_id in (5, 6):
        proxy.machine.sessions[session_id] = Attached(session_id, 4000, bytes(16), OTHER)
    proxy.timer.proxy_gone(OTHER)
    assert proxy.sessions.orphans == 2
    proxy.timer.ready({OTHER, OWN})
    assert proxy.sessions.orphans == 0
    proxy.timer.ready({OWN})
    assert proxy.sessions.orphans == 2
    proxy.timer.session_changed((5, OTHER, OWN))
    assert (proxy.sessions.orphans, len(proxy.sessions)) == (1, 1)


@pytest.mark.parametrize(("tick", "interval"), [(2000, 0.5), (200, 0.05), (60000, 0.5)])
def test_the_interval_is_a_quarter_of_a_tick(tick: int, interval: float) -> None:
    assert interval_of(tick) == interval
