"""The sessions whose connection this proxy holds or held last: timeouts, passwords, when each is due.

Pure; time is an argument (seconds of a monotonic clock). etcd's side of a session is in `ops.session` (the
record) and `leases` (the lease).
"""

import hashlib
from collections.abc import Iterator
from typing import Protocol

from proxy.watches import Watcher

PASSWORD_BYTES = 16


class Connection(Watcher, Protocol):
    """A session's connection, as far as sessions care."""

    @property
    def is_held_up(self) -> bool:
        """Whether the client cannot be heard, since too many of its requests wait for their answers."""

    def close(self) -> None:
        """Close the connection; the session lives on."""


def hash_of(password: bytes) -> str:
    """What is stored of a session's password. The password is random, so a plain hash keeps it secret."""
    return hashlib.sha256(password).hexdigest()[:32]


def lease_ttl(timeout_ms: int) -> int:
    """Seconds for the lease of a session: its timeout and the longest gap between two keep-alives.

    The lease is the net under a proxy that died; the proxy itself ends a session on time. etcd's least is 2.
    """
    return max(2, -(-timeout_ms * 4 // 3000))


class Session:
    """One session of this proxy."""

    __slots__ = ("connection", "ending", "heard", "id", "kept_alive", "lease_seconds", "timeout_ms")

    def __init__(self, session_id: int, timeout_ms: int, now: float) -> None:
        self.id = session_id
        self.timeout_ms = timeout_ms
        self.connection: Connection | None = None
        self.heard = now  # when the client last sent something
        self.kept_alive = now  # when the lease was last renewed
        self.lease_seconds = lease_ttl(timeout_ms)  # what etcd grants at each renewal
        self.ending = False

    def is_due(self, now: float) -> bool:
        """Whether the client has been silent for the whole timeout, though we listened."""
        if now - self.heard < self.timeout_ms / 1000:
            return False
        return self.connection is None or not self.connection.is_held_up

    def wants_keep_alive(self, now: float) -> bool:
        """Whether the lease should be renewed: a quarter of it has passed and the client is alive."""
        return now - self.kept_alive >= self.lease_seconds / 4 and not self.ending


class Sessions:
    """All sessions of this proxy by id, and the bounds for new ones."""

    def __init__(self, min_timeout_ms: int, max_timeout_ms: int) -> None:
        self._by_id: dict[int, Session] = {}
        self._min = min_timeout_ms
        self._max = max_timeout_ms

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._by_id.values()))

    def get(self, session_id: int) -> Session | None:
        """The session, if it is this proxy's."""
        return self._by_id.get(session_id)

    def add(self, session: Session) -> None:
        """Take charge of a session."""
        self._by_id[session.id] = session

    def drop(self, session_id: int) -> Session | None:
        """Give a session up: it ended, or another proxy has it now."""
        return self._by_id.pop(session_id, None)

    def negotiate(self, wanted_ms: int) -> int:
        """The timeout that a client gets for the one it wants (ZooKeeperServer.processConnectRequest)."""
        return max(self._min, min(self._max, wanted_ms))
