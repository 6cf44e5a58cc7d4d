"""A proxy's end of the log as a plain value, for operators and for what a proxy does periodically. Pure."""

from typing import NamedTuple

from proxy.log.append.space import Pressure
from proxy.log.members import Members, Peers
from proxy.log.stats import Stats
from schema.record import TreeRecord


class LogStatus(NamedTuple):
    """A proxy's end of the log at one moment; `members`, `peers` and `stats` are live."""

    members: Members  # the living proxies
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
    unanswered: int = 0  # appends that etcd has not answered
    age: float = 0.0  # how many seconds old the state may be
    replayed: tuple[int, int] = (0, 0)  # bytes and requests that the last load replayed after its snapshot
    fell_back: bool = False  # whether the last load could not use the current snapshot

    @property
    def clock_skew(self) -> float:
        """Seconds; the largest difference between our clock and those of other proxies lately."""
        return self.peers.clock_skew

    @property
    def is_eldest(self) -> bool:
        """Whether this proxy is the eldest living one."""
        return self.members.eldest == self.incarnation
