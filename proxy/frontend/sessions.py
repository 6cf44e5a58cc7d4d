"""The sessions attached to this proxy: when each begins, continues and ends.

Pure: the clock is an argument. Nothing else decides that a session of the tree ends. The log reports changes
of sessions and proxies here. Requests of clients are returned; `handshake` submits them. The ends of sessions
are passed to `submit`, few at a time: clients' requests overtake those that wait.

With T a session's timeout and L the time of its proxy's lease, which that proxy's key names:

- A client that sends nothing for T loses its session: this proxy appends CLOSE. What a client has sent and
  this proxy has not read counts, as far as the kernel has it.
- A connection is closed at the latest max(T, min(3 s, L)) after the last answered keep-alive of this proxy
  was sent. A client gets no session while this rule would close it again. Other proxies end the session
  max(2 s, T - L) after they saw this proxy's key deleted, which is no earlier. A new incarnation of this
  proxy does not change these times until it has carried the session over. A session that has just moved to a
  proxy gets at least T from that move, since that proxy's lease may have been about to end.
- While etcd does not answer, or takes no entry, no session times out. When it has answered a keep-alive
  again, or this proxy has carried its sessions over, each has T, as after an election of ZooKeeper.
- Sessions whose proxy died are orphans (`orphans`).
"""

import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Container, Iterator
from typing import NamedTuple, Protocol

from codec.constants import ErrorCode
from codec.longs import hex64
from proxy.frontend.due import DueQueue
from proxy.frontend.orphans import Orphans, wait_of_others
from proxy.log.append.pending import Callback, CallbackRequest, Pending
from proxy.log.status import OUTAGE, Contact
from proxy.state.machine import Machine
from proxy.state.outcome import CarriedOver, SessionChange
from proxy.state.pause import NO_PAUSE, Pause
from proxy.state.sessions import hash_of
from proxy.support import probe
from proxy.support.counters import Counters
from schema.entry import KILLED, Kind, decode_close, encode_close, encode_terms

log = logging.getLogger(__name__)

PASSWORD_BYTES = 16
# So many CLOSEs that this proxy decides on are in the log's outbox at most, for each Txn that may be in
# flight: clients' requests wait behind them, and an etcd that is far away is to be kept busy.
ENDING_PER_TXN = 64
_JUDGED_AT_ONCE = 512  # sessions that may be due: about a millisecond


class SessionConnection(Protocol):
    """A session's connection. This module is pure, so it cannot import `connection`."""

    def measure_silence(self) -> float:
        """Seconds for which the client has been silent while it was not read from; inf if it is read from."""

    def close(self) -> None:
        """Close the connection; the session lives on."""


class ServedSession:
    """A session whose client this proxy serves, or may serve again; the state has the rest of it."""

    __slots__ = ("closed", "connection", "ending", "heard", "id", "second", "timeout_ms")

    def __init__(self, session_id: int, timeout_ms: int, now: float) -> None:
        self.id = session_id
        self.second = -1  # of `due.Filed`
        self.timeout_ms = timeout_ms
        self.connection: SessionConnection | None = None
        self.heard = now  # when the client last sent something
        self.ending = False  # CLOSE was submitted
        self.closed = False  # by its client; of read-only sessions, which the log does not have

    def check_due(self, now: float, passed: float = 0.0) -> bool:
        """Count what the client has sent and was not read; whether it was silent for the whole timeout.

        `now`: the time by which it is judged, `passed` seconds ago.
        """
        if now >= self.due and self.connection is not None:
            self.hear_unread(self.connection, now + passed)
        return now >= self.due

    @property
    def due(self) -> float:
        """When the session ends if nothing more is heard of its client."""
        return self.heard + self.timeout_ms / 1000

    def hear_unread(self, connection: SessionConnection, now: float) -> None:
        """Count what the client has sent and was not read."""
        self.heard = max(self.heard, now - connection.measure_silence())


class _Check(NamedTuple):
    """A check of all sessions."""

    at: float
    rank: int  # how many living proxies were older than this one


class Timeouts(NamedTuple):
    """The bounds of timeouts, in milliseconds."""

    least: int
    most: int


