"""From a connect request to a session: a new one, or one that continues, from this proxy or another.

ZooKeeper's rules are in ZooKeeperServer.processConnectRequest. Each step is one request in the log.
"""

import logging
import secrets
from collections.abc import Callable
from functools import partial
from typing import Protocol

from codec.constants import ErrorCode, OpCode
from codec.jute import pack_string
from codec.packets import ConnectRequest
from proxy.frontend.read_only import ReadOnlySessions
from proxy.frontend.sessions import PASSWORD_BYTES, Connection, Session, Sessions
from proxy.log.pending import CallbackRequest, Pending
from proxy.support.throttled_log import ThrottledLog
from schema.entry import Kind

log = logging.getLogger(__name__)

_SYNC = pack_string("/")


class Applicant(Connection, Protocol):
    """A connection that wants a session."""

    @property
    def address(self) -> str:
        """The client's address, for the log file."""

    @property
    def is_keepers(self) -> bool:
        """Whether the client speaks Keeper's form of the protocol."""

    @property
    def wants_session(self) -> bool:
        """Whether the client still waits for its session."""

    def established(self, session: Session, password: bytes, *, read_only: bool = False) -> None:
        """Here it is."""

    def refuse(self) -> None:
        """There is no such session."""

    def send_elsewhere(self) -> None:
        """Not with this server now; another one may be better."""


class Machine(Protocol):
    """The state machine, as far as it is needed here."""

    @property
    def zxid(self) -> int:
        """The zxid that it has reached."""


class Timer(Protocol):
    """A callback that is due."""

    def cancel(self) -> None:
        """Do not call back."""


class Clock(Protocol):
    """A monotonic clock in seconds: the event loop."""

    def time(self) -> float:
        """Now."""

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        """Call back after `delay` seconds."""


class Handshake:
    """Answers connect requests."""

    def __init__(
        self,
        machine: Machine,
        sessions: Sessions,
        submit: Callable[[Pending], None],
        in_touch: Callable[[], bool],
        read_only: ReadOnlySessions | None,
        clock: Clock,
    ) -> None:
        """`in_touch`: whether etcd has answered lately. `read_only`: None if there are no such sessions."""
        self._machine = machine
        self._sessions = sessions
        self._submit = submit
        self._in_touch = in_touch
        self._read_only = read_only
        self._clock = clock
        self._throttled_log = ThrottledLog(log)
        # Clients with a session that wait for etcd. What they want goes to the log only once etcd is back,
        # and only if they still wait: by then they may have gone to another proxy, from which the late
        # request would take the session away.
        self._waiting: list[tuple[Applicant, ConnectRequest]] = []

    def attach(self, connection: Applicant, request: ConnectRequest) -> None:
        """Give a connection its session, or close it at the latest when the client will have given up.

        While etcd is out of reach a client without a session is sent to another server, as by a ZooKeeper
        without a quorum, unless it may be served read-only.
        """
        read_only = self._read_only if request.read_only and not connection.is_keepers else None
        if self._in_touch():
            self._wait(connection, request)
            self._start(connection, request)
            if read_only is not None and request.session_id == 0:
                read_only.stand_by(connection, request)
        elif read_only is not None:
            read_only.serve(connection, request)
        elif request.session_id == 0:
            connection.send_elsewhere()
        else:
            self._wait(connection, request)
            self._waiting.append((connection, request))

    def check(self) -> None:
        """Go on with those that waited for etcd; called periodically."""
        if self._waiting and self._in_touch():
            waiting, self._waiting = self._waiting, []
            for connection, request in waiting:
                if connection.wants_session:
                    self._start(connection, request)

    def _wait(self, connection: Applicant, request: ConnectRequest) -> None:
        """Close a connection that still waits for its session after the timeout that it would have."""

        def give_up() -> None:
            if connection.wants_session:
                log.info("closing %s: it got no session in its timeout", connection.address)
                connection.close()

        self._clock.call_later(self._sessions.negotiate(request.timeout_ms) / 1000, give_up)

    def _start(self, connection: Applicant, request: ConnectRequest) -> None:
        if request.last_zxid_seen <= self._machine.zxid:
            self._ask(connection, request)
            return
        # What the client has seen may be on its way: it is here once a request of ours is. That is always
        # answered with SESSION_EXPIRED, for there is no session 0, and spends no zxid.
        done = partial(self._caught_up, connection, request)
        self._submit(CallbackRequest(Kind.CLIENT, 0, int(OpCode.SYNC), (), _SYNC, done))

    def _caught_up(
        self, connection: Applicant, request: ConnectRequest, *_outcome: Pending | int | bytes
    ) -> None:
        if not connection.wants_session:
            return
        if request.last_zxid_seen > self._machine.zxid:
            log.info(
                "closing %s: the client has seen zxid 0x%x, this server only 0x%x",
                connection.address,
                request.last_zxid_seen,
                self._machine.zxid,
            )
            connection.close()
        else:
            self._ask(connection, request)

    def _ask(self, connection: Applicant, request: ConnectRequest) -> None:
        sessions = self._sessions
        timeout_ms = sessions.negotiate(request.timeout_ms)
        is_new = request.session_id == 0
        password = secrets.token_bytes(PASSWORD_BYTES) if is_new else request.password or b""
        answered = partial(self._answered, connection, timeout_ms, password)
        if is_new:
            self._submit(sessions.open(secrets.randbits(62) + 1, timeout_ms, password, answered))
        else:
            now = self._clock.time()
            self._submit(sessions.attach(request.session_id, timeout_ms, password, now, answered))

    def _answered(
        self,
        connection: Applicant,
        timeout_ms: int,
        password: bytes,
        pending: Pending,
        _zxid: int,
        err: int,
        _body: bytes,
    ) -> None:
        """A session was opened here, or has come here, or is not to be had."""
        session = None if err else self._sessions.began(pending.session_id, timeout_ms, self._clock.time())
        if not connection.wants_session:
            return  # the session runs out
        if session is not None:
            connection.established(session, password)
        elif err == ErrorCode.SESSION_EXPIRED:
            connection.refuse()
        else:
            self._throttled_log.warn(
                "closing %s: its session cannot be opened or continued: %s",
                connection.address,
                ErrorCode(err).name,
            )
            connection.close()
