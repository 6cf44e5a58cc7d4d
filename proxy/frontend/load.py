"""Counts the unanswered requests of all clients, for their common limit (globalOutstandingLimit).

Pure.
"""

# Above so many bytes of waiting requests the limit counts as reached, however few the requests are.
_MAX_BYTES = 256 << 20


class Load:
    """The sums over all connections. Each connection updates them after each chunk."""

    __slots__ = ("_limit", "requests", "size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.requests = 0
        self.size = 0  # bytes

    @property
    def is_too_much(self) -> bool:
        """Whether to stop reading from clients with a waiting request (ZooKeeperServer.shouldThrottle)."""
        return self.requests > self._limit or self.size > _MAX_BYTES
