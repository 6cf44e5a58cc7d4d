"""The limits that all clients of a server share: on connections, and on requests that wait. No I/O."""

import logging
from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

from proxy.support.addresses import source_of
from proxy.support.counters import Counters
from proxy.support.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

_Client = TypeVar("_Client")

# Bytes that clients without a session may have sent, from one source and in all. A handshake has 47 at most;
# clients of ZooKeeper send nothing more before the answer to it.
_EARLY_PER_SOURCE = 1 << 20
_EARLY_IN_ALL = 16 << 20
_ANY = 1 << 30
# Above so many bytes of waiting requests the limit counts as reached, however few the requests are.
_MAX_BYTES = 256 << 20
# A client for which more bytes than this are kept is far behind in reading. The limit of all such clients.
_FAR_BEHIND = 4 << 20
_UNREAD_IN_ALL = 256 << 20


class ConnectionLimits:
    """How many clients may be connected: from one address, and in all. 0: no limit."""

    def __init__(self, per_address: int, in_all: int, counters: Counters, files: int = _ANY) -> None:
        """`files`: how many clients may have a descriptor. The others are a reserve (support.descriptors)."""
        self._per_address = per_address
        self._few_files = not 0 < in_all <= files
        self.most = files if self._few_files else in_all
        self.counters = counters
        self._by_address: Counter[str] = Counter()
        self._count = 0
        self._throttled_log = ThrottledLog(log)

    def admit(self, address: str) -> bool:
        """Count a client; False, without counting it, if a limit is reached (maxClientCnxns, maxCnxns).

        "" is the address of a client that is not known yet.
        """
        if self._per_address and address and self._by_address[address] >= self._per_address:
            self.counters.rejected += 1
            self._throttled_log.warn("too many connections from %s: more than %d", address, self._per_address)
            return False
        if self._count >= self.most:
            self.counters.rejected += 1
            why = ", all that this process may have open files for" if self._few_files else ""
            self._throttled_log.warn("too many connections: more than %d%s", self.most, why)
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


class EarlyBytes:
    """The bytes that are kept for clients without a session, which have proved nothing yet."""

    def __init__(self) -> None:
        self.in_all = 0
        self._by_source: Counter[str] = Counter()

    def keep(self, address: str, size: int) -> bool:
        """Count what a client has sent; False if it is too much. It is counted until it is released."""
        source = source_of(address)
        self.in_all += size
        self._by_source[source] += size
        return self.in_all <= _EARLY_IN_ALL and self._by_source[source] <= _EARLY_PER_SOURCE

    def release(self, address: str, size: int) -> None:
        """The client has its session, or is gone."""
        source = source_of(address)
        self.in_all -= size
        self._by_source[source] -= size
        if not self._by_source[source]:
            del self._by_source[source]


def too_far_behind(unread: Mapping[_Client, tuple[str, int]]) -> list[_Client]:
    """The clients to be closed, if too much is kept for those that are far behind.

    Of the address that lets most bytes wait the one furthest behind, and so on: many clients of one host that
    wait just long enough do not push out a slow one of another.

    `unread`: address and bytes by client. What others read late is bounded for each of them, and many may do
    so at once.
    """
    sources: dict[str, list[tuple[int, _Client]]] = {}
    sums: Counter[str] = Counter()
    for client, (address, size) in unread.items():
        if size > _FAR_BEHIND:
            source = source_of(address)
            sources.setdefault(source, []).append((size, client))
            sums[source] += size
    in_all = sums.total()
    for each in sources.values():
        each.sort(key=lambda pair: pair[0])
    closed = []
    while in_all > _UNREAD_IN_ALL:
        source = max(sums, key=sums.__getitem__)
        size, client = sources[source].pop()
        sums[source] -= size
        in_all -= size
        closed.append(client)
    return closed
