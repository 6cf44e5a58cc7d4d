"""Random histories of three proxies and their clients: proxies are cut off, paused, killed; clients move.

The log is a dict that all proxies see at once, unless they are cut off from etcd or paused.
"""

import math
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.frontend.sessions import Sessions, Timeouts
from proxy.log.append.pending import Pending
from proxy.log.status import Contact
from proxy.state.capture import new_machine
from proxy.state.outcome import SessionChange
from proxy.state.sessions import Session as Attached
from proxy.support.counters import Counters
from schema.entry import Kind, decode_close

STEP = 0.5
LEASE = 5.0
PROXIES = 3


class Connection:
    """A client's connection; it sends something at every step, unless it is silent."""

    def __init__(self, session_id: int) -> None:
        self.session_id = session_id
        self.closed = False
        self.silent = False

    def silence(self) -> float:
        return math.inf

    def close(self) -> None:
        self.closed = True

    def notify(self, *_event: object) -> None:
        raise AssertionError("no client watches here")


class Proxy:
    def __init__(self, world: "World", number: int) -> None:
        self.world = world
        self.number = number
        self.lives = 0
        self.news: list[Callable[[Proxy], None]] = []
        self.cut = self.paused = False
        self.start()

    def start(self) -> None:
        """A process that has just started."""
        world = self.world
        machine = new_machine(1)
        machine.sessions = world.state
        self.sessions = Sessions(machine, Timeouts(1000, 20000), STEP, Counters(), lambda: world.now)
        self.alive = True
        self.cut = self.paused = False
        self.news.clear()
        self.register()
        self.sessions.loaded({proxy.incarnation for proxy in world.members})

    def register(self) -> None:
        self.lives += 1
        self.incarnation = f"{self.number}-{self.lives}"
        self.sessions.registered(self.incarnation)
        self.kept = self.contact = self.world.now
        self.has_key = True
        self.world.members.append(self)

    @property
    def works(self) -> bool:
        return self.alive and not self.paused and not self.cut

    def hear(self, news: "Callable[[Proxy], None]") -> None:
        if self.alive:
            self.news.append(news)
            if self.works:
                self.catch_up()

    def catch_up(self) -> None:
        news, self.news = self.news, []
        for one in news:
            one(self)


