"""What connections with TLS have to send is encrypted a little of all in each turn of the event loop.

To encrypt a reply of 15 MB takes 28 ms. Small writes, behind which nothing waits, are encrypted without this.
"""

import asyncio
from typing import Protocol

_IN_A_TURN = 256 << 10  # bytes of all connections
_PIECE = 64 << 10  # bytes of one connection, after which others have their turn


class Giver(Protocol):
    """A connection."""

    @property
    def waits(self) -> bool:
        """Whether it has something to send that may be encrypted now."""

    def give(self, most: int) -> int:
        """Encrypt up to `most` bytes of it; returns how many. Raises nothing."""


class Outflow:
    """Of the connections of one port, those that have more to send than fits into a turn take turns."""

    def __init__(self) -> None:
        self._left = _IN_A_TURN  # bytes, in this turn
        self._is_awake = False  # `_next_turn` will be called
        self._waiting: dict[Giver, None] = {}  # that which is next first

    def add(self, giver: Giver) -> None:
        """A connection has something to send. What fits into this turn is encrypted at once."""
        self._waiting[giver] = None
        self._give()

    def remove(self, giver: Giver) -> None:
        """It has nothing to send any more."""
        self._waiting.pop(giver, None)

    def _give(self) -> None:
        while self._waiting and self._left > 0:
            giver = next(iter(self._waiting))
            del self._waiting[giver]
            if giver.waits:
                given = giver.give(min(_PIECE, self._left))
                self._left -= given  # what it now is: `give` may have led to another
            if giver.waits:
                self._waiting[giver] = None  # as the last one
        if self._left < _IN_A_TURN and not self._is_awake:
            self._is_awake = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_awake = False
        self._left = _IN_A_TURN
        self._give()
