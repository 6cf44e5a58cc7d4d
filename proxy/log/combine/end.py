"""What both ends of a connection between two proxies have in common."""

import asyncio
from typing import cast

from proxy.log.combine.messages import Ends


class End(asyncio.Protocol):
    """One end of the connection."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self._transport: asyncio.Transport | None = None
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the other end."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._ends.greeting())

    def connection_lost(self, _error: Exception | None) -> None:
        """Send nothing more."""
        self.is_lost = True

    def send(self, body: bytes) -> None:
        """Sign and send a message."""
        if self._transport is not None and not self.is_lost:
            self._transport.write(self._ends.sign(body))

    def close(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()
