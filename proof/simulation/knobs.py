"""What differs between simulated worlds besides their faults: settings and limits, drawn from the seed."""

from random import Random
from typing import NamedTuple

from proxy.frontend.limits import LIMITS, Limits
from proxy.server import Tuning
from proxy.state.pause import LENGTHS, Lengths

#: Work in slices pauses at each step, and each read that can take long is answered in slices.
_SHORTEST = Lengths(every=1, at_once=-1, decoded_at_once=0)
#: Few replies are kept, few reads are made ahead of a write, and each heavy read makes room for others.
_TIGHT = Limits(large_reply=64, owed=256, stretch=0, ahead=2, heavy_weight=1)
#: Users that may authenticate by SASL, with their names as passwords.
USERS = ("ann", "bob")
#: Of the nodes of `features`, whose clients ask for about a write a second.
_BUDGETS = (
    ("",),
    ("/f=2/s",),
    ("/f=2/s,40B/s,/f/a=1/s", "/f=1/s,/f/limited=9B/s"),
    ("/f/a=5B/s,/f/b=1/s", "", "/f/a=1/s,/f/b=3B/s,/f/limited=1/s"),
)
QUOTA = 8 << 30  # bytes, much more than a world needs
_LEASES = (2, 5, 5, 10)
_CALM_LEASES = (5, 10)
_CALM_TICKS = (2000, 3000)


class Knobs(NamedTuple):
    """The settings of one world."""

    proxies: int
    tick: int = 2000  # ms
    leases: tuple[int, ...] = (5,)  # seconds, of each proxy in turn
    staleness: int = 10  # seconds
    snapshot_requests: int = 300
    outstanding: int = 1000  # requests of all clients together, --global-outstanding-limit
    enforces_quotas: bool = False
    window: tuple[int, int] = (2, 8)  # Txns in flight, at least and at most
    lengths: Lengths = LENGTHS
    combining: int = 0  # so many proxies take the entries of others, --peer-listen
    budgets: tuple[str, ...] = ("",)  # of each proxy in turn, --budget
    limits: Limits = LIMITS
    quota: int = QUOTA  # bytes of etcd's database, --quota-backend-bytes
    compaction: float = 0.0  # seconds, --auto-compaction-retention; 0: etcd compacts at faults only
    #: Share of the time after which the servers are upgraded, and the tree's level raised; inf: never.
    upgrade: float = 0.5
    #: Share of the time after which a backup is made, which is restored at the end; 1: none is.
    backup: float = 1.0

    @property
    def options(self) -> list[str]:
        """The options that all servers have."""
        return [
            f"--tick-time={self.tick}",
            f"--max-staleness={self.staleness}",
            f"--snapshot-log-requests={self.snapshot_requests}",
            f"--global-outstanding-limit={self.outstanding}",
            f"--enforce-quota={str(self.enforces_quotas).lower()}",
        ]

    @property
    def tuning(self) -> Tuning:
        """What no option sets; the levels are those of each release."""
        return Tuning(lengths=self.lengths, window=self.window, limits=self.limits)

    def options_of(self, number: int) -> list[str]:
        """The options of one server. Others may have other budgets: the last one that starts decides."""
        lease = self.leases[number % len(self.leases)]
        budgets = self.budgets[number % len(self.budgets)]
        peers = ["--peer-listen=127.0.0.1:2191"] if 0 < number <= self.combining else []
        users = [f"--sasl-user={user}:{user}" for user in USERS]
        return [*self.options, f"--proxy-lease={lease}", *peers, *users, f"--budget={budgets}"]

    def _combining(self) -> str:
        return f" {self.combining} take others' entries," if self.combining else ""

    def _room(self) -> str:
        if self.quota == QUOTA:
            return ""
        return f" etcd's quota {self.quota // 1000} kB, compaction each {self.compaction:.0f} s,"

    def __str__(self) -> str:
        """On one line, for people."""
        least, most = self.window
        leases = " or ".join(map(str, self.leases))
        budgets = " or ".join(each or "none" for each in self.budgets)
        return (
            f"{self.proxies} proxies, tick {self.tick} ms, lease {leases} s,"
            f" staleness {self.staleness} s, a snapshot each {self.snapshot_requests} requests,"
            f" window {least} to {most},{self._combining()}"
            f" at most {self.outstanding} outstanding requests,"
            f" {'shortest' if self.lengths == _SHORTEST else 'usual'} slices,"
            f" {'tight' if self.limits == _TIGHT else 'usual'} limits,"
            f"{' quotas enforced,' if self.enforces_quotas else ''}"
            f"{self._room()} budgets {budgets}"
            + (f", level raised after {self.upgrade:.0%}" if self.upgrade <= 1 else "")
            + (f", backup after {self.backup:.0%}" if self.backup < 1 else "")
        )


def drawn(seed: int, rng: Random) -> Knobs:
    """Draw the knobs of a stormy world."""
    # With little room the tree meets the reserve, and clients have to delete nodes. Sources of their
    # own leave the other knobs as they are.
    room, peers, other = Random(f"{seed}/room"), Random(f"{seed}/peers"), Random(f"{seed}/lease")
    proxies = rng.randint(2, 4)
    quota = room.choice((QUOTA, QUOTA, 400_000, 800_000))
    return Knobs(
        proxies=proxies,
        tick=rng.choice((500, 1000, 2000)),
        leases=(rng.choice(_LEASES), other.choice(_LEASES)),
        staleness=rng.choice((4, 10, 10, 20)),
        snapshot_requests=rng.choice((100, 300, 1000)),
        outstanding=rng.choice((1, 10, 1000)),
        enforces_quotas=rng.random() < 0.7,
        window=rng.choice(((1, 1), (2, 8), (2, 8), (8, 8))),
        lengths=_lengths(seed),
        combining=peers.choice((0, 0, 1, proxies, proxies)),
        budgets=_budgets(rng),
        limits=rng.choice((LIMITS, _TIGHT)),
        quota=quota,
        compaction=0.0 if quota == QUOTA else room.choice((2.0, 5.0)),
        upgrade=rng.choice((0.0, rng.random(), rng.random())),
        backup=rng.choice((1.0, 1.0, rng.random())),
    )


def drawn_calm(seed: int, rng: Random) -> Knobs:
    """Those of a calm world, in which clients have longer timeouts."""
    return drawn(seed, rng)._replace(
        tick=rng.choice(_CALM_TICKS),
        leases=(rng.choice(_CALM_LEASES),),
        snapshot_requests=rng.choice((100, 300)),
        quota=QUOTA,
        compaction=0.0,
    )


def usual(seed: int, proxies: int) -> Knobs:
    """Those of a server without options, for a world that is no campaign's."""
    return Knobs(proxies, lengths=_lengths(seed))


def _budgets(rng: Random) -> tuple[str, ...]:
    """None in a third of the worlds, and in some of the others."""
    limited = rng.choice((False, True, True))
    drawn = rng.choice(_BUDGETS)
    return drawn if limited else ("",)


def _lengths(seed: int) -> Lengths:
    return _SHORTEST if seed % 2 else LENGTHS
