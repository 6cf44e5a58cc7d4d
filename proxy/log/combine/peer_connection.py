"""One end of a connection between two proxies."""

import asyncio
from typing import cast

from proxy.log.combine.messages import SignedMessages

CONNECT = 2.0  # seconds for a connection, and for its hello


class PeerConnection(asyncio.Protocol):
    """What both ends have in common."""

    def __init__(self, messages: SignedMessages) -> None:
        self._messages = messages
        self._transport: asyncio.Transport | None = None
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the other end."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._messages.greeting())

    def connection_lost(self, _error: Exception | None) -> None:
        """Send nothing more."""
        self.is_lost = True

    def send(self, body: bytes) -> None:
        """Sign and send a message."""
        if self._transport is not None and not self.is_lost:
            self._transport.write(self._messages.sign(body))

    def close(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()
