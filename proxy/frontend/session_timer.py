"""Does periodically what `sessions` and others decide: the clock of sessions and connections."""

import asyncio

from proxy.frontend.connection import Connections
from proxy.frontend.handshake import Handshake
from proxy.frontend.read_only import ReadOnlySessions
from proxy.frontend.sessions import Sessions
from proxy.log.log import Log


class SessionTimer:
    """Calls `check` of everything that sessions and connections depend on."""

    def __init__(
        self,
        replicated: Log,
        sessions: Sessions,
        handshake: Handshake,
        read_only: ReadOnlySessions,
        connections: Connections,
        interval: float,
    ) -> None:
        """`interval`: seconds between two checks."""
        self._log = replicated
        self._sessions = sessions
        self._handshake = handshake
        self._read_only = read_only
        self._connections = connections
        self._interval = interval

    async def run(self) -> None:
        """Check each `interval` seconds, for ever."""
        while True:
            await asyncio.sleep(self._interval)
            self.check()
            while self._sessions.end_due():  # noqa: ASYNC110 - it does not wait: this is work in slices
                await asyncio.sleep(0)

    def check(self) -> None:
        """End sessions and close connections that are due; continue with clients that waited."""
        for connection in self._sessions.check(self._log.contact()):
            connection.close()
        self._handshake.check()
        self._read_only.check()
        self._connections.check()


def interval_of(tick_ms: int) -> float:
    """Seconds between two checks: a quarter of tickTime, at most 0.5."""
    return min(tick_ms / 4000, 0.5)
