"""What a proxy's end of the log says of itself, to sessions, operators and metrics: plain values. Pure."""

import math
from collections import Counter
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, NamedTuple

from proxy.log.living import LivingProxies, Peers
from proxy.support.latency import Histogram, RoundTrip
from proxy.support.metrics import PlainMetric
from schema.followed import Lag
from schema.record import TreeRecord

#: Seconds without an answer after which etcd counts as out of reach.
OUTAGE = 3.0
_KEEP_ALIVES = 3  # for each lease time
_LONGEST = 5.0  # as for a lease of this time, at most: answers must be newer than OUTAGE at any moment


def keep_alive_interval(lease: float) -> float:
    """Seconds between two keep-alives of a lease."""
    return min(lease, _LONGEST) / _KEEP_ALIVES


class Freshness(Enum):
    """How far clients may rely on the state of a server. Of the log, `follow.staleness` decides it."""

    RECENT = "it is what the log says, and recent"
    OLD = "it may be old: clients may only read"
    PAST = "it is a moment of an archive: clients may only read, and it stays so"
    WRONG = "it is not what the log says: no client may see it, however long etcd is out of reach"
    LOADING = "as WRONG, and another state is being loaded in its place"
    GONE = "the tree cannot be served any more, for instance since it was moved"


class Offers(Enum):
    """What clients can get at a proxy."""

    ALL = "sessions of the tree, which may write"
    READS = "sessions that only read"
    NOTHING = "not even a look at the state"


class Contact(NamedTuple):
    """The contact to etcd at a moment, by which sessions live. Times are in seconds of a monotonic clock."""

    silence: float  # seconds since etcd last answered
    keep_alive_sent: float  # when the last answered keep-alive of the sessions' incarnation was sent
    lease: float  # seconds of the proxy's lease, as granted
    rank: int  # how many living proxies are older than this one
    freshness: Freshness = Freshness.RECENT
    why: str = ""  # it is not RECENT
    is_alone: bool = False  # the standby is silent: nothing can be written, and no session ends
    is_copy: bool = False  # the tree copies another one, so nothing can be written
    window: int = 1  # how many Txns this proxy may have in flight
    ended_at: float = math.inf  # when that incarnation ended, if its sessions are not carried over yet
    is_behind: bool = False  # clients wait until what etcd has delivered is applied

    @property
    def in_touch(self) -> bool:
        """Whether etcd has answered lately, and the state is recent."""
        return self.silence <= OUTAGE and self.freshness is Freshness.RECENT

    @property
    def why_not_in_touch(self) -> str:
        """An empty text if it is."""
        return "" if self.in_touch else self.why or "etcd does not answer"

    @property
    def why_gone(self) -> str:
        """Why the tree cannot be served any more, such as where it was moved to; "" while it can."""
        return self.why if self.freshness is Freshness.GONE else ""

    @property
    def offers(self) -> Offers:
        """What clients can get now."""
        if self.in_touch and not self.is_copy:
            return Offers.ALL
        may_be_seen = self.freshness in (Freshness.RECENT, Freshness.OLD, Freshness.PAST)
        return Offers.READS if may_be_seen else Offers.NOTHING


def _counter(name: str, text: str) -> Any:
    """A number that only grows, with its name and help on /metrics."""
    return field(default=0, metadata={"name": f"zketcd_{name}", "help": text})


