"""Connections that have to send something because of other clients: flushed once a turn of the loop."""

import asyncio
from collections import deque
from typing import Protocol


class Settled(Protocol):
    """A connection, as far as it is settled."""

    def settle(self) -> None:
        """Send what is to be sent, and see whether more may come."""


class Touched:
    """Connections that wait for the end of this turn of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Settled] = deque()

    def add(self, connection: Settled) -> None:
        """Settle a connection at the end of this turn. It is not added again before that."""
        if not self._waiting:
            self._loop.call_soon(self._settle)
        self._waiting.append(connection)

    def _settle(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        try:
            while waiting:
                waiting.popleft().settle()
        finally:
            # One that fails must not leave the others without their replies.
            for connection in waiting:
                self.add(connection)
