"""Sessions that may only read, while etcd is out of reach or the tree follows another one: what ZooKeeper's
ReadOnlyZooKeeperServer does.

They exist only in this server: the log does not have them, and they own no ephemerals. They end when the tree
can be written, so that their clients look for a server that accepts writes (which they find by the word
`isro`). They also end when the state of this server turns out to be wrong.
"""

import logging
from collections.abc import Callable
from hmac import compare_digest
from typing import NamedTuple

from codec.packets import ConnectRequest
from proxy.frontend.connection import Connection
from proxy.frontend.sessions import PASSWORD_BYTES, ServedSession, Sessions
from proxy.log.status import Contact, Offers
from proxy.state.machine import Machine
from proxy.support.environment import Randomness

log = logging.getLogger(__name__)


class _Local(NamedTuple):
    """A session and its password."""

    session: ServedSession
    password: bytes


class ReadOnlySessions:
    """The read-only sessions of one server."""

    def __init__(
        self,
        machine: Machine,
        sessions: Sessions,
        contact: Callable[[], Contact],
        time: Callable[[], float],
        randomness: Randomness,
    ) -> None:
        """`sessions` has the bounds of timeouts. `time` returns seconds of a monotonic clock."""
        self._machine = machine
        self._sessions = sessions
        self._contact = contact
        self._time = time
        self._randomness = randomness
        self._local: dict[int, _Local] = {}
        self._standing_by: list[tuple[Connection, ConnectRequest]] = []

    def __len__(self) -> int:
        return len(self._local)

    def serve(self, connection: Connection, request: ConnectRequest) -> None:
        """Give a client that allows it a new read-only session, or the one that it had here.

        A client with a session of the log is closed, as by ZooKeeper (validateSession): its session continues
        where etcd can be reached. A client that has seen a later zxid than this server is also closed.
        """
        known = self._local.get(request.session_id)
        if request.last_zxid_seen > self._machine.zxid:
            connection.close()
        elif request.session_id == 0:
            timeout = self._sessions.negotiate(request.timeout_ms)
            session = ServedSession(self._randomness.randbits(62) + 1, timeout, self._time())
            password = self._randomness.token_bytes(PASSWORD_BYTES)
            self._local[session.id] = _Local(session, password)
            connection.established(session, password, read_only=True)
        elif (
            known is not None
            and not known.session.closed
            and compare_digest(known.password, request.password or b"")
        ):
            if known.session.connection is not None:
                known.session.connection.close()
            connection.established(known.session, known.password, read_only=True)
        else:
            connection.close()

    def stand_by(self, connection: Connection, request: ConnectRequest) -> None:
        """Serve a new client here if etcd stops answering while the client waits for its session."""
        if connection.wants_session:
            self._standing_by.append((connection, request))

    def check(self) -> None:
        """End sessions whose clients have closed them or timed out, and all when the tree can be written.

        Called periodically.
        """
        offers = self._contact().offers
        back = offers is Offers.ALL
        if self._standing_by:
            waiting = [one for one in self._standing_by if one[0].wants_session]
            self._standing_by = waiting if back else []
            if offers is Offers.READS:
                for connection, request in waiting:
                    self.serve(connection, request)
        if back and self._local:
            log.info("the tree can be written: %d read-only sessions end", len(self._local))
        now = self._time()
        for session, _ in list(self._local.values()):
            if offers is not Offers.READS or session.closed or session.check_due(now):
                del self._local[session.id]
                if session.connection is not None:
                    session.connection.close()