class World:
    def __init__(self) -> None:
        self.now = 1000.0
        self.state: dict[int, Attached] = {}
        self.members: list[Proxy] = []
        # When a session's client was last heard by a proxy that has its key.
        self.heard: dict[int, float] = {}
        self.connections: dict[int, Connection] = {}
        self.at: dict[int, Proxy] = {}  # where a client's connection is
        self.outage = False
        self.back = 0.0  # when etcd was back after its last outage
        self.proxies: list[Proxy] = []
        for number in range(PROXIES):
            self.proxies.append(Proxy(self, number))

    # -- the log ----------------------------------------------------------------------------------------

    def change(self, session_id: int, incarnation: str | None) -> None:
        former = self.state[session_id].incarnation if session_id in self.state else ""
        if incarnation is None:
            del self.state[session_id]
        else:
            self.state[session_id].incarnation = incarnation

        def news(proxy: Proxy) -> None:
            proxy.sessions.session_changed(SessionChange(session_id, former, incarnation))

        for proxy in self.proxies:
            proxy.hear(news)

    def close(self, pending: Pending) -> None:
        """Apply a CLOSE."""
        assert pending.kind == Kind.CLOSE
        session_id, holder = pending.session_id, decode_close(pending.body).holder
        found = self.state.get(session_id)
        fits = found is not None and found.incarnation == holder
        pending.applied(1, 0 if fits else -118, b"")
        if found is None or not fits:
            return
        proxy = self.at.get(session_id)
        if proxy is not None and proxy.incarnation == holder and proxy.has_key:
            timeout = found.timeout_ms / 1000
            assert self.now - self.heard[session_id] >= timeout, "its client was heard in time"
            assert self.now - self.back >= min(STEP, timeout)
        elif proxy is not None and proxy.alive and not proxy.paused:
            # Its proxy is cut off, and serves it no more.
            connection = self.connections[session_id]
            assert connection.closed, f"a connection to {proxy.incarnation} outlives its session"
        self.change(session_id, None)

    # -- clients ----------------------------------------------------------------------------------------

    def come(self, session_id: int, proxy: Proxy, timeout_ms: int) -> None:
        """A client connects, to a new session or to the one that it had."""
        if not proxy.works or self.outage or not proxy.has_key:
            return
        if session_id not in self.state:
            self.state[session_id] = Attached(session_id, timeout_ms, b"", "")
        pending = proxy.sessions.attach(session_id, timeout_ms, b"", lambda *_: None)
        self.state[session_id].timeout_ms = timeout_ms
        pending.applied(1, 0, b"")
        session = proxy.sessions.began(session_id, timeout_ms)
        self.heard[session_id] = self.now
        session.connection = self.connections[session_id] = Connection(session_id)
        self.at[session_id] = proxy
        self.change(session_id, proxy.incarnation)
        assert not session.connection.closed

    # -- time -------------------------------------------------------------------------------------------

    def step(self) -> None:
        self.now += STEP
        for session_id, connection in self.connections.items():
            proxy = self.at[session_id]
            if not (connection.closed or connection.silent) and proxy.alive and not proxy.paused:
                session = proxy.sessions.get(session_id)
                if session is not None and session.connection is connection:
                    session.heard = self.now
                    self.heard[session_id] = self.now
        for proxy in self.proxies:
            if proxy.works and not self.outage:
                proxy.contact = self.now
                if proxy.has_key:
                    proxy.kept = self.now
        if not self.outage:
            for proxy in list(self.members):
                if self.now - max(proxy.kept, self.back) >= LEASE:
                    self.key_gone(proxy)
        for proxy in self.proxies:
            if proxy.works and not self.outage and not proxy.has_key:
                former = proxy.incarnation
                proxy.register()
                for session_id in [one for one, found in self.state.items() if found.incarnation == former]:
                    self.change(session_id, proxy.incarnation)
        for proxy in self.proxies:
            if proxy.alive and not proxy.paused:
                self.check(proxy)

    def check(self, proxy: Proxy) -> None:
        rank = self.members.index(proxy) if proxy in self.members else len(self.members)
        contact = Contact(self.now - proxy.contact, proxy.kept, LEASE, rank)
        to_append, to_close = proxy.sessions.check(contact)
        for connection in to_close:
            connection.close()
        for pending in to_append:
            if proxy.works and not self.outage and proxy.has_key:
                self.close(pending)
            else:
                pending.applied(0, -1, b"")  # it is over by the time that it could be sent

    def key_gone(self, proxy: Proxy) -> None:
        self.members.remove(proxy)
        proxy.has_key = False
        incarnation = proxy.incarnation

        def news(one: Proxy) -> None:
            one.sessions.proxy_gone(incarnation)

        for one in self.proxies:
            one.hear(news)

    def act(self, what: str, which: int, timeout_ms: int) -> None:
        proxy = self.proxies[which % PROXIES]
        session_id = 1 + which // PROXIES
        if what == "come":
            self.come(session_id, proxy, timeout_ms)
        elif what == "silent" and session_id in self.connections:
            self.connections[session_id].silent = True
        elif what == "cut":
            proxy.cut = True
        elif what == "pause":
            proxy.paused = True
        elif what == "kill":
            proxy.alive = False
            for session_id, connection in self.connections.items():
                connection.closed = connection.closed or self.at[session_id] is proxy
        elif what == "heal":
            if not proxy.alive:
                if not proxy.has_key:
                    proxy.start()
                return
            proxy.cut = proxy.paused = False
            proxy.catch_up()
        elif what == "outage":
            self.outage = not self.outage
            self.back = self.now


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["come"] * 4 + ["silent", "cut", "pause", "kill", "heal", "heal", "outage", ""]),
        st.integers(0, 4 * PROXIES - 1),
        st.sampled_from([1000, 4000, 6000, 10000]),
        st.sampled_from([0, 1, 3, 8, 16, 30]),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_sessions_end_when_they_should_and_not_before(steps: list[tuple[str, int, int, int]]) -> None:
    world = World()
    for what, which, timeout_ms, passing in steps:
        world.act(what, which, timeout_ms)
        for _ in range(passing):
            world.step()
    # Everything works again; clients that send something keep their sessions, the others end.
    if world.outage:
        world.act("outage", 0, 0)
    for _ in range(40):
        for number in range(PROXIES):
            world.act("heal", number, 0)
        world.step()
    world.come(99, world.proxies[0], 4000)
    for connection in world.connections.values():
        connection.silent = connection.session_id != 99
    for _ in range(200):
        world.step()
    assert set(world.state) == {99}
    assert not world.connections[99].closed
    for proxy in world.proxies:
        assert proxy.sessions.orphans == 0
        assert {session.id for session in proxy.sessions} == ({99} if proxy.number == 0 else set())
