"""The limits that all clients of a server share: on connections, and on requests that wait. No I/O."""

import logging
from collections import Counter

from proxy.support.counters import Counters
from proxy.support.throttled_log import ThrottledLog

log = logging.getLogger("proxy.frontend.connections")  # the documents name this logger

# Above so many bytes of waiting requests the limit counts as reached, however few the requests are.
_MAX_BYTES = 256 << 20


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


class Load:
    """Counts the unanswered requests of all clients, for their common limit (globalOutstandingLimit).

    Each connection updates the sums after each chunk.
    """

    __slots__ = ("_limit", "requests", "size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.requests = 0
        self.size = 0  # bytes

    @property
    def is_too_much(self) -> bool:
        """Whether to stop reading from clients with a waiting request (ZooKeeperServer.shouldThrottle)."""
        return self.requests > self._limit or self.size > _MAX_BYTES
