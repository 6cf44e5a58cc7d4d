"""The server as the admin interfaces see it: these facts and no others.

All values are read at the moment of a request, and reading one never walks the tree.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from codec.constants import KeeperFeature
from proxy.etcd.calls import Calls
from proxy.etcd.model import Status
from proxy.log.archiving import Metric
from proxy.log.contact import Contact
from proxy.log.snapshots import SnapshotStats
from proxy.log.status import LogStatus
from proxy.state.auth.scheme import Identities
from proxy.state.machine import Machine
from proxy.state.watches import WatchTable
from proxy.support.counters import Counters
from proxy.support.environment import Clock
from proxy.support.latency import ConnectionLatency, Histogram, Latency


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
    past: bool = False  # a moment of an archive is served: there is no etcd


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
        """When it was received: nanoseconds of Clock.perf_counter_ns."""


class SessionFacts(Protocol):
    """One session of this proxy."""

    @property
    def id(self) -> int:
        """Its id."""

    @property
    def timeout_ms(self) -> int:
        """The negotiated timeout."""

    @property
    def heard(self) -> float:
        """When its client last sent something, in seconds of the monotonic clock."""


class ClientConnection(Protocol):
    """One connection of one client."""

    @property
    def address(self) -> str:
        """The client's address."""

    @property
    def port(self) -> int:
        """The client's port."""

    since: float  # when it was opened, in seconds since 1970
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
        """The identities that the client has proved."""

    @property
    def outstanding(self) -> int:
        """Requests without an answer so far."""

    def waiting(self, most: int) -> Sequence[WaitingRequest]:
        """The first of the requests without an answer."""

    def close(self) -> None:
        """Close it; its session lives on."""

    @property
    def is_closed(self) -> bool:
        """Whether it is closed or about to be."""

    @property
    def due(self) -> float:
        """The time of the monotonic clock when it is closed if the client stays silent."""


class ConnectionTable(Protocol):
    """All connections."""

    #: Packets of connections that are closed; each open connection counts its own.
    received: int
    sent: int

    def __iter__(self) -> Iterator[ClientConnection]:
        """The open connections."""

    def __len__(self) -> int:
        """How many are open."""


class LogFacts(Protocol):
    """This proxy's end of the replicated log."""

    def status(self) -> LogStatus:
        """Its state now."""

    def contact(self) -> Contact:
        """The contact to etcd now."""


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


class SessionTable(Protocol):
    """The sessions that are attached to this proxy."""

    def __iter__(self) -> Iterator[SessionFacts]:
        """Each session."""

    def __len__(self) -> int:
        """How many there are."""


class PortFacts(Protocol):
    """Where clients connect."""

    @property
    def number(self) -> int:
        """The main port; 0 before that is open."""


class HandshakeFacts(Protocol):
    """Where clients get their sessions."""

    @property
    def is_open(self) -> bool:
        """Whether they do: not before the tree is loaded, nor while the server stops."""


class EtcdFacts(Protocol):
    """What etcd said of itself."""

    @property
    def status(self) -> Status | None:
        """Some seconds ago; None before it has answered."""


class ArchiveFacts(Protocol):
    """This proxy's part in the archive."""

    @property
    def metrics(self) -> Sequence[Metric]:
        """What its archiver reports; nothing while another proxy archives."""


@dataclass
class Subject:
    """One proxy: its parts, as far as operators may ask about them, and a few facts that follow from them."""

    settings: Settings
    clock: Clock
    started: float  # seconds since 1970
    features: Collection[KeeperFeature]  # those of ClickHouse Keeper that clients are offered
    machine: Machine
    watches: WatchTable
    latency: Latency
    counters: Counters
    pauses: Histogram  # how late the event loop was, measured ten times a second
    replicated: LogFacts
    snapshots: SnapshotFacts
    connections: ConnectionTable
    sessions: SessionTable
    ports: PortFacts
    handshake: HandshakeFacts
    etcd: EtcdFacts
    etcd_calls: Calls  # how etcd answers
    #: The archive; None if this proxy has no part in it.
    archive: ArchiveFacts | None = None

    @property
    def log(self) -> LogStatus:
        """This proxy's end of the replicated log."""
        return self.replicated.status()

    @property
    def session_count(self) -> int:
        """Sessions that are attached to this proxy."""
        return len(self.sessions)

    def session_due(self) -> Iterator[tuple[int, float]]:
        """The sessions of this proxy, each with the monotonic time at which it expires in silence."""
        return ((session.id, session.heard + session.timeout_ms / 1000) for session in self.sessions)

    @property
    def port(self) -> int:
        """Where clients connect; 0 before that is open."""
        return self.ports.number

    @property
    def serving(self) -> bool:
        """Whether the tree is loaded and the server does not stop."""
        return self.handshake.is_open

    @property
    def in_touch(self) -> bool:
        """Whether etcd has answered lately and this proxy is not behind it for too long."""
        return self.replicated.contact().in_touch

    @property
    def silence(self) -> float:
        """Seconds since etcd last answered."""
        return self.replicated.contact().silence

    @property
    def etcd_status(self) -> Status | None:
        """What etcd said of itself some seconds ago; None before it has answered."""
        return self.etcd.status
