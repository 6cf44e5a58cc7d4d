"""Sessions that may only read, while etcd is out of reach: what ZooKeeper's ReadOnlyZooKeeperServer does.

They are this server's own affair: etcd knows nothing of them, they hold no ephemerals, and they end when etcd
is back, so that their clients look for a server that takes writes (their `isro` pings tell them where).
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import NamedTuple, Protocol

from codec.packets import ConnectRequest
from proxy.sessions import PASSWORD_BYTES, Session, Sessions

log = logging.getLogger(__name__)


class Guest(Protocol):
    """A connection that wants a session."""

    @property
    def is_closed(self) -> bool:
        """Whether it has given up."""

    def established(self, session: Session, password: bytes, *, read_only: bool) -> None:
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
        self, sessions: Sessions, tick_ms: int, zxid: Callable[[], int], in_touch: Callable[[], bool]
    ) -> None:
        """`sessions` has the bounds of timeouts; `zxid` is what clients here see; `in_touch` with etcd."""
        self._sessions = sessions
        self._interval = min(tick_ms / 4000, 0.5)
        self._zxid = zxid
        self._in_touch = in_touch
        self._loop = asyncio.get_running_loop()
        self._local: dict[int, _Local] = {}

    def __len__(self) -> int:
        return len(self._local)

    def serve(self, guest: Guest, request: ConnectRequest) -> None:
        """Give a client that allows it a session of its own, or the one that it had here.

        One with a session that others know of is closed, as ZooKeeper does (validateSession): its session
        goes on where etcd can be reached. So is one that has seen more than this server.
        """
        known = self._local.get(request.session_id)
        if request.last_zxid_seen > self._zxid():
            guest.close()
        elif request.session_id == 0:
            timeout = self._sessions.negotiate(request.timeout_ms)
            session = Session(secrets.randbits(62) + 1, timeout, self._loop.time())
            password = secrets.token_bytes(PASSWORD_BYTES)
            self._local[session.id] = _Local(session, password)
            guest.established(session, password, read_only=True)
        elif known is not None and secrets.compare_digest(known.password, request.password or b""):
            if known.session.connection is not None:
                known.session.connection.close()
            guest.established(known.session, known.password, read_only=True)
        else:
            guest.close()

    async def stand_by(self, greeting: "asyncio.Task[None]", guest: Guest, request: ConnectRequest) -> None:
        """Serve a new client here if etcd falls silent while it waits for its session there."""
        while not greeting.done():
            await asyncio.wait({greeting}, timeout=self._interval)
            if not greeting.done() and not self._in_touch():
                greeting.cancel()
                await asyncio.wait({greeting})
                if not guest.is_closed:
                    self.serve(guest, request)

    async def run(self) -> None:
        """End sessions whose clients are silent, and all once etcd is back, for ever."""
        while True:
            await asyncio.sleep(self._interval)
            if self._local:
                self._look()

    def _look(self) -> None:
        back = self._in_touch()
        if back:
            log.info("etcd is back: %d read-only sessions end", len(self._local))
        now = self._loop.time()
        for session, _ in list(self._local.values()):
            if back or session.is_due(now):
                del self._local[session.id]
                if session.connection is not None:
                    session.connection.close()
