"""The bytes for one client, whether the client takes them, and whether zketcd reads from the client.

Only this module writes to transports. Other modules append whole packets to `out`.
"""

import asyncio

# Seconds that a client has to take what was still to be sent when its connection ends.
_LAST_WAIT = 5


class Outbound:
    """The transport of one connection."""

    __slots__ = (
        "_last_wait",
        "_loop",
        "draining",
        "ended",
        "out",
        "reading_paused",
        "sent",
        "transport",
        "writing_paused",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, out: list[bytes]) -> None:
        """`out`: packets to be sent; always the same list."""
        self._loop = loop
        self._last_wait: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport | None = None  # None before it is there, and once it is closed
        self.out = out
        self.sent = 0  # packets
        self.ended = False  # close after what is to be sent; take no more requests
        self.reading_paused = False  # nothing is read from the client
        self.writing_paused = False  # the client reads nothing
        self.draining = False  # nothing will be read from the client any more

    def flush(self) -> None:
        """Send what is to be sent in one write; close the transport if that was the last."""
        transport = self.transport
        out = self.out
        if transport is None:
            out.clear()
            return
        if out:
            self.sent += len(out)
            packets = out[0] if len(out) == 1 else b"".join(out)
            out.clear()
            transport.write(packets)
        if self.ended:
            transport.close()
            self.transport = None  # outcomes of writes may still come

    def end(self) -> None:
        """Take no more requests; the next `flush` sends what is to be sent and closes."""
        self.ended = True
        if self._last_wait is None and self.transport is not None:
            # A client that takes nothing would keep its connection, and all that is to be sent, for ever.
            self._last_wait = self._loop.call_later(_LAST_WAIT, self.transport.abort)

    def lost(self) -> None:
        """The transport is gone."""
        self.ended = True
        self.transport = None
        self.out.clear()
        if self._last_wait is not None:
            self._last_wait.cancel()

    def pause_reading(self) -> None:
        """Read nothing more from the client."""
        if not self.reading_paused and self.transport is not None:
            self.reading_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the client again, unless it does not read itself or is about to go."""
        if (
            self.reading_paused
            and self.transport is not None
            and not (self.ended or self.draining or self.writing_paused)
        ):
            self.reading_paused = False
            self.transport.resume_reading()
