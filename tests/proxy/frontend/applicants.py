"""Connections that want a session, and a log whose contact to etcd a test sets."""

import math
from types import SimpleNamespace
from typing import cast

from proxy.frontend.connection import Connection
from proxy.frontend.sessions import ServedSession
from proxy.log.status import Contact, Freshness


class Applicant:
    """A connection that wants a session."""

    identity = SimpleNamespace(address="127.0.0.1")

    def __init__(self, *, is_keepers: bool = False) -> None:
        self.session: ServedSession | None = None
        self.password = b""
        self.limit = 0.0  # seconds that it waits for its session
        self.read_only = self.refused = self.closed = self.turned_away = self.gone = False
        self.is_keepers = is_keepers

    @property
    def connection(self) -> Connection:
        """It stands for one."""
        return cast(Connection, self)

    @property
    def wants_session(self) -> bool:
        return self.session is None and not (self.refused or self.closed or self.turned_away or self.gone)

    def measure_silence(self) -> float:
        return math.inf

    def established(self, session: ServedSession, password: bytes, *, read_only: bool = False) -> None:
        assert self.wants_session
        self.session = session
        self.password = password
        self.read_only = read_only
        session.connection = self

    def limit_wait(self, seconds: float) -> None:
        self.limit = seconds

    def refuse(self) -> None:
        self.refused = True

    def close(self) -> None:
        self.closed = True
        if self.session is not None and self.session.connection is self:
            self.session.connection = None

    def send_elsewhere(self) -> None:
        self.turned_away = True

    def is_closed(self) -> bool:
        """The same as `closed`."""
        return self.closed

    @property
    def outcome(self) -> str:
        """What became of it."""
        if self.session is not None:
            return "read-only" if self.read_only else "established"
        said = {"refused": self.refused, "turned away": self.turned_away, "closed": self.closed}
        return next((word for word, is_so in said.items() if is_so), "waits")


class Link:
    """A log."""

    def __init__(self) -> None:
        self.freshness = Freshness.RECENT
        self.is_copy = False
        self.keep_alive_sent = 0.0

    def contact(self) -> Contact:
        return Contact(
            0.0,
            self.keep_alive_sent,
            5.0,
            0,
            freshness=self.freshness,
            why="" if self.freshness is Freshness.RECENT else f"it is {self.freshness.name}",
            is_copy=self.is_copy,
        )
