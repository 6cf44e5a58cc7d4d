"""How many clients may be connected."""

import logging
from collections import Counter

from proxy.support.counters import Counters
from proxy.support.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

_ANY = 1 << 30


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
