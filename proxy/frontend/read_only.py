"""Sessions that may only read, while etcd is out of reach: what ZooKeeper's ReadOnlyZooKeeperServer does.

They are this server's own: the log knows nothing of them, they hold no ephemerals, and they end when etcd is
back, so that their clients look for a server that takes writes (their `isro` pings tell them where).
"""

import logging
import secrets
from collections.abc import Callable
from typing import NamedTuple, Protocol

from codec.packets import ConnectRequest
from proxy.frontend.sessions import PASSWORD_BYTES, Session, Sessions

log = logging.getLogger(__name__)


class Applicant(Protocol):
    """A connection that wants a session."""

    @property
    def wants_session(self) -> bool:
        """Whether the client still waits for its session."""

    def established(self, session: Session, password: bytes, *, read_only: bool = False) -> None:
        """Here it is."""

    def close(self) -> None:
        """Not with this server now."""


class _Local(NamedTuple):
    """A session and its password."""

    session: Session
    password: bytes


class ReadOnlySessions:
    """The read-only sessions of one server."""

    def __init__(
        self,
        sessions: Sessions,
        zxid: Callable[[], int],
        in_touch: Callable[[], bool],
        time: Callable[[], float],
    ) -> None:
        """`sessions` has the bounds of timeouts; `zxid` is what clients here see; `in_touch` with etcd.

        `time` gives seconds of a monotonic clock.
        """
        self._sessions = sessions
        self._zxid = zxid
        self._in_touch = in_touch
        self._time = time
        self._local: dict[int, _Local] = {}
        self._standing_by: list[tuple[Applicant, ConnectRequest]] = []

    def __len__(self) -> int:
        return len(self._local)

    def serve(self, connection: Applicant, request: ConnectRequest) -> None:
        """Give a client that allows it a session of its own, or the one that it had here.

        One with a session that others know of is closed, as ZooKeeper does (validateSession): its session
        goes on where etcd can be reached. So is one that has seen more than this server.
        """
        known = self._local.get(request.session_id)
        if request.last_zxid_seen > self._zxid():
            connection.close()
        elif request.session_id == 0:
            timeout = self._sessions.negotiate(request.timeout_ms)
            session = Session(secrets.randbits(62) + 1, timeout, self._time())
            password = secrets.token_bytes(PASSWORD_BYTES)
            self._local[session.id] = _Local(session, password)
            connection.established(session, password, read_only=True)
        elif known is not None and secrets.compare_digest(known.password, request.password or b""):
            if known.session.connection is not None:
                known.session.connection.close()
            connection.established(known.session, known.password, read_only=True)
        else:
            connection.close()

    def stand_by(self, connection: Applicant, request: ConnectRequest) -> None:
        """Serve a new client here if etcd falls silent while it waits for its session there."""
        if connection.wants_session:
            self._standing_by.append((connection, request))

    def check(self) -> None:
        """End sessions whose clients are silent, and all once etcd is back; called periodically."""
        back = self._in_touch()
        if self._standing_by:
            waiting = [one for one in self._standing_by if one[0].wants_session]
            self._standing_by = waiting if back else []
            if not back:
                for connection, request in waiting:
                    self.serve(connection, request)
        if back and self._local:
            log.info("etcd is back: %d read-only sessions end", len(self._local))
        now = self._time()
        for session, _ in list(self._local.values()):
            if back or session.is_due(now):
                del self._local[session.id]
                if session.connection is not None:
                    session.connection.close()
