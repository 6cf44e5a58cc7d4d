"""Another zketcd's tree as the source of a copy: what its log in etcd and its archive have in common."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from pipeline.follow.output import Stuck
from pipeline.follow.target import Origin
from proxy.log.follow.log_order import Apply
from proxy.log.record import TreeSealed
from proxy.state.machine import Machine
from schema.entry import Entry
from schema.followed import Sign
from schema.record import Seal

MOST_WAITING = 64 << 20  # bytes of entries that are not applied yet


class Again(Exception):
    """Open the source again, where the copy is; the message says why."""


class NotThere(Exception):
    """The source does not reach back to where the copy is."""


class OtherSource(Stuck):
    """This is not the tree that the copy follows."""


def check_cluster(name: str, origin: Origin, cluster_id: int, then: str) -> None:
    """Raises OtherSource if the source is in another etcd than the one that the copy has followed."""
    if cluster_id != origin.cluster_id:
        raise OtherSource(
            f"{name} is in the etcd cluster {cluster_id:016x}, and the copy has followed"
            f" {origin.cluster_id:016x}: {then}"
        )


def check_prefix(name: str, origin: Origin, prefix: str, then: str) -> None:
    """Raises OtherSource if the source has another prefix than the one that the copy has followed."""
    if origin.prefix and prefix and prefix != origin.prefix:
        raise OtherSource(
            f"{name} has the prefix {prefix}, and the copy has followed {origin.prefix}: {then}"
        )


class Arrived(NamedTuple):
    """An entry that has taken effect."""

    item: Apply
    entry: Entry


class Reading:
    """One reader of the source: a state, and the entries after it, in order."""

    def __init__(self, machine: Machine, cluster_id: int, prefix: str) -> None:
        #: The reader's caller applies the entries to it.
        self.machine = machine
        #: As in `Origin`.
        self.cluster_id = cluster_id
        self.prefix = prefix
        #: Set when an entry has arrived.
        self.arrived = asyncio.Event()
        #: Set when all that has arrived is taken and applied.
        self.taken = asyncio.Event()
        #: Set when the source was sealed: no other entry will arrive.
        self.sealed: TreeSealed | None = None
        #: Requests of entries that were not taken yet.
        self.waiting = 0
        self._entries: deque[Arrived] = deque()
        self._bytes = 0

    async def run(self) -> None:
        """Read for ever. Raises Again, Failure, EtcdError, TreeNotServable."""
        raise NotImplementedError

    def level_at(self) -> float | None:
        """Unix time up to which all entries have arrived; None: not known since the reader began."""
        raise NotImplementedError

    @property
    def behind(self) -> int:
        """How many requests the source is known to have that were not taken."""
        return self.waiting

    @property
    def has_more(self) -> bool:
        """Whether an entry has arrived that was not taken."""
        return bool(self._entries)

    @property
    def next_bytes(self) -> int:
        """About how many bytes the next entry's requests have; 0 without one."""
        return sum(len(each.body) for each in self._entries[0].entry.requests) if self._entries else 0

    @property
    def is_full(self) -> bool:
        """Whether so much waits that no more should be read."""
        return self._bytes > MOST_WAITING

    def take(self) -> Arrived | None:
        """The next entry, which the caller has to apply to the state at once; None: none has arrived."""
        if not self._entries:
            self.arrived.clear()
            self.taken.set()
            return None
        taken = self._entries.popleft()
        self._bytes -= len(taken.item.value)
        self.waiting -= len(taken.entry.requests)
        return taken

    def _arrive(self, item: Apply) -> None:
        entry = item.decode()
        self._entries.append(Arrived(item, entry))
        self._bytes += len(item.value)
        self.waiting += len(entry.requests)
        self.arrived.set()
        self.taken.clear()


class Source(Protocol):
    """Where the entries come from."""

    @property
    def name(self) -> str:
        """As the command line has it."""

    @property
    def can_seal(self) -> bool:
        """Whether `seal` can succeed."""

    async def open(self, entries: int | None, origin: Origin | None) -> Reading:
        """A reader that begins after so many entries; None: as of now, or near it.

        `origin`: where the entries were counted; None: a copy begins. Raises NotThere, OtherSource, Failure,
        EtcdError, TreeNotServable.
        """

    async def vouch(self, origin: Origin, sign: Sign, hold: Callable[[], Awaitable[None]]) -> None:
        """As `vouching.vouch`. Raises OtherSource, TreeNotServable, Failure, EtcdError."""

    async def seal(self, where: Seal) -> None:
        """Write into the source where its tree has gone. Raises Failure, EtcdError, TreeNotServable."""
