"""The interface of etcd for the rest of the proxy: the methods of EtcdClient, and of the tests' fake.

Pure: no implementation is here. `proxy.etcd.client` documents each method's contract.
"""

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from proxy.etcd.model import (
    EtcdError,
    EtcdNoSpace,
    EtcdRefused,
    Get,
    RangeResult,
    Status,
    Txn,
    TxnResult,
    WatchMessage,
)
from proxy.etcd.transport import InFlight
from proxy.support.latency import Histogram


class Calls:
    """Calls by the name of their method ("Txn", "Range"). Streams are not counted: they stay open."""

    __slots__ = ("failures", "times")

    def __init__(self) -> None:
        self.times: dict[str, Histogram] = {}  # of those that were answered
        #: By method and kind: "refused", "unknown", "no space".
        self.failures: Counter[tuple[str, str]] = Counter()

    def answered(self, method: str, nanos: int) -> None:
        """A call has its answer."""
        times = self.times.get(method)
        if times is None:
            times = self.times[method] = Histogram()
        times.note(nanos)

    def failed(self, method: str, error: EtcdError) -> None:
        """A call has failed: refused by etcd for certain, or it is not known whether etcd got it."""
        kind = "refused" if isinstance(error, EtcdRefused) else "unknown"
        self.failures[method, "no space" if isinstance(error, EtcdNoSpace) else kind] += 1


class Reads(Protocol):
    """What a load of the tree needs of etcd: a client, or `MonotonicReads` of one."""

    async def txn(self, txn: Txn, timeout: float) -> TxnResult:
        """Commit `txn`."""

    async def range(self, get: Get, timeout: float) -> RangeResult:
        """Read."""

    async def status(self, timeout: float = ...) -> Status:
        """Ask one member how it is."""


class Etcd(Reads, Protocol):
    """One etcd cluster, seen by one proxy: `EtcdClient`, or the model of etcd in lab/fakes."""

    @property
    def last_contact(self) -> float:
        """When etcd last answered a request, or sent something on a stream."""

    @property
    def calls(self) -> Calls:
        """How long calls took, and which failed."""

    @property
    def endpoint(self) -> str:
        """HOST:PORT that the next request goes to."""

    async def versions(self, timeout: float = ...) -> list[str]:
        """Ask each endpoint's member for its version; "" for one that does not answer. Raises nothing."""

    def begin_txn(
        self, txn: Txn, timeout: float, on_answer: Callable[[TxnResult | EtcdError], None]
    ) -> InFlight:
        """As `txn`, for one that may be committed twice; the answer goes to a callback."""

    async def lease_grant(self, lease_id: int, ttl: int, timeout: float = ...) -> int:
        """Make a lease."""

    async def lease_revoke(self, lease_id: int, timeout: float = ...) -> None:
        """End a lease."""

    def lease_keeper(
        self, on_alive: Callable[[int, int], None], answer_timeout: float = ...
    ) -> Callable[[int], None]:
        """Start a stream of keep-alives; returns what asks for one renewal of a lease."""

    async def watch(
        self, start: bytes, end: bytes, from_revision: int, on_message: Callable[[WatchMessage], None]
    ) -> None:
        """Follow the changes of a range until an exception ends it."""

    def watched_member_is_suspect(self) -> bool:
        """Whether the member of the newest watch has left a request unanswered that another one answered."""

    def leave_watched_member(self) -> None:
        """The newest watch hangs: use other members."""

    async def close(self) -> None:
        """End all streams, tasks and connections."""
