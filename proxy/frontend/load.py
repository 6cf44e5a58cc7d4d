"""How many requests of all clients wait for an answer, for their common limit (globalOutstandingLimit).

Pure.
"""

# Bytes of waiting requests, beyond which the limit counts as reached, however few the requests are.
_MAX_BYTES = 256 << 20


class Load:
    """The sums over all connections, which each connection keeps up to date chunk by chunk."""

    __slots__ = ("_limit", "requests", "size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.requests = 0
        self.size = 0  # bytes

    @property
    def is_too_much(self) -> bool:
        """Whether clients with a request waiting are not to be read from (ZooKeeperServer.shouldThrottle)."""
        return self.requests > self._limit or self.size > _MAX_BYTES
