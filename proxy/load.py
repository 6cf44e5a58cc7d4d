"""How much of all clients waits for an answer, for the bound that all share (globalOutstandingLimit)."""

# Of requests that wait, beyond which nobody's are taken in addition, however few they are.
_MAX_BYTES = 256 << 20


class Load:
    """The sums over all connections, which keep them up to date chunk by chunk."""

    __slots__ = ("_limit", "requests", "size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.requests = 0
        self.size = 0  # bytes

    @property
    def is_too_much(self) -> bool:
        """Whether clients with a request waiting are not to be read from (ZooKeeperServer.shouldThrottle)."""
        return self.requests > self._limit or self.size > _MAX_BYTES
