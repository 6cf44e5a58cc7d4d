"""The server as the admin interfaces see it: these facts and no others.

All values are read at the moment of a request, and reading one never walks the tree.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from codec.constants import KeeperFeature
from proxy.admin.feed_stats import FeedStats
from proxy.config import Config
from proxy.etcd.interface import Calls
from proxy.etcd.status_poller import StatusPoller
from proxy.frontend.certificate_ends import CertificateEnds
from proxy.frontend.connection import Connections
from proxy.frontend.handshake import Handshake
from proxy.frontend.listener import Ports
from proxy.frontend.sampling import Sampling
from proxy.frontend.sessions import Sessions
from proxy.log.log import Log
from proxy.log.status import Contact, LogStatus
from proxy.log.upkeep.archiving import Archiving
from proxy.log.upkeep.snapshots import Snapshots
from proxy.state.machine import Machine
from proxy.state.watches import WatchTable
from proxy.support.counters import Counters
from proxy.support.environment import Clock
from proxy.support.latency import Histogram, Latency


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
    pauses: Histogram  # how late the event loop was, measured ten times a second
    replicated: Log
    snapshots: Snapshots
    connections: Connections
    sampling: Sampling
    sessions: Sessions
    ports: Ports
    handshake: Handshake
    etcd: StatusPoller
    etcd_calls: Calls  # how etcd answers
    #: The archive; None if this proxy has no part in it.
    archive: Archiving | None = None
    #: When the certificates in use end; None before they are looked at.
    certificates: CertificateEnds | None = None
    #: The feeds of changes.
    feeds: FeedStats = field(default_factory=FeedStats)
    #: Why this process is about to end: requests get no outcomes (proxy.watchdog). "" if they do.
    deaf: str = ""

    @property
    def log(self) -> LogStatus:
        """This proxy's end of the replicated log."""
        return self.replicated.status()

    def session_due(self) -> Iterator[tuple[int, float]]:
        """The sessions of this proxy, each with the monotonic time at which it expires in silence."""
        return ((session.id, session.heard + session.timeout_ms / 1000) for session in self.sessions)

    @property
    def contact(self) -> Contact:
        """Whether etcd answers, and whether clients may see the state."""
        return self.replicated.contact()
