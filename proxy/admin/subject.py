"""The server as the admin interfaces see it: these facts and no others.

The server implements `Subject`; a test can do so with a few lines. All values are read at the moment of a
request, and reading one never walks the tree.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from codec.constants import KeeperFeature
from proxy.etcd.calls import Calls
from proxy.etcd.model import Status
from proxy.log.lag import Lags
from proxy.log.members import Members
from proxy.log.snapshots import SnapshotStats
from proxy.log.stats import Stats
from proxy.state.auth.scheme import Identities
from proxy.state.machine import Machine
from proxy.state.watches import WatchTable
from proxy.support.counters import Counters
from proxy.support.environment import Clock
from proxy.support.latency import ConnectionLatency, Histogram, Latency
from schema.record import TreeRecord


class Settings(NamedTuple):
    """The settings that operators can ask for. Times in milliseconds."""

    data_dir: str
    prefix: str
    tick_time: int
    max_client_connections: int
    min_session_timeout: int
    max_session_timeout: int
    secure_port: int  # the port that takes only TLS; -1 without one
    read_only_mode: bool


class WaitingRequest(Protocol):
    """A request that waits for its answer."""

    @property
    def opcode(self) -> int:
        """What it asks for."""

    @property
    def path(self) -> str | None:
        """The znode; None where it has none, or where it is not decoded yet."""

    @property
    def in_log(self) -> bool:
        """Whether it waits for the log, not for another request of its connection."""

    @property
    def received(self) -> int:
        """When it came: nanoseconds of Clock.perf_counter_ns."""


class SessionFacts(Protocol):
    """One session of this proxy."""

    @property
    def timeout_ms(self) -> int:
        """The negotiated timeout."""


class ClientConnection(Protocol):
    """One connection of one client."""

    address: str
    port: int
    since: float  # when it came, in seconds since 1970
    received: int
    sent: int
    latency: ConnectionLatency

    @property
    def session_id(self) -> int:
        """0 before there is a session."""

    @property
    def session(self) -> SessionFacts | None:
        """Its session, once there is one."""

    @property
    def identities(self) -> Identities:
        """Who the client has shown to be."""

    @property
    def outstanding(self) -> int:
        """Requests without an answer so far."""

    def waiting(self, most: int) -> Sequence[WaitingRequest]:
        """The first of the requests without an answer."""

    @property
    def is_closed(self) -> bool:
        """Whether it is closed or about to be."""

    @property
    def due(self) -> float:
        """The time of the monotonic clock when it is closed if the client stays silent."""


class ConnectionFacts(Protocol):
    """All connections."""

    #: Packets of connections that are closed; each open connection counts its own.
    received: int
    sent: int

    def __iter__(self) -> Iterator[ClientConnection]:
        """The open connections."""

    def __len__(self) -> int:
        """How many are open."""


class LogFacts(Protocol):
    """This proxy's part in the replicated log."""

    stats: Stats
    members: Members

    @property
    def incarnation(self) -> str:
        """The name under which this proxy appends."""

    @property
    def lags(self) -> Lags:
        """How far the other proxies had come at their last entries."""

    @property
    def backlog(self) -> int:
        """Entries that came and are not applied yet."""

    @property
    def record(self) -> TreeRecord | None:
        """The tree's record."""

    @property
    def outstanding(self) -> int:
        """Requests in the log's hands that have no answer so far."""

    @property
    def in_flight(self) -> int:
        """Appends that etcd has not answered yet."""

    @property
    def position(self) -> int:
        """The position of the newest entry that was applied here."""

    @property
    def age(self) -> float:
        """Seconds since this proxy had caught up with etcd."""

    @property
    def clock_skew(self) -> float:
        """Seconds; the largest difference between our clock and those of other proxies' entries lately."""

    @property
    def is_registered(self) -> bool:
        """Whether this proxy has a lease and its key in etcd, without which it takes no requests."""

    @property
    def is_full(self) -> bool:
        """Whether etcd refused the last append because its quota is used up."""


class SnapshotFacts(Protocol):
    """The snapshots of the tree, and this proxy's work on them."""

    stats: SnapshotStats

    @property
    def log_bytes(self) -> int:
        """Bytes of the entries that were applied since the current snapshot."""

    @property
    def log_requests(self) -> int:
        """Requests of the entries that were applied since the current snapshot."""

    @property
    def overdue(self) -> float:
        """For how many seconds a snapshot has been due; 0 if none is."""


class Subject(Protocol):
    """One proxy."""

    settings: Settings
    clock: Clock
    started: float  # seconds since 1970
    features: Collection[KeeperFeature]  # those of ClickHouse Keeper that clients are offered
    machine: Machine
    watches: WatchTable
    latency: Latency
    counters: Counters
    pauses: Histogram  # how late the event loop was, looked at ten times a second

    @property
    def log(self) -> LogFacts:
        """The replicated log."""

    @property
    def snapshots(self) -> SnapshotFacts:
        """The snapshots of the tree."""

    @property
    def connections(self) -> ConnectionFacts:
        """All connections."""

    @property
    def session_count(self) -> int:
        """Sessions that are attached to this proxy."""

    def session_due(self) -> Iterable[tuple[int, float]]:
        """The sessions of this proxy, each with the monotonic time when it expires if nothing is heard."""

    @property
    def port(self) -> int:
        """Where clients connect; 0 before that is open."""

    @property
    def serving(self) -> bool:
        """Whether the tree is loaded and clients are admitted."""

    @property
    def in_touch(self) -> bool:
        """Whether etcd has answered lately and this proxy is not behind it for too long."""

    @property
    def silence(self) -> float:
        """Seconds since etcd last answered."""

    @property
    def etcd_calls(self) -> Calls:
        """How etcd answers."""

    @property
    def etcd_status(self) -> Status | None:
        """What etcd said of itself some seconds ago; None before it has."""
