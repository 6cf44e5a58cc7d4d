"""The shell around `sessions`: checks them periodically, submits the requests, closes the connections."""

import asyncio

from proxy.frontend.handshake import Handshake
from proxy.frontend.read_only import ReadOnlySessions
from proxy.frontend.sessions import Sessions
from proxy.log.append.outbox import Outbox
from proxy.log.contact import Link


class SessionTimer:
    """Calls `check` of everything that sessions depend on."""

    def __init__(
        self,
        sessions: Sessions,
        handshake: Handshake,
        read_only: ReadOnlySessions,
        outbox: Outbox,
        link: Link,
        interval: float,
    ) -> None:
        """`interval`: seconds between two checks."""
        self._sessions = sessions
        self._handshake = handshake
        self._read_only = read_only
        self._outbox = outbox
        self._link = link
        self._interval = interval

    async def run(self) -> None:
        """Check for ever."""
        while True:
            await asyncio.sleep(self._interval)
            self.check()

    def check(self) -> None:
        """Check once."""
        to_append, to_close = self._sessions.check(self._link.contact())
        for pending in to_append:
            self._outbox.submit(pending)
        for connection in to_close:
            connection.close()
        self._handshake.check()
        self._read_only.check()


def interval_of(tick_ms: int) -> float:
    """Seconds between two checks: a quarter of tickTime, at most 0.5."""
    return min(tick_ms / 4000, 0.5)