@dataclass(slots=True)
class Stats:
    """What the log counts since the start of this server. All numbers but `round_trip` only grow."""

    sent_entries: int = _counter("log_entries_appended", "log entries that this proxy appended")
    sent_requests: int = _counter("log_requests_appended", "requests in the entries that this proxy appended")
    sent_bytes: int = _counter("log_bytes_appended", "bytes of the entries that this proxy appended")
    applied_entries: int = _counter(
        "log_entries_applied", "log entries of all proxies that this proxy applied"
    )
    applied_requests: int = _counter(
        "log_requests_applied", "requests in the entries that this proxy applied"
    )
    long_requests: int = _counter(
        "log_long_requests", "of these, those that took it longer than a slice of 5 ms"
    )
    long_seconds: float = _counter("log_long_requests_seconds", "time in which it applied these")
    applied_bytes: int = _counter("log_bytes_applied", "bytes of the entries that this proxy applied")
    resent: int = _counter("log_entries_resent", "appends sent again because their outcome was unknown")
    combined_txns: int = _counter("log_combined_txns", "Txns in which this proxy appended entries of several")
    combined_entries: int = _counter("log_entries_combined", "log entries in these Txns")
    offered_entries: int = _counter(
        "log_entries_offered", "log entries that this proxy handed to another one"
    )
    offers_refused: int = _counter("log_offers_refused", "of these, those that it appended itself after all")
    replaced: int = _counter(
        "log_entries_replaced",
        "entries that etcd refused, replaced by one without the requests that need space",
    )
    reloads: int = _counter(
        "log_reloads",
        "times that the state was loaded again: it was wrong, or entries that it lacked were truncated",
    )
    disagreements: int = _counter(
        "log_digest_disagreements", "entries whose digest differed from this proxy's own"
    )
    incarnations: int = _counter(
        "incarnations", "incarnations that this process has had: it takes a new one when its lease has ended"
    )
    growth_refused: int = _counter(
        "growth_refused", "requests refused for the reserve of etcd's quota, or for the last room"
    )
    applied_cost: int = 0  # of the entries, as `Apply.cost` counts it
    entry_requests: Histogram = field(default_factory=Histogram)  # requests of each entry sent
    round_trip: RoundTrip = field(default_factory=RoundTrip)  # of Txns, by which the window is chosen
    # Requests of this proxy's clients, by the path of the budget that has refused them.
    throttled: Counter[str] = field(default_factory=Counter)

    def metrics(self) -> list[PlainMetric]:
        """The counters that have a name on /metrics."""
        return [
            PlainMetric(each.metadata["name"], "counter", each.metadata["help"], getattr(self, each.name))
            for each in fields(self)
            if each.metadata
        ]


class Pressure(NamedTuple):
    """etcd is nearly full: the reserve of its quota is touched. Sizes in bytes."""

    reserve: int
    room: int  # of the quota that is not in use
    snapshot: int  # what one more snapshot takes at most, about, and what has to stay free besides
    worth: int  # snapshots that free more than this are written
    is_last: bool = False  # the room is kept for that snapshot


class Combined(NamedTuple):
    """With which proxy this one appends its entries."""

    by: str = ""  # the incarnation of the proxy that appends them: this one's if it combines; "" if each does
    why: str = ""  # why this one appends them itself, one of a few texts; "" if it does not


class LogStatus(NamedTuple):
    """A proxy's end of the log at one moment; `living`, `peers` and `stats` are live."""

    living: LivingProxies  # the living proxies
    peers: Peers  # what the other proxies' entries show
    stats: Stats
    incarnation: str = ""  # the name under which this proxy appends, or did so last
    is_registered: bool = False  # whether there is an incarnation that can append
    is_full: bool = False  # whether etcd's quota was used up when it last answered an append
    pressure: Pressure | None = None  # None unless etcd is nearly full
    record: TreeRecord | None = None  # the tree's record as last seen
    position: int = 0  # of the last entry applied
    backlog: int = 0  # items of the log that wait to be applied
    outstanding: int = 0  # requests of this proxy without an outcome
    unanswered: int = 0  # entries that may not be in the log yet
    age: float = 0.0  # how many seconds old the state may be
    replayed: tuple[int, int] = (0, 0)  # bytes and cost that the last load replayed after its snapshot
    fell_back: bool = False  # whether the last load could not use the current snapshot
    combined: Combined = Combined()
    standby_silence: float | None = None  # seconds since it was heard; None: clients are served without one
    lag: Lag | None = None  # how far it is behind, as `zketcd follow` has said

    @property
    def is_eldest(self) -> bool:
        """Whether this proxy is the eldest living one."""
        return self.living.eldest == self.incarnation
