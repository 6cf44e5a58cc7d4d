"""The other proxies: which of them live, by age, and what their entries show. Pure; clocks are arguments.

An entry carries its sender's clock and is applied a little later, so the smallest difference within a period
is nearest to that of the clocks. A clock that jumps ahead shows with the next entry; one that jumps back,
when no entry from before is left in the last two periods. An entry also names its sender's last checkpoint.
A proxy takes one every CHECKPOINT_EVERY entries, so how far it is behind is known to that many entries, and
only if it has sent an entry.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from schema.errors import BadValue
from schema.record import Home, ProxyValue, decode_proxy

_PERIOD = 5_000  # ms
_DIFFERS = 5_000  # ms, as in the alert ZketcdClockSkew


class LivingProxy(NamedTuple):
    """A living proxy, or a command that visits the tree."""

    incarnation: str
    revision: int  # at which its key was put
    value: ProxyValue  # what it says of itself; without levels if this release cannot read it

    def __str__(self) -> str:
        """The name for messages."""
        home = self.value.home
        where = " ".join(filter(None, (home.host, home.listen)))
        return f"{self.incarnation} ({where})" if where else self.incarnation


def living_proxy(incarnation: str, revision: int, raw: bytes) -> LivingProxy:
    """The proxy with this value of its key. If it cannot be read, the version says why."""
    try:
        value = decode_proxy(raw)
    except BadValue as error:
        value = ProxyValue((), f"unknown: {error}")
    return LivingProxy(incarnation, revision, value)


class LivingProxies:
    """All living proxies. The eldest is the one whose key was put first."""

    def __init__(self) -> None:
        self._by_age: list[LivingProxy] = []

    def __len__(self) -> int:
        return len(self._by_age)

    def __iter__(self) -> Iterator[LivingProxy]:
        return iter(self._by_age)

    def __contains__(self, incarnation: str) -> bool:
        return any(proxy.incarnation == incarnation for proxy in self._by_age)

    @property
    def servers(self) -> list[LivingProxy]:
        """All but commands."""
        return [proxy for proxy in self._by_age if not proxy.value.visits]

    @property
    def homes(self) -> dict[str, Home]:
        """Where they run, by incarnation."""
        return {proxy.incarnation: proxy.value.home for proxy in self.servers}

    @property
    def eldest(self) -> str:
        """The incarnation of the eldest proxy; "" if none lives."""
        return self._by_age[0].incarnation if self._by_age else ""

    @property
    def archiver(self) -> str:
        """The incarnation of the eldest proxy that archives the log; "" if none does."""
        return next((proxy.incarnation for proxy in self._by_age if proxy.value.archives), "")

    @property
    def combiner(self) -> LivingProxy | None:
        """The proxy that appends the entries of all: the eldest, if all have an address for that.

        One without may be of a release that reads the entries of one Txn in another order than they count.
        """
        proxies = self.servers
        return proxies[0] if proxies and all(proxy.value.peer_port.address for proxy in proxies) else None

    def get(self, incarnation: str) -> LivingProxy | None:
        """The living proxy of this name."""
        return next((proxy for proxy in self._by_age if proxy.incarnation == incarnation), None)

    def rank(self, incarnation: str) -> int:
        """How many proxies are older; all of them if this incarnation is not alive."""
        for rank, proxy in enumerate(self._by_age):
            if proxy.incarnation == incarnation:
                return rank
        return len(self._by_age)

    def add(self, proxy: LivingProxy) -> None:
        """A proxy's key was put. Commands are younger than any proxy: the eldest has duties."""
        self.gone(proxy.incarnation)
        self._by_age.append(proxy)
        self._by_age.sort(key=lambda each: (each.value.visits, each.revision))

    def gone(self, incarnation: str) -> None:
        """A proxy's key was deleted."""
        self._by_age = [proxy for proxy in self._by_age if proxy.incarnation != incarnation]


class Peer(NamedTuple):
    """One proxy at the time of its last entry. Times are in milliseconds, `heard` since 1970."""

    behind: int  # at most so many entries it had not applied; 0 if it has named no checkpoint
    heard: int  # when its entry was applied here
    skew: int  # our clock minus its own: the smallest difference in this period,
    former_skew: int  # and in the one before
    began: int  # when this period began

    @property
    def difference(self) -> int:
        """Our clock minus its own: negative if its clock is ahead."""
        return min(self.skew, self.former_skew)

    @property
    def differs(self) -> bool:
        """Whether operators should look at the clocks."""
        return abs(self.difference) > _DIFFERS


class Peers:
    """The other proxies that have sent entries, by incarnation."""

    def __init__(self) -> None:
        self._peers: dict[str, Peer] = {}
        self._differing: set[str] = set()  # whose clocks differ from ours
        #: Called with an incarnation when its clock begins or ceases to differ from ours.
        self.clock_changed: Callable[[str, Peer], None] = lambda _incarnation, _peer: None

    def __iter__(self) -> Iterator[tuple[str, Peer]]:
        return iter(self._peers.items())

    def note(self, incarnation: str, clock: int, checkpoint: int, entries: int, now: int) -> None:
        """An entry is applied at `now` as number `entries` of the tree.

        `clock` and `checkpoint` are its sender's.
        """
        behind = max(0, entries - checkpoint) if checkpoint else 0
        difference = now - clock
        known = self._peers.get(incarnation)
        if known is None:
            peer = Peer(behind, now, difference, difference, now)
        elif now - known.began > _PERIOD:
            peer = Peer(behind, now, difference, known.skew, now)
        else:
            peer = Peer(behind, now, min(known.skew, difference), known.former_skew, known.began)
        self._peers[incarnation] = peer
        skew, former = peer.skew, peer.former_skew
        least = skew if skew < former else former  # `difference`, without calls: this is done for each entry
        if (not -_DIFFERS <= least <= _DIFFERS) != (incarnation in self._differing):
            self._differing ^= {incarnation}
            self.clock_changed(incarnation, peer)

    def forget(self, incarnation: str) -> None:
        """A proxy's key is gone."""
        self._peers.pop(incarnation, None)
        self._differing.discard(incarnation)

    def get(self, incarnation: str) -> Peer | None:
        """The proxy; None if it has sent no entry since this one started."""
        return self._peers.get(incarnation)

    def quiet_for(self, now: int) -> float:
        """For how many seconds no entry of another proxy was applied."""
        return (now - max((peer.heard for peer in self._peers.values()), default=0)) / 1000

    @property
    def clock_skew(self) -> float:
        """Seconds; the largest difference to the clock of any proxy."""
        return max((abs(peer.difference) / 1000 for peer in self._peers.values()), default=0.0)