class Sessions:
    """All sessions of this proxy by id, the orphans of dead ones, and the bounds of timeouts."""

    # Most attributes are reasons for which a session may not end yet, and `check` has to look at all of them.

    def __init__(
        self,
        machine: Machine,
        timeouts: Timeouts,
        interval: float,
        counters: Counters,
        time: Callable[[], float],
        ended: Callable[[int, str], None] | None = None,
    ) -> None:
        """`interval`: seconds between two calls of `check`. `time` returns seconds of a monotonic clock.

        `ended` gets each session that ended here, and the name of the administrator who ended it, if one did.
        """
        self._machine = machine
        self._time = time
        self._ended = ended
        self._ended_last = 0  # so that its end is logged once
        #: Takes the requests that end sessions: the outbox, which is made later.
        self.submit: Callable[[Pending], object]
        self._is_held = False
        self._ending = 0  # CLOSEs that are submitted, and have no outcome
        self._most_ending = 0
        self._due: DueQueue[ServedSession] = DueQueue()
        self._reached: deque[ServedSession] = deque()  # those that may be due, in turn
        self._may_end = False  # sessions, until the next check
        self._by_id: dict[int, ServedSession] = {}
        self.orphans = Orphans(machine)
        # How many ATTACHes of a session are submitted to the log, also if the session is not here yet: a
        # CLOSE after them would be wrong.
        self._attaching: Counter[int] = Counter()
        self._timeouts = timeouts
        self._interval = interval
        self._counters = counters
        self._checked = _Check(math.inf, -1)  # the last one; this one is none
        self._outage = False
        # The incarnation of the process that takes over, see `expect_successor`.
        self._successor: tuple[str, Callable[[int], object]] | None = None
        self._taken: list[int] = []  # from the process before this one, see `look_after_all`
        self._own: dict[str, None] = {}  # this proxy's, to which sessions are attached; the current one last

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[ServedSession]:
        return iter(list(self._by_id.values()))

    @property
    def incarnation(self) -> str:
        """The name under which this proxy appends."""
        return next(reversed(self._own), "")

    def get(self, session_id: int) -> ServedSession | None:
        """The session, if it is attached to this proxy."""
        if session_id not in self._by_id:
            attached = self._machine.sessions.get(session_id)
            if attached is not None and attached.incarnation in self._own:  # one of those that were taken
                self.session_changed(SessionChange(session_id, "", attached.incarnation))
        return self._by_id.get(session_id)

    def negotiate(self, wanted_ms: int) -> int:
        """The timeout that a client gets for the requested one (ZooKeeperServer.processConnectRequest)."""
        return max(self._timeouts.least, min(self._timeouts.most, wanted_ms))

    def is_kept(self, timeout_ms: int, contact: Contact) -> bool:
        """Whether a connection of a session with this timeout may be open until the next check.

        If not, other proxies may have ended the session by then.
        """
        # Other proxies wait for at least L. So a connection whose timeout is below L need not be closed while
        # a keep-alive is in flight.
        least = min(OUTAGE, contact.lease)
        timeout = timeout_ms / 1000
        then = self._time() + self._interval
        is_alive = then - contact.keep_alive_sent < max(least, timeout)
        return is_alive and then - contact.ended_at < wait_of_others(timeout, contact.lease)

    def _all_are_kept(self, contact: Contact) -> bool:
        """Whether `is_kept` is true of the shortest timeout, and so of each."""
        return self.is_kept(0, contact)

    # -- a session begins or continues here ------------------------------------------------------------------

    def open(
        self,
        session_id: int,
        timeout_ms: int,
        password: bytes,
        done: Callback,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> CallbackRequest:
        """The request for a new session. Call `began` after it is applied. Sent only if it `is_wanted`."""
        body = encode_terms(timeout_ms, hash_of(password))
        return CallbackRequest(Kind.OPEN, body, done, is_wanted, session_id=session_id)

    def attach(
        self,
        session_id: int,
        timeout_ms: int,
        password: bytes,
        done: Callback,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> Pending:
        """The request of a client to continue a session. Call `began` after it is applied.

        It is sent only if it `is_wanted` by then: its client may have moved to another proxy. It is a sign of
        life and closes the older connection, so the caller has to `judge` the password first.
        """
        known = self._by_id.get(session_id)
        if known is not None:
            known.heard = self._time()
            if known.connection is not None:
                known.connection.close()

        def attached(pending: Pending, zxid: int, err: int, body: bytes) -> None:
            self._attaching[session_id] -= 1
            if not self._attaching[session_id]:
                del self._attaching[session_id]
            known = self._by_id.get(session_id)
            if err == ErrorCode.CONNECTION_LOSS and known is not None:
                known.heard = self._time()  # the ATTACH may have taken effect
            done(pending, zxid, err, body)

        self._attaching[session_id] += 1
        body = encode_terms(timeout_ms, hash_of(password))
        return CallbackRequest(Kind.ATTACH, body, attached, is_wanted, session_id=session_id)

    def judge(self, session_id: int, password: bytes | None) -> bool | None:
        """Whether this is the session's password; None if this proxy does not know the session (yet)."""
        session = self._machine.sessions.get(session_id)
        return None if session is None else session.is_proved_by(password)

    def began(self, session_id: int, timeout_ms: int) -> ServedSession:
        """A session is attached to this proxy from now on; it has its whole timeout."""
        now = self._time()
        session = self._by_id.get(session_id)
        if session is None:
            return self._serve(session_id, timeout_ms, now)
        if session.connection is not None:
            session.connection.close()
        session.timeout_ms = timeout_ms
        session.heard = now
        self._due.file(session, session.due)
        return session

    def _serve(self, session_id: int, timeout_ms: int, now: float) -> ServedSession:
        session = self._by_id[session_id] = ServedSession(session_id, timeout_ms, now)
        self._due.file(session, session.due)
        return session

    # -- reports of the log ----------------------------------------------------------------------------------

    def registered(self, incarnation: str) -> None:
        """This proxy appends under this name from now on.

        Its sessions stay attached to its former incarnation until they are carried over.
        """
        self._make_last(incarnation)

    def _make_last(self, own: str) -> None:
        """This incarnation of this proxy is the current one."""
        self._own.pop(own, None)
        self._own[own] = None

    def carried_over(self, former: str) -> None:
        """No session is attached any more to this name, which is over."""
        self._own.pop(former, None)

    def expect_successor(self, successor: str, carried: Callable[[int], object]) -> None:
        """Another process of this host takes over under this name: sessions that go to it stay open here.

        `carried` is called with their number, at the place in the log where they go.
        """
        current = self.incarnation
        for own in (successor, current):
            self._make_last(own)
        self._successor = successor, carried

    def forget_successor(self) -> None:
        """The other process has failed, and its sessions are back."""
        if self._successor is not None:
            self._own.pop(self._successor[0], None)
            self._successor = None

    def all_changed(self, carried: CarriedOver) -> None:
        """Sessions were carried over. Pauses if they are another proxy's now: they may be very many.

        Those of the process that this one takes over from take no time: clients wait.
        """
        former, incarnation, session_ids = carried
        if self._successor is not None and incarnation == self._successor[0]:
            self._successor[1](len(session_ids))
        if incarnation not in self._own:
            if former not in self._own:
                self.orphans.all_changed(carried, self._time())
                return
            for session_id in self._machine.transaction.pause.each(session_ids):
                self.session_changed(SessionChange(session_id, former, incarnation))
        elif former not in self._own:
            self._taken += session_ids

    def look_after_all(self, pause: Pause) -> None:
        """Look after the sessions that this process has taken from the one before it.

        Until then each of them is known only to `get`, and none ends for its client's silence.
        """
        taken, self._taken = self._taken, []
        for session_id in pause.each(taken):
            self.get(session_id)

    def session_changed(self, change: SessionChange) -> None:
        """A session was opened, attached, carried over or ended."""
        session_id, incarnation = change.session_id, change.incarnation
        if self._successor is not None and incarnation == self._successor[0]:
            self._successor[1](1)
        now, is_own = self._time(), incarnation in self._own
        was_orphan = self.orphans.changed(change, is_own, now)
        if is_own:
            # The session is known, except if a load has skipped the answer to the client's connect request,
            # or it was taken from the process before this one.
            attached = self._machine.sessions.get(session_id)
            if session_id not in self._by_id and attached is not None:
                self._serve(session_id, attached.timeout_ms, now)
            return
        session = self._by_id.pop(session_id, None)
        if session is None and change.former not in self._own:
            is_eldest = self._checked.rank == 0
            is_killed = incarnation is None and change.reason.startswith(KILLED)
            if was_orphan and is_eldest and is_killed:
                self._killed(session_id, change.reason)  # no living proxy has held it
            return
        if session is not None:
            self._due.remove(session)
        if incarnation is not None:
            log.info("session %s: continued at proxy %s", hex64(session_id), incarnation)
        elif change.reason.startswith(KILLED):
            self._killed(session_id, change.reason)
        elif session_id != self._ended_last:
            why = change.reason or "ended by its client"
            log.info("session %s: %s", hex64(session_id), why)
        if session is not None and session.connection is not None:
            session.connection.close()

    def _killed(self, session_id: int, reason: str) -> None:
        """An administrator has ended a session."""
        log.warning("session %s: %s", hex64(session_id), reason)
        if self._ended is not None:
            self._ended(session_id, reason.removeprefix(KILLED))

    def proxy_came(self, incarnation: str) -> None:
        """A proxy lives."""
        self.orphans.proxy_came(incarnation)

    def proxy_gone(self, incarnation: str, lease: float) -> None:
        """A proxy's key was deleted: no proxy serves the clients of the sessions attached to it.

        `lease`: its seconds; 0 if it has named none, so that they have their whole timeouts.
        """
        if incarnation not in self._own:  # else this proxy lives, and carries its sessions over
            self.orphans.proxy_gone(incarnation, 0 if self._outage else lease, self._time())

    def loaded(self, living: Container[str], pause: Pause = NO_PAUSE) -> None:
        """The state was loaded, at the start or again: sessions of dead proxies get their whole timeout.

        A newly elected leader of ZooKeeper does the same. Sessions that are already orphans remain orphans.
        `pause`: for work that changes the state.
        """
        now = self._time()
        for session_id, session in pause.each(self._machine.sessions.items()):
            if session.incarnation in self._own and session_id not in self._by_id:
                self._serve(session_id, session.timeout_ms, now)
        self.orphans.loaded(self._own, living, now, pause)

    # -- periodic checks -------------------------------------------------------------------------------------

    def check(self, contact: Contact) -> list[SessionConnection]:
        """End sessions that are due; returns the connections that may not stay open. Called periodically."""
        now = self._time()
        # After a pause of the whole process, the requests that clients have sent meanwhile must be read
        # first.
        stalled = now - self._checked.at > 3 * self._interval
        self._checked = _Check(now, contact.rank)
        self._most_ending = ENDING_PER_TXN * contact.window
        # etcd may answer and take no entry, such as the one by which the sessions go on.
        is_refused = now - contact.ended_at > OUTAGE
        if contact.silence > OUTAGE or contact.is_alone or is_refused:
            self._outage = True
        elif self._outage and self._all_are_kept(contact):  # before that, clients could not come back
            self._outage = False
            self._start_anew(now)
        to_close = self._to_close(now, contact)
        self._may_end = not (stalled or self._outage or self._is_held)
        if self._may_end:
            self._reached += self._due.take(now)
            self.orphans.reach(*self._checked)
            self.end_due()
        return to_close

    def hold(self) -> None:
        """End no session until `release`: the requests without an outcome are waited for."""
        self._is_held = True
        self._may_end = False

    def release(self) -> None:
        """End sessions from the next check on."""
        self._is_held = False

    def _start_anew(self, now: float) -> None:
        """etcd answers again, or the standby: every session has its whole timeout again."""
        for session in self._by_id.values():
            session.heard = now
        self.orphans.start_anew(now)

    def _to_close(self, now: float, contact: Contact) -> list[SessionConnection]:
        """The connections whose sessions other proxies may have ended, or will end soon."""
        to_close: list[SessionConnection] = []
        if self._all_are_kept(contact):
            return to_close
        for session in self._by_id.values():
            if session.connection is not None and not self.is_kept(session.timeout_ms, contact):
                to_close.append(session.connection)
                session.connection = None
        if to_close:
            if contact.ended_at < now:
                why = f"the sessions are not carried over after {now - contact.ended_at:.1f} s"
            else:
                why = f"etcd has not answered a keep-alive for {now - contact.keep_alive_sent:.1f} s"
            log.warning("%s: closing the connections of %d sessions", why, len(to_close))
        return to_close

    def end_due(self) -> bool:
        """Submit the CLOSEs of those that are due, some at a time; returns whether more are to be judged now.

        Each is judged when its turn comes, since its client may have come back, and by the time of the last
        check: what clients have sent since then may not be read yet.
        """
        for _ in range(_JUDGED_AT_ONCE):
            if not self._may_end or self._ending >= self._most_ending:
                return False
            if self._reached:
                pending = self._end_of_silent(self._reached.popleft())
            elif self.orphans.has_next(*self._checked):
                pending = self._end_of_orphan()
            else:
                return False
            if pending is not None:
                self._ending += 1
                self.submit(pending)
        return True

    def _end_of_silent(self, session: ServedSession) -> Pending | None:
        """The CLOSE of a session, if it is due."""
        if session.ending or self._by_id.get(session.id) is not session:
            return None
        now, due = self._checked.at, session.due
        if due > now:  # mostly: its client was heard
            self._due.file(session, due)
            return None
        if session.id in self._attaching or not session.check_due(now, self._time() - now):
            self._due.file(session, max(session.due, now + self._interval))
            return None
        session.ending = True
        holder = self.incarnation
        probe.current.closing(session.id, holder)
        return self._close(session.id, "its client was silent", holder)

    def _end_of_orphan(self) -> Pending | None:
        """The CLOSE of an orphan, if it is due."""
        orphan = self.orphans.next_due(*self._checked)
        if orphan is None:
            return None
        holder = orphan.incarnation
        gone = holder and f"proxy {holder} is gone"
        reason = gone or "its client has not come since the tree was moved or loaded"
        return self._close(orphan.id, reason, holder)

    def kill(self, session_id: int, who: str, done: Callable[[int], None]) -> Pending:
        """The request of an administrator to end a session, as `end`.

        The proxy that holds the session writes it to the logs; if none lives, the eldest does.
        """
        return self.end(session_id, f"{KILLED}{who}", done)

    def end(self, session_id: int, reason: str, done: Callable[[int], None]) -> Pending:
        """The request to end any session of the tree. `done` gets its outcome."""

        def answered(_pending: Pending, _zxid: int, err: int, _body: bytes) -> None:
            done(err)

        return CallbackRequest(Kind.CLOSE, encode_close(reason, ""), answered, session_id=session_id)

    def _close(self, session_id: int, reason: str, holder: str) -> Pending:
        """The request to end a session. In an outage it is not sent, nor again what etcd has refused."""
        body = encode_close(reason, holder)
        return CallbackRequest(
            Kind.CLOSE, body, self._close_done, lambda: not self._outage, session_id=session_id
        )

    def _close_done(self, pending: Pending, _zxid: int, err: int, _body: bytes) -> None:
        """A CLOSE has its outcome. If the session did not end, a later check repeats the CLOSE."""
        self._ending -= 1
        if not err:
            self._counters.sessions_expired += 1
            reason = decode_close(pending.body).reason
            log.info("session %s: expired: %s", hex64(pending.session_id), reason)
            self._ended_last = pending.session_id
            if self._ended is not None:
                self._ended(pending.session_id, "")
        else:  # one that has ended is gone once the log reports it, which it does next
            session = self._by_id.get(pending.session_id)
            if session is not None:
                session.ending = False
                self._due.file(session, session.due)
            self.orphans.refused(pending.session_id)
        self.end_due()
