"""A subject for the admin side without a server: its parts are plain values that a test can set."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from proxy.admin.state_source import StateSource
from proxy.admin.subject import ProcessFacts, Subject
from proxy.config import parse
from proxy.frontend.admission import ConnectionLimits
from proxy.frontend.connection import ConnectionFacts, Connections
from proxy.frontend.requests import Waiting
from proxy.frontend.sampling import Sampling
from proxy.log.living import LivingProxies, Peers
from proxy.log.slices import StateWorker
from proxy.log.status import Contact, Freshness, LogStatus, Stats
from proxy.state.capture import new_machine
from proxy.state.ops import EXTENDED
from proxy.state.watches import WatchTable
from proxy.support.counters import Counters
from proxy.support.environment import HOST
from proxy.support.latency import ConnectionLatency, Latency
from schema.followed import Lag

CONFIG = parse([])


@dataclass
class LogFacts:
    """A log."""

    stats: Stats = field(default_factory=Stats)
    living: LivingProxies = field(default_factory=LivingProxies)
    peers: Peers = field(default_factory=Peers)
    outstanding: int = 0
    is_registered: bool = True
    is_full: bool = False
    freshness: Freshness = Freshness.RECENT
    why: str = ""
    is_copy: bool = False
    lag: Lag | None = None
    standby_silence: float | None = None
    is_alone: bool = False
    is_behind: bool = False

    def status(self) -> LogStatus:
        return LogStatus(
            self.living,
            self.peers,
            self.stats,
            incarnation="a1",
            is_registered=self.is_registered,
            is_full=self.is_full,
            position=7,
            outstanding=self.outstanding,
            age=0.5,
            lag=self.lag,
            standby_silence=self.standby_silence,
        )

    def contact(self) -> Contact:
        return Contact(
            0.0,
            100.0,
            lease=5.0,
            rank=0,
            freshness=self.freshness,
            why=self.why,
            is_alone=self.is_alone,
            is_copy=self.is_copy,
            is_behind=self.is_behind,
        )


class Session(NamedTuple):
    """A session."""

    id: int
    timeout_ms: int = 4000
    heard: float = 96.0

    @property
    def due(self) -> float:
        return self.heard + self.timeout_ms / 1000


_FACTS = ConnectionFacts(
    address="127.0.0.1",
    port=5000,
    session_id=0,
    timeout_ms=0,
    identities=(),
    since=1e9,
    due=100.0,
    received=0,
    sent=0,
    outstanding=0,
    is_closed=False,
)


class Connection:
    """A connection of one client: some of its facts, and the parts that operators count or close."""

    admitted = True
    resets = 0

    def __init__(self, latency: ConnectionLatency, requests: Sequence[Waiting] = (), **facts: Any) -> None:
        self._facts = known = _FACTS._replace(**facts)
        self.latency = latency
        self.session_id = known.session_id
        self.identity = SimpleNamespace(address=known.address, port=known.port)
        self.inbound = SimpleNamespace(count=known.received)
        self.outbound = SimpleNamespace(sent=known.sent)
        self.order = SimpleNamespace(
            is_closed=False,
            queue=SimpleNamespace(count=known.outstanding),
            waiting=lambda most: requests[:most],
        )

    def close(self) -> None:
        self.order.is_closed = True

    def facts(self) -> ConnectionFacts:
        return self._facts


def connected(*connections: Connection) -> Connections:
    """These connections, open."""
    opened = Connections(ConnectionLimits(0, 0, Counters()))
    for each in connections:
        opened.opened(cast(Any, each))
    return opened


def subject_of(**parts: object) -> Subject:
    """A proxy with these parts, of itself or of its source, and harmless ones otherwise."""
    of_source = {each.name: parts.pop(each.name) for each in fields(StateSource) if each.name in parts}
    source = {"replicated": LogFacts(), "worker": StateWorker(HOST.clock), "submit": list, **of_source}
    everything: dict[str, object] = {
        "config": CONFIG,
        "clock": HOST.clock,
        "started": 1e9,
        "features": (),
        "machine": new_machine(1),
        "watches": WatchTable(),
        "latency": Latency(EXTENDED.updates),
        "counters": Counters(),
        "source": StateSource(**source),  # type: ignore[arg-type]
        "connections": connected(),
        "sampling": Sampling(CONFIG.top, HOST.randomness.randbits, HOST.clock.monotonic),
        "sessions": [],
        "ports": SimpleNamespace(number=2181),
        "handshake": SimpleNamespace(is_open=True),
        "process": ProcessFacts(),
    }
    return Subject(**{**everything, **parts})  # type: ignore[arg-type]
