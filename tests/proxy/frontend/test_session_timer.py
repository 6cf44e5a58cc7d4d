"""The periodic checks of sessions: what they submit, and which connections they close."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from codec.packets import ConnectRequest
from proxy.frontend.handshake import Handshake, SessionTimer, interval_of
from proxy.frontend.read_only import ReadOnlySessions
from proxy.frontend.sessions import Sessions, Timeouts
from proxy.log.append.outbox import Outbox
from proxy.state.capture import new_machine
from proxy.support.counters import Counters
from proxy.support.environment import HOST
from proxy.support.tasks import Tasks
from schema.entry import Kind
from tests.proxy.frontend.applicants import Applicant, Link
from tests.proxy.log.proxies import until


class Proxy:
    """A session with a connection, and what looks after it."""

    def __init__(self, timeout_ms: int = 4000, time: Callable[[], float] | None = None) -> None:
        """`time`: the loop's, unless it stands still."""
        loop = asyncio.get_running_loop()
        time = time or loop.time
        self.link = Link()
        self.link.keep_alive_sent = time()
        self.outbox = Outbox()
        machine = new_machine(1)
        sessions = Sessions(machine, Timeouts(10, 10000), 0.005, Counters(), time)
        read_only = ReadOnlySessions(machine, sessions, self.link.contact, time, HOST.randomness)
        replicated: Any = SimpleNamespace(
            machine=machine,
            outbox=self.outbox,
            contact=self.link.contact,
            context=SimpleNamespace(environment=HOST),
        )
        self.handshake = Handshake(replicated, sessions, read_only, loop)
        self.handshake.is_open = True
        self.timer = SessionTimer(replicated, sessions, self.handshake, read_only, 0.005)
        self.applicant = Applicant()
        self.applicant.established(sessions.began(1, timeout_ms), b"")


async def test_a_session_that_is_due_is_closed() -> None:
    proxy = Proxy(timeout_ms=10)
    tasks = Tasks()
    tasks.start(proxy.timer.run(), "check the sessions")
    await until(lambda: len(proxy.outbox.queue) > 0)
    await tasks.close()
    assert (proxy.outbox.queue[0].kind, proxy.outbox.queue[0].session_id) == (Kind.CLOSE, 1)


async def test_connections_without_a_lease_are_closed() -> None:
    proxy = Proxy(time=lambda: 100.0)
    for passed, closed in ((3.8, False), (0.2, True)):
        proxy.link.keep_alive_sent -= passed
        proxy.timer.check()
        assert proxy.applicant.closed is closed


async def test_clients_that_wait_for_etcd_continue_when_it_is_back() -> None:
    proxy = Proxy()
    proxy.link.in_touch = False
    waiting, reader = Applicant(), Applicant()
    proxy.handshake.attach(waiting.connection, ConnectRequest(0, 0, 4000, 77, b"", False))
    proxy.handshake.attach(reader.connection, ConnectRequest(0, 0, 4000, 0, b"", True))
    assert reader.outcome == "read-only"
    assert not proxy.outbox.queue
    proxy.link.in_touch = True
    proxy.timer.check()
    assert [pending.kind for pending in proxy.outbox.queue] == [Kind.ATTACH]
    assert reader.closed


@pytest.mark.parametrize(("tick", "interval"), [(2000, 0.5), (200, 0.05), (60000, 0.5)])
def test_the_interval_is_a_quarter_of_a_tick(tick: int, interval: float) -> None:
    assert interval_of(tick) == interval
