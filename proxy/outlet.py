"""The way out to one client: what is to be sent, whether it takes it, and whether anything is read from it.

Alone writes to transports. Knows nothing of requests: whoever answers them appends whole packets to `out`.
"""

import asyncio

# Seconds that a client has to take what was still to be sent when its connection ends.
_LAST_WAIT = 5


class Outlet:
    """The transport of one connection."""

    __slots__ = (
        "_flush_scheduled",
        "_last_wait",
        "_loop",
        "deaf",
        "draining",
        "ended",
        "out",
        "paused",
        "sent",
        "transport",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._flush_scheduled = False
        self._last_wait: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport | None = None  # None before it is there, and after it is gone
        self.out: list[bytes] = []  # packets to be sent; ever the same list
        self.sent = 0  # packets
        self.ended = False  # close after what is to be sent; take no more requests
        self.paused = False  # nothing is read from the client
        self.deaf = False  # the client reads nothing
        self.draining = False  # nothing will be read from the client any more

    def schedule_flush(self) -> None:
        """Send at the end of this turn of the loop, together with what else is to be sent by then."""
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what is to be sent in one write; close the transport if that was the last."""
        self._flush_scheduled = False
        transport = self.transport
        if transport is None:
            return
        out = self.out
        if out:
            self.sent += len(out)
            transport.write(b"".join(out))
            out.clear()
        if self.ended:
            transport.close()

    def end(self) -> None:
        """Take no more requests; close once what is to be sent is sent."""
        self.ended = True
        if self._last_wait is None and self.transport is not None:
            # A client that takes nothing would keep its connection, and all that is to be sent, for ever.
            self._last_wait = self._loop.call_later(_LAST_WAIT, self.transport.abort)
        self.schedule_flush()

    def lost(self) -> None:
        """The transport is gone."""
        self.ended = True
        self.transport = None
        self.out.clear()
        if self._last_wait is not None:
            self._last_wait.cancel()

    def pause(self) -> None:
        """Read nothing more from the client."""
        if not self.paused and self.transport is not None:
            self.paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        """Read from the client again, unless it does not read itself or is about to go."""
        if self.paused and self.transport is not None and not (self.ended or self.draining or self.deaf):
            self.paused = False
            self.transport.resume_reading()
