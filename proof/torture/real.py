"""What the simulation's client needs, on real sockets and a real clock."""

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable
from typing import Any, cast

_LINES = 4_000


class RealClock:
    """Monotonic time since the start, the seed's randomness, and a trace of the newest happenings."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._start = time.monotonic()
        self.lines: deque[str] = deque(maxlen=_LINES)
        #: What went wrong in a way that no fault explains.
        self.on_error: Callable[[str], None] = lambda _what: None

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    def random(self, name: str) -> random.Random:
        """A source of randomness of its own for each purpose."""
        return random.Random(f"{self.seed}/{name}")

    def trace(self, who: str, what: str) -> None:
        """Note something that happened."""
        self.lines.append(f"{self.now:12.4f} {who:10} {what}")


class Socket(asyncio.Protocol):
    """A connection of a client; what is given before it is up goes out then."""

    def __init__(self, came: Callable[[bytes | None], None]) -> None:
        self._came = came
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self._over = False
        self._silent = False

    async def open(self, port: int) -> None:
        """Connect; `came` is called with None if that fails."""
        try:
            await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", port)
        except OSError:
            self._end()

    def give(self, data: bytes) -> None:
        """Send something."""
        if self._transport is None:
            self._early.append(data)
        elif not self._over:
            self._transport.write(data)

    def hang_up(self, *, silently: bool = False) -> None:
        """Close it. `silently`: nothing is read and nothing said any more, and the connection stays."""
        self._over = True
        self._silent = silently
        if self._transport is not None:
            if silently:
                self._transport.pause_reading()
            else:
                self._transport.close()

    def abort(self) -> None:
        """End it, however it was left."""
        self._over = True
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_open(self) -> bool:
        """Whether the other side sees a connection: the client uses it, or has died."""
        return self._silent or not self._over

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the connection is up."""
        self._transport = cast(asyncio.Transport, transport)
        if self._over:
            self._transport.abort()
            return
        self._transport.writelines(self._early)
        self._early.clear()

    def data_received(self, data: bytes) -> None:
        """asyncio: something has come."""
        if not self._over:
            self._came(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: it has ended."""
        self._end()

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._came(None)


class RealAddress:
    """Where clients connect to: one proxy, over a relay or not."""

    def __init__(self, name: str, port: int, group: asyncio.TaskGroup) -> None:
        self.name = name
        self._port = port
        self._group = group
        #: Connections that may stay behind: those of dead clients are open until the proxy closes them.
        self.left: list[Socket] = []

    def accept(self, client: str, target: Any, came: Callable[[bytes | None], None]) -> Socket:
        """Connect."""
        del client, target
        socket = Socket(came)
        self._group.create_task(self._open(socket))
        return socket

    async def _open(self, socket: Socket) -> None:
        self.left = [other for other in self.left if other.is_open]
        self.left.append(socket)
        await socket.open(self._port)

    def close(self) -> None:
        """Close what dead clients have left."""
        for socket in self.left:
            socket.abort()
        self.left.clear()
