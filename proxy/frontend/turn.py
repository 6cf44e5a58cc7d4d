"""For how long clients' requests have held this turn of the event loop.

One poll can return bytes of thousands of clients, and libuv reads up to 32 buffers of one client in a row. So
each connection asks here before it takes requests. If the time is over, its bytes wait in `state_gate`'s
queue, where every connection takes a small piece in its turn.

Part of the shell: it uses the event loop. The caller reads the clock.
"""

import asyncio

from proxy.log.slices import SLICE

#: Nanoseconds for which requests are taken in one turn. They are counted from the first request after the
#: previous period has ended, so one turn may contain up to two periods.
NANOSECONDS = int(SLICE * 1e9)


class Turn:
    """The time for requests in one turn of the loop, for all clients."""

    __slots__ = ("_deadline", "_is_counted", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._deadline = 0
        self._is_counted = False  # the deadline was set in this turn

    def is_over(self, now: int) -> bool:
        """Whether clients must wait for the next turn. `now`: nanoseconds of the clock's perf_counter.

        A comparison most often. The loop is asked for a callback only once in so many milliseconds.
        """
        if now < self._deadline:
            return False
        if self._is_counted:
            return True
        self._is_counted = True
        self._deadline = now + NANOSECONDS
        self._loop.call_soon(self._next)
        return False

    def _next(self) -> None:
        self._is_counted = False
