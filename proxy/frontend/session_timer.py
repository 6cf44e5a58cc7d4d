"""The shell around `sessions`: looks at the clock, submits what has to be appended, closes connections."""

import asyncio
from collections.abc import Callable, Container, Mapping
from typing import Protocol

from proxy.frontend.handshake import Handshake
from proxy.frontend.read_only import ReadOnlySessions
from proxy.frontend.sessions import Attached, Change, Contact, Sessions
from proxy.log.pending import Pending


class State(Protocol):
    """The state machine, as far as it is needed here."""

    @property
    def sessions(self) -> Mapping[int, Attached]:
        """All sessions of the tree."""


class SessionTimer:
    """Calls `check` of all that sessions depend on, and passes on what the log reports about sessions."""

    def __init__(
        self,
        state: State,
        sessions: Sessions,
        handshake: Handshake,
        read_only: ReadOnlySessions,
        submit: Callable[[Pending], None],
        contact: Callable[[], Contact],
        interval: float,
    ) -> None:
        """`contact`: what is known of etcd now. `interval`: seconds between two checks."""
        self._state = state
        self._sessions = sessions
        self._handshake = handshake
        self._read_only = read_only
        self._submit = submit
        self._contact = contact
        self._interval = interval
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Look after all sessions for ever."""
        while True:
            await asyncio.sleep(self._interval)
            self.check()

    def check(self) -> None:
        """Do what time has brought."""
        to_append, to_close = self._sessions.check(self._loop.time(), self._contact())
        for pending in to_append:
            self._submit(pending)
        for connection in to_close:
            connection.close()
        self._handshake.check()
        self._read_only.check()

    def session_changed(self, change: Change) -> None:
        """A session was opened, attached, carried over or ended."""
        connection = self._sessions.changed(change, self._state.sessions, self._loop.time())
        if connection is not None:
            connection.close()

    def proxy_came(self, incarnation: str) -> None:
        """A proxy lives."""
        self._sessions.proxy_came(incarnation)

    def proxy_gone(self, incarnation: str) -> None:
        """A proxy's key is gone."""
        self._sessions.proxy_gone(incarnation, self._state.sessions, self._loop.time())

    def ready(self, living: Container[str]) -> None:
        """The state was loaded: at the start, or again later."""
        self._sessions.ready(self._state.sessions, living, self._loop.time())


def interval_of(tick_ms: int) -> float:
    """Seconds between two checks: a quarter of tickTime, at most 0.5."""
    return min(tick_ms / 4000, 0.5)
