"""What TLS has decrypted, in pieces: a turn of the event loop takes a little of one connection.

A TLS record takes 18 us, and may hold one byte. uvloop decrypts all that has arrived, up to 256 KiB, before
it gives a protocol anything, unless the protocol has a buffer: then it stops where that is full, and goes on
in the next turn.
"""

import asyncio

from typing_extensions import override

from proxy.support.environment import HOST, Clock

# The room for one turn, bytes: the least is 128 records of one byte, 2 ms. It doubles where a full buffer
# took less than a millisecond, and begins anew where one took longer.
_LEAST, _MOST = 128, 1024
_LONG = 0.001  # seconds of CPU time
_EXTRA = 256  # bytes that uvloop asks for beside those that have arrived


class InPieces(asyncio.BufferedProtocol):
    """Passes on to another protocol what a TLS transport calls."""

    def __init__(self, protocol: asyncio.Protocol, clock: Clock = HOST.clock) -> None:
        self._protocol = protocol
        self._clock = clock
        self._buffer = bytearray(_MOST)
        self._room = _LEAST
        self._began = 0.0
        self._loop = asyncio.get_running_loop()
        self._ends_turn = False  # `_next_turn` will be called
        self._is_full = False  # enough for this turn: uvloop goes on behind `_next_turn`

    @override
    def get_buffer(self, sizehint: int) -> memoryview:
        if self._is_full:
            return memoryview(b"")  # more has arrived in this turn
        if sizehint - _EXTRA >= self._room and not self._ends_turn:
            self._ends_turn = True
            self._loop.call_soon(self._next_turn)
        self._began = self._clock.thread_time()
        return memoryview(self._buffer)[: self._room]

    def _next_turn(self) -> None:
        self._ends_turn = self._is_full = False

    @override
    def buffer_updated(self, nbytes: int) -> None:
        self._is_full = self._ends_turn and nbytes == self._room
        if self._clock.thread_time() - self._began > _LONG:
            self._room = _LEAST
        elif nbytes == self._room:
            self._room = min(2 * nbytes, _MOST)
        self._protocol.data_received(bytes(self._buffer[:nbytes]))

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._protocol.connection_made(transport)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)

    @override
    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    @override
    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    @override
    def resume_writing(self) -> None:
        self._protocol.resume_writing()
