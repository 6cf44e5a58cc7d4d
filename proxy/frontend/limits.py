"""The limits of one connection, and those that all clients of a server share. Pure."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from proxy.state.pause import LENGTHS
from proxy.support.addresses import source_of

_Client = TypeVar("_Client")

# Bytes that clients without a session may have sent, from one source and in all. A handshake has 47 at most;
# clients of ZooKeeper send nothing more before the answer to it.
_EARLY_PER_SOURCE = 1 << 20
_EARLY_IN_ALL = 16 << 20
# Above so many bytes of waiting requests the limit counts as reached, however few the requests are.
_MAX_BYTES = 256 << 20
# A client for which more bytes than this are kept is far behind in reading. The limit of all such clients.
_FAR_BEHIND = 4 << 20
_UNREAD_IN_ALL = 256 << 20


class Limits(NamedTuple):
    """The limits of one connection."""

    #: Replies of more bytes than this are counted, so that a client that does not read them is noticed.
    large_reply: int = 4096
    #: Bytes of large replies after which a run of reads is interrupted, so that the replies are sent.
    owed: int = 64 << 10
    #: Bytes of replies and events that are kept for a client that does not read. They must be made because
    #: later writes of the client are in the log already. Above this limit the connection is closed.
    forced: int = 64 << 20
    #: Nanoseconds that the heavy reads of one client may take before other clients are served.
    stretch: int = 2_500_000
    #: Reads between two writes are answered without a break if the second write is already in the log. So a
    #: write waits for the reads before it if these weigh more than this together; a light one weighs 1.
    ahead: int = 128
    #: What all heavy reads in the queue may weigh together, whatever writes are between them. Above it no
    #: further write is sent.
    ahead_in_all: int = 2048
    #: Of a heavy read, at least.
    heavy_weight: int = 32
    #: Steps of a read for which it weighs one more.
    steps_per_weight: int = 8
    #: Bytes of identities that `auth` in the ACLs of a write may stand for, or so many times its own bytes.
    expanded: int = 2 << 10
    expanded_per_byte: int = 4
    #: A request with parts that has more bytes is decoded only when it is applied.
    decoded_at_once: int = LENGTHS.decoded_at_once


LIMITS = Limits()
"""The limits that a server uses."""


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
