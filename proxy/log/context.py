"""What the parts of a proxy's end of the log share: the settings, and what each of them works with."""

from collections.abc import Collection, Container
from typing import NamedTuple, Protocol

from proxy.etcd.interface import Etcd
from proxy.log.status import Stats
from proxy.options import defaults
from proxy.state.level import KNOWN
from proxy.state.machine import Machine
from proxy.state.outcome import CarriedOver, SessionChange
from proxy.state.pause import LENGTHS, NO_PAUSE, Lengths, Pause
from proxy.support.environment import HOST, Environment
from proxy.support.tasks import Tasks
from schema.keys import Keyspace
from schema.record import Home, PeerPort

_PER_TXN = 0.0025  # seconds of round trip for each Txn in flight; 8 at 20 ms


def txns_in_flight(round_trip: float, least: int, most: int) -> int:
    """How many Txns may be in flight: enough to keep a connection with this round trip (seconds) busy."""
    return max(least, min(most, int(round_trip / _PER_TXN) + 1))


class CombineWaits(NamedTuple):
    """Times of combined appends, in seconds."""

    poll: float = 1.0  # between two looks at which proxy combines
    idle_after: float = 1.0  # since another proxy's last entry: then it is not worth combining
    answer_within: float = 0.25  # else an entry that the stream has not shown is appended directly
    retry_after: float = 10.0  # until a combiner that was slow, or failed, gets entries again


class LogSettings(NamedTuple):
    """What an operator can set, what follows from the release, and numbers that only tests and proofs set."""

    # Without keep-alives for so long a proxy counts as dead; etcd may grant more.
    lease_seconds: int = defaults.LEASE
    rules: int = 0  # schema.entry.Rules of the requests that this proxy sends
    levels: Collection[int] = KNOWN
    version: str = ""  # of this release, for people
    home: Home = Home()  # where this proxy runs
    peer_port: PeerPort = PeerPort()  # where it takes entries of other proxies
    # A proxy stops serving whose state is older than this, in seconds, or that has not heard of the standby
    # for so long.
    max_staleness: float = defaults.MAX_STALENESS
    standby_within: int = defaults.STANDBY_WITHIN
    archives: bool = False  # this proxy can archive the log
    reserve: int = defaults.ETCD_RESERVE  # percent of etcd's quota
    lengths: Lengths = LENGTHS  # how long work on the state may be
    # Appends in flight, at least and at most. With more near etcd, the proxy and etcd wait for each other.
    window: tuple[int, int] = (2, 8)
    combine_waits: CombineWaits = CombineWaits()


class Context(NamedTuple):
    """What each part of one proxy's end of the log works with."""

    etcd: Etcd
    keys: Keyspace
    tasks: Tasks
    machine: Machine  # the state
    stats: Stats
    settings: LogSettings = LogSettings()
    environment: Environment = HOST


class SessionKeeper(Protocol):
    """Keeps the sessions of this proxy, and those of dead proxies (`frontend.sessions`, above the log).

    All calls are in the order of the log.
    """

    def session_changed(self, change: SessionChange) -> None:
        """A session began, moved to another proxy, or ended."""

    def all_changed(self, carried: CarriedOver) -> None:
        """Sessions were carried over. Pauses, but not where processes take over from each other."""

    def registered(self, incarnation: str) -> None:
        """This proxy appends under this name from now on."""

    def carried_over(self, former: str) -> None:
        """No session is attached any more to this incarnation, which is over."""

    def proxy_came(self, incarnation: str) -> None:
        """A proxy lives."""

    def proxy_gone(self, incarnation: str, lease: float) -> None:
        """A proxy's key is gone: it stopped, or died. `lease`: its seconds, as `schema.record.ProxyValue`."""

    def loaded(self, living: Container[str], pause: Pause = NO_PAUSE) -> None:
        """The state was loaded, at the start or again. `living`: the living incarnations."""
