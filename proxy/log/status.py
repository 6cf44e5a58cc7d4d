"""What a proxy's end of the log says of itself, to sessions, operators and metrics: plain values. Pure."""

import math
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from proxy.log.living import LivingProxies, Peers
from proxy.support.latency import Histogram, RoundTrip
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


@dataclass(slots=True)
class Stats:
    """What the log counts since the start of this server. All numbers but `round_trip` only grow."""

    sent_entries: int = 0
    sent_bytes: int = 0
    sent_requests: int = 0
    entry_requests: Histogram = field(default_factory=Histogram)  # requests of each entry sent
    round_trip: RoundTrip = field(default_factory=RoundTrip)  # of Txns, by which the window is chosen
    combined_txns: int = 0  # of this proxy, with entries of several
    combined_entries: int = 0  # in these Txns
    offered_entries: int = 0  # of this proxy, handed to another one
    offers_refused: int = 0  # of these, those that this proxy appended itself after all
    applied_entries: int = 0  # of all proxies
    applied_bytes: int = 0
    applied_requests: int = 0
    applied_cost: int = 0  # of the entries, as `Apply.cost` counts it
    long_requests: int = 0  # of all proxies, which took this one more than a slice to apply
    long_seconds: float = 0.0  # of the slices in which these were applied
    resent: int = 0  # Txns sent again since their outcome was unknown
    replaced: int = 0  # own entries, after a refusal; they count as their replacement
    growth_refused: int = 0  # requests refused while etcd is nearly full
    # Requests of this proxy's clients, by the path of the budget that has refused them.
    throttled: Counter[str] = field(default_factory=Counter)
    incarnations: int = 0
    reloads: int = 0  # times that the state was loaded anew
    disagreements: int = 0  # digests in other proxies' entries that differ from ours


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
