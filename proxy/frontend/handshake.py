"""From a connect request to a session: a new one, or one that continues, from this proxy or another.

ZooKeeper's rules are in ZooKeeperServer.processConnectRequest. Each step is one request in the log.
"""

import asyncio
import logging
from collections import deque
from functools import partial

from codec.constants import ErrorCode
from codec.packets import ConnectRequest
from proxy.frontend.connection import Connection
from proxy.frontend.read_only import ReadOnlySessions
from proxy.frontend.sessions import PASSWORD_BYTES, Sessions
from proxy.log.append.pending import Pending
from proxy.log.append.syncs import sync_entry
from proxy.log.log import Log
from proxy.log.status import Contact, Offers
from proxy.support.environment import Clock
from proxy.support.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

# While clients come back with their sessions, as after a restart, new ones wait: their sessions are not at
# risk. Seconds after the last one that came back, the most that a client waits, and how many then open theirs
# in one turn of the loop.
_QUIET = 0.05
_LONGEST_WAIT = 1.0
_AT_ONCE = 100

_NOT_OPEN = "this server has not loaded the tree, or stops"
_ONLY_READ = "is served read-only, which it does not allow"


class Handshake:
    """Answers connect requests."""

    def __init__(
        self,
        replicated: Log,
        sessions: Sessions,
        read_only: ReadOnlySessions | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`read_only`: None if there are no such sessions."""
        environment = replicated.context.environment
        self._machine = replicated.machine
        self._sessions = sessions
        self._outbox = replicated.outbox
        self._contact = replicated.contact
        self._read_only = read_only
        self._randomness = environment.randomness
        self._loop = loop
        self._returned = float("-inf")  # when a client last came back with its session
        self._new: deque[tuple[Connection, ConnectRequest]] = deque()  # those that wait for that to be over
        self._new_until = 0.0
        self._throttled_log = ThrottledLog(log, environment.clock)
        #: Whether clients get sessions: not before the tree is loaded, nor while the server stops.
        self.is_open = False
        # Clients that wait for etcd: those with a session, and all that would be closed again before etcd
        # answers a keep-alive. Their requests are submitted only when etcd answers again, and only if they
        # still wait. Otherwise a client may have moved to another proxy, and its late request would take the
        # session away from there.
        self._waiting: list[tuple[Connection, ConnectRequest]] = []

    def begin(self, connection: Connection, request: ConnectRequest) -> None:
        """Give a connection its session, or close it, at the latest when the client's timeout has passed.

        While etcd is out of reach, a client without a session is sent to another server, as by a ZooKeeper
        without a quorum, unless it may be served read-only. So is every client before the tree is loaded. A
        state that is wrong is not served read-only either.
        """
        if not self.is_open:
            self._send_elsewhere(connection, _NOT_OPEN)
            return
        contact = self._contact()
        has_session = request.session_id != 0
        read_only = self._read_only if _allows_read_only(connection, request) else None
        match contact.offers:
            case Offers.ALL:
                self._give_session(connection, request, contact)
                if read_only is not None and not has_session:
                    read_only.stand_by(connection, request)
            case Offers.READS if read_only is not None:
                read_only.serve(connection, request)
            case Offers.READS if contact.is_copy:
                self._send_elsewhere(connection, f"a tree that follows another one {_ONLY_READ}")
            # A copy cannot be written, however well etcd answers: no session of it is worth waiting for.
            case _ if has_session and not contact.is_copy:
                self._give_session(connection, request, contact)
            case _:
                self._send_elsewhere(connection, contact.why_not_in_touch)

    def _send_elsewhere(self, connection: Connection, why: str) -> None:
        """Reject a client. In an outage all clients come again and again."""
        self._throttled_log.warn("closing %s: %s", connection.identity.address, why)
        connection.send_elsewhere()

    def _give_session(self, connection: Connection, request: ConnectRequest, contact: Contact) -> None:
        """Open or continue a session of the tree, now or when etcd answers again."""
        connection.limit_wait(self._sessions.negotiate(request.timeout_ms) / 1000)
        self._when_in_touch(connection, request, contact)

    def check(self) -> None:
        """Continue with the clients that waited for etcd; called periodically."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            contact = self._contact()
            for connection, request in waiting:
                if connection.wants_session:
                    self._when_in_touch(connection, request, contact)

    def _when_in_touch(self, connection: Connection, request: ConnectRequest, contact: Contact) -> None:
        is_kept = self._sessions.is_kept(self._sessions.negotiate(request.timeout_ms), contact)
        # A proxy without a lease gets none from a full etcd. Its outbox refuses the request, so that the
        # client tries another proxy at once.
        if contact.in_touch and (is_kept or self._outbox.is_full):
            self._when_synced(connection, request)
        else:
            self._waiting.append((connection, request))

    def _when_synced(self, connection: Connection, request: ConnectRequest) -> None:
        if request.last_zxid_seen <= self._machine.zxid:
            self._judge_and_queue(connection, request)
            return
        # This proxy may not have applied all entries that the client has seen. It has when a request of its
        # own is applied. That request always gets SESSION_EXPIRED, since session 0 never exists, and uses no
        # zxid.
        done = partial(self._synced, connection, request)
        self._outbox.submit(sync_entry(done))

    def _synced(
        self, connection: Connection, request: ConnectRequest, *_outcome: Pending | int | bytes
    ) -> None:
        if not connection.wants_session:
            return
        if request.last_zxid_seen > self._machine.zxid:
            self._throttled_log.info(
                "closing %s: the client has seen zxid 0x%x, this server only 0x%x",
                connection.identity.address,
                request.last_zxid_seen,
                self._machine.zxid,
            )
            connection.close()
        else:
            self._judge_and_queue(connection, request)

    def _judge_and_queue(self, connection: Connection, request: ConnectRequest) -> None:
        now = self._loop.time()
        if request.session_id:
            is_right = self._sessions.judge(request.session_id, request.password)
            if is_right is False:  # the log need not be asked: a session's password never changes
                connection.refuse()
                return
            if is_right and any(request.last_zxid_seen in zxids for zxids in self._machine.undone):
                self._end_undone(connection, request.session_id)
                return
            if is_right:
                self._returned = now
        elif self._new or now < self._returned + _QUIET:
            if not self._new:
                self._new_until = now + _LONGEST_WAIT
                self._loop.call_later(_QUIET, self._open_new)
            self._new.append((connection, request))
            return
        self._open_or_attach(connection, request)

    def _end_undone(self, connection: Connection, session_id: int) -> None:
        """End the session of a client that has seen what a restore has undone, maybe a lock of its own.

        Only the end of its session tells a client that what it knows is void.
        """

        def ended(err: int) -> None:
            if not connection.wants_session:
                return
            if err in (ErrorCode.OK, ErrorCode.SESSION_EXPIRED):
                connection.refuse()
            else:
                connection.close()

        reason = "its client has seen changes that are undone"
        self._outbox.submit(self._sessions.end(session_id, reason, ended))

    def _open_new(self) -> None:
        """Open sessions for the clients that have waited, unless others still come back with theirs."""
        now = self._loop.time()
        due = min(self._returned + _QUIET, self._new_until)
        if now >= due:
            for _ in range(min(_AT_ONCE, len(self._new))):
                connection, request = self._new.popleft()
                if connection.wants_session:
                    self._open_or_attach(connection, request)
        if self._new:
            self._loop.call_later(max(0.0, due - now), self._open_new)

    def _open_or_attach(self, connection: Connection, request: ConnectRequest) -> None:
        sessions = self._sessions
        timeout_ms = sessions.negotiate(request.timeout_ms)
        is_new = request.session_id == 0
        password = self._randomness.token_bytes(PASSWORD_BYTES) if is_new else request.password or b""
        answered = partial(self._answered, connection, timeout_ms, password)
        session_id = self._randomness.randbits(62) + 1 if is_new else request.session_id
        request_for = sessions.open if is_new else sessions.attach
        self._outbox.submit(
            request_for(session_id, timeout_ms, password, answered, lambda: connection.wants_session)
        )

    def _answered(
        self,
        connection: Connection,
        timeout_ms: int,
        password: bytes,
        pending: Pending,
        _zxid: int,
        err: int,
        _body: bytes,
    ) -> None:
        """A session was opened or attached here, or the request failed."""
        session = None if err else self._sessions.began(pending.session_id, timeout_ms)
        if not connection.wants_session:
            return  # the session will expire
        if session is not None:
            connection.established(session, password)
        elif err == ErrorCode.SESSION_EXPIRED:
            connection.refuse()
        else:
            self._throttled_log.warn(
                "closing %s: its session cannot be opened or continued: %s",
                connection.identity.address,
                ErrorCode(err).name,
            )
            connection.close()


class PastHandshake:
    """Answers connect requests where a moment of an archive is served: all sessions are read-only."""

    def __init__(self, read_only: ReadOnlySessions, clock: Clock, *, serves_all: bool) -> None:
        """`serves_all`: not only clients that have asked for read-only."""
        self._read_only = read_only
        self._serves_all = serves_all
        self._throttled_log = ThrottledLog(log, clock)
        #: Whether clients get sessions: not before the tree is loaded, nor while the server stops.
        self.is_open = False

    def begin(self, connection: Connection, request: ConnectRequest) -> None:
        """Give a connection a session, or send the client to another server."""
        if self.is_open and (self._serves_all or _allows_read_only(connection, request)):
            self._read_only.serve(connection, request)
            return
        why = f"the past {_ONLY_READ}" if self.is_open else _NOT_OPEN
        self._throttled_log.warn("closing %s: %s", connection.identity.address, why)
        connection.send_elsewhere()


def _allows_read_only(connection: Connection, request: ConnectRequest) -> bool:
    return bool(request.read_only) and not connection.is_keepers
