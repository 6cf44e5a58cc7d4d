"""All connections of one server: whether a client is accepted, which are connected, the count of packets.

No I/O; a rejected client is logged.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from proxy.support.counters import Counters
from proxy.support.throttled_log import ThrottledLog

log = logging.getLogger(__name__)


class Admitted(Protocol):
    """A connection, as far as `Connections` uses it."""

    @property
    def address(self) -> str:
        """The client's address."""

    admitted: bool  # whether the limits count it
    received: int
    sent: int

    def freeze(self) -> None:
        """Take no more requests until `thaw`; those that were taken are answered."""

    def thaw(self) -> None:
        """Continue."""

    def drain(self) -> None:
        """Read no more requests, answer those received, then close."""

    def close(self) -> None:
        """Close after sending what is ready."""


AnyConnection = TypeVar("AnyConnection", bound=Admitted)


class ConnectionLimits:
    """How many clients may be connected: from one address, and in all. 0: no limit."""

    def __init__(self, per_address: int, in_all: int, counters: Counters) -> None:
        self._per_address = per_address
        self._in_all = in_all
        self.counters = counters
        self._by_address: Counter[str] = Counter()
        self._count = 0
        self._throttled_log = ThrottledLog(log)

    def admit(self, address: str) -> bool:
        """Count a client; False, without counting it, if a limit is reached (maxClientCnxns, maxCnxns)."""
        if self._per_address and self._by_address[address] >= self._per_address:
            self.counters.rejected += 1
            self._throttled_log.warn("too many connections from %s: more than %d", address, self._per_address)
            return False
        if self._in_all and self._count >= self._in_all:
            self.counters.rejected += 1
            self._throttled_log.warn("too many connections: more than %d", self._in_all)
            return False
        self._by_address[address] += 1
        self._count += 1
        return True

    def release(self, address: str) -> None:
        """Remove a client from the count."""
        self._count -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


class Connections(Generic[AnyConnection]):
    """The open connections of one server."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.received = 0  # packets of closed connections; each open connection counts its own
        self.sent = 0
        self._open: dict[AnyConnection, None] = {}  # a dict keeps the order in which they were opened
        self.are_frozen = False  # while another process takes over
        self._draining = False
        self._all_gone = asyncio.Event()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[AnyConnection]:
        return iter(list(self._open))

    def opened(self, connection: AnyConnection) -> bool:
        """Add a new connection; False if it must be closed: a limit is reached, or the server stops."""
        self._open[connection] = None
        connection.admitted = connection.admitted or self.limits.admit(connection.address)
        return connection.admitted and not self._draining

    def gone(self, connection: AnyConnection) -> None:
        """A connection is closed."""
        self._open.pop(connection, None)
        if connection.admitted:
            self.limits.release(connection.address)
        self.received += connection.received
        self.sent += connection.sent
        if self._draining and not self._open:
            self._all_gone.set()

    def freeze(self) -> None:
        """Take no more requests from any client, until `thaw`."""
        self.are_frozen = True
        for connection in self:
            connection.freeze()

    def thaw(self) -> None:
        """Continue."""
        self.are_frozen = False
        for connection in self:
            connection.thaw()

    def drain(self) -> None:
        """Accept no more connections and read no more requests; answer the requests received."""
        self._draining = True
        for connection in self:
            connection.drain()

    async def close(self, timeout: float) -> None:
        """Close all connections; wait `timeout` seconds for clients to read their last replies."""
        for connection in self:
            connection.close()
        if self._open:
            try:
                await asyncio.wait_for(self._all_gone.wait(), timeout)
            except TimeoutError:
                log.info("%d clients did not take their last replies in time", len(self._open))
