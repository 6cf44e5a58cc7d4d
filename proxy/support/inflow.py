"""What connections have received is taken a little of all in each turn of the event loop.

Addresses take turns, and so do the connections of one. To parse HTTP takes 2.5 us for each chunk of a body,
and TLS takes 18 us for a record: both may hold a single byte. What has arrived in one turn of the loop is up
to 256 KiB a connection.
"""

import asyncio
from typing import Protocol

from proxy.support.environment import HOST, Clock

_IN_A_TURN = 0.005  # seconds of CPU time for what all connections have received
_PIECE = 4 << 10  # bytes of one connection, after which the time is looked at
_MOST_HELD = 64 << 20  # bytes that wait for their turn


class Taker(Protocol):
    """A connection."""

    @property
    def address(self) -> str:
        """Of its client."""

    def take(self, data: bytes) -> None:
        """Take what was received, unless the connection is lost. Raises nothing."""

    def hold(self) -> None:
        """Something that was received waits: receive no more, if that can be had."""

    def go_on(self) -> None:
        """All was taken."""

    def abort(self) -> None:
        """Close the connection at once."""


class Inflow:
    """Of the connections of one kind, those whose data wait take turns."""

    def __init__(self, clock: Clock = HOST.clock) -> None:
        self._clock = clock
        self._spent = 0.0  # of this turn
        self._is_awake = False  # `_next_turn` will be called
        self._held: dict[str, dict[Taker, bytearray]] = {}  # by address; what is next first, in both
        self._bytes = 0  # held

    def came(self, taker: Taker, data: bytes) -> None:
        """A connection has received something."""
        if not self._held:
            data = self._taken(taker, data)
        if data:
            self._wake()
            of_address = self._held.setdefault(taker.address, {})
            if taker not in of_address:
                of_address[taker] = bytearray()
                taker.hold()
            of_address[taker] += data
            self._bytes += len(data)
            if self._bytes > _MOST_HELD:
                self._end_largest()

    def lost(self, taker: Taker) -> None:
        """The connection is lost."""
        of_address = self._held.get(taker.address, {})
        self._bytes -= len(of_address.pop(taker, b""))
        if not of_address:
            self._held.pop(taker.address, None)

    def _end_largest(self) -> None:
        """Close the connection of which most waits, of the address of which most waits."""
        most = max(self._held.values(), key=lambda held: sum(map(len, held.values())))
        taker = max(most, key=lambda taker: len(most[taker]))
        self.lost(taker)
        taker.abort()

    def _taken(self, taker: Taker, data: bytes) -> bytes:
        """Hand on as much as may be taken in this turn; returns the rest."""
        place = 0
        while place < len(data) and self._spent < _IN_A_TURN:
            self._wake()
            began = self._clock.thread_time()
            taker.take(data[place : place + _PIECE])
            self._spent += self._clock.thread_time() - began
            place += _PIECE
        return data[place:]

    def _wake(self) -> None:
        if not self._is_awake:
            self._is_awake = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_awake = False
        self._spent = 0.0
        while self._held and self._spent < _IN_A_TURN:
            address = next(iter(self._held))
            of_address = self._held.pop(address)
            taker = next(iter(of_address))
            data = of_address.pop(taker)
            piece = bytes(data[:_PIECE])
            del data[:_PIECE]
            self._bytes -= len(piece)
            if data:
                of_address[taker] = data  # as the last one
            if of_address:
                self._held[address] = of_address
            self._taken(taker, piece)
            if not data:
                taker.go_on()
        if self._held:
            self._wake()
