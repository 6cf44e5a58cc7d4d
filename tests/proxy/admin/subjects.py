"""A subject for the admin side without a server: every fact is a plain value that a test can set."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from codec.constants import KeeperFeature
from proxy.admin.subject import Settings, WaitingRequest
from proxy.etcd.calls import Calls
from proxy.etcd.model import Status
from proxy.log.lag import Lags
from proxy.log.members import Members
from proxy.log.snapshots import SnapshotStats
from proxy.log.stats import Stats
from proxy.state.auth.scheme import Identities
from proxy.state.capture import new_machine
from proxy.state.machine import Machine
from proxy.state.ops import EXTENDED
from proxy.state.watches import WatchTable
from proxy.support.counters import Counters
from proxy.support.environment import HOST, Clock
from proxy.support.latency import ConnectionLatency, Histogram, Latency
from schema.record import TreeRecord

_SETTINGS = Settings("data", "/zketcd", 2000, 60, 4000, 40000, -1, read_only_mode=False)


@dataclass
class LogFacts:
    """A log."""

    stats: Stats = field(default_factory=Stats)
    members: Members = field(default_factory=Members)
    incarnation: str = "a1"
    lags: Lags = field(default_factory=Lags)
    backlog: int = 0
    record: TreeRecord | None = None
    outstanding: int = 0
    in_flight: int = 0
    position: int = 7
    age: float = 0.5
    clock_skew: float = 0.0
    is_registered: bool = True
    is_full: bool = False


@dataclass
class SnapshotFacts:
    """Snapshots."""

    stats: SnapshotStats = field(default_factory=SnapshotStats)
    log_bytes: int = 0
    log_requests: int = 0
    overdue: float = 0.0


@dataclass
class Session:
    """A session."""

    timeout_ms: int


class Connections(list["Connection"]):
    """Connections."""

    received = 0
    sent = 0


@dataclass
class Connection:
    """A connection of one client."""

    latency: ConnectionLatency
    address: str = "127.0.0.1"
    port: int = 5000
    since: float = 1e9
    received: int = 0
    sent: int = 0
    session_id: int = 0
    session: Session | None = None
    outstanding: int = 0
    is_closed: bool = False
    due: float = 100.0
    identities: Identities = ()

    def waiting(self, most: int) -> Sequence[WaitingRequest]:
        return ()


@dataclass
class Subject:
    """A proxy."""

    settings: Settings = _SETTINGS
    clock: Clock = HOST.clock
    started: float = 1e9
    port: int = 2181
    machine: Machine = field(default_factory=lambda: new_machine(1))
    watches: WatchTable = field(default_factory=WatchTable)
    latency: Latency = field(default_factory=lambda: Latency((*EXTENDED.reads, *EXTENDED.writes)))
    counters: Counters = field(default_factory=Counters)
    pauses: Histogram = field(default_factory=Histogram)
    log: LogFacts = field(default_factory=LogFacts)
    snapshots: SnapshotFacts = field(default_factory=SnapshotFacts)
    connections: Connections = field(default_factory=Connections)
    due: dict[int, float] = field(default_factory=dict)
    features: Collection[KeeperFeature] = ()
    serving: bool = True
    in_touch: bool = True
    silence: float = 0.0
    etcd_calls: Calls = field(default_factory=Calls)
    etcd_status: Status | None = None

    @property
    def session_count(self) -> int:
        return len(self.due)

    def session_due(self) -> Iterable[tuple[int, float]]:
        return self.due.items()
