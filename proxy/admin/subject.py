"""The server as the admin interfaces see it: these facts and no others.

All values are read at the moment of a request, and reading one never walks the tree.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from codec.constants import KeeperFeature
from proxy.admin.feed_stats import FeedStats
from proxy.admin.state_source import StateSource
from proxy.config import Config
from proxy.frontend.certificate_ends import CertificateEnds
from proxy.frontend.connection import Connections
from proxy.frontend.handshake import Handshake, PastHandshake
from proxy.frontend.listener import Ports
from proxy.frontend.sampling import Sampling
from proxy.frontend.sessions import Sessions
from proxy.log.status import Contact, LogStatus
from proxy.state.machine import Machine
from proxy.state.watches import WatchTable
from proxy.support.counters import Counters
from proxy.support.environment import Clock
from proxy.support.latency import Histogram, Latency
from proxy.support.metrics import PlainMetric


class ArchiveFacts(Protocol):
    """A server's part in the archive of its tree."""

    @property
    def metrics(self) -> Sequence[PlainMetric]:
        """Empty while another proxy archives."""


@dataclass
class ProcessFacts:
    """What the program around a server finds out, and sets."""

    #: How late the event loop was, measured ten times a second.
    pauses: Histogram = field(default_factory=Histogram)
    #: The archive; None if this proxy has no part in it.
    archive: ArchiveFacts | None = None
    #: When the certificates in use end; None before they are looked at.
    certificates: CertificateEnds | None = None
    #: Why this process is about to end: requests get no outcomes (proxy.watchdog). "" if they do.
    deaf: str = ""


@dataclass
class Subject:
    """One proxy: its parts, as far as operators may ask about them, and a few facts that follow from them."""

    config: Config
    clock: Clock
    started: float  # seconds since 1970
    features: Collection[KeeperFeature]  # those of ClickHouse Keeper that clients are offered
    machine: Machine
    watches: WatchTable
    latency: Latency
    counters: Counters
    source: StateSource
    connections: Connections
    sampling: Sampling
    sessions: Sessions
    ports: Ports
    handshake: Handshake | PastHandshake
    process: ProcessFacts
    #: The feeds of changes.
    feeds: FeedStats = field(default_factory=FeedStats)

    def log_status(self) -> LogStatus:
        """This proxy's end of the replicated log."""
        return self.source.replicated.status()

    def session_due(self) -> Iterator[tuple[int, float]]:
        """The sessions of this proxy, each with the monotonic time at which it expires in silence."""
        return ((session.id, session.due) for session in self.sessions)

    @property
    def contact(self) -> Contact:
        """Whether etcd answers, and whether clients may see the state."""
        return self.source.replicated.contact()
