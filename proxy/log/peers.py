"""What the entries of the other proxies show: how far their clocks differ, and how far they have applied.

Pure; clocks are arguments. An entry carries its sender's clock and is applied a little later. The smallest
difference within a period is that of the clocks: larger ones include the time of transport and apply.
An entry also names its sender's last checkpoint. A proxy takes one every CHECKPOINT_EVERY entries, so how far
it is behind is known to that many entries, and only if it has sent an entry.
"""

from typing import NamedTuple

_PERIOD = 60_000  # ms


class Peer(NamedTuple):
    """One proxy at the time of its last entry. Times are in milliseconds, `heard` since 1970."""

    behind: int  # at most so many entries it had not applied; 0 if it has named no checkpoint
    heard: int  # when its entry was applied here
    skew: int  # the smallest difference to its clock in this period,
    former_skew: int  # and in the one before
    began: int  # when this period began

    @property
    def difference(self) -> int:
        """The difference between its clock and ours."""
        return min(self.skew, self.former_skew, key=abs)


class Peers:
    """The other proxies that have sent entries, by incarnation."""

    def __init__(self) -> None:
        self._peers: dict[str, Peer] = {}

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
            skew = min(known.skew, difference, key=abs)
            peer = Peer(behind, now, skew, known.former_skew, known.began)
        self._peers[incarnation] = peer

    def forget(self, incarnation: str) -> None:
        """A proxy's key is gone."""
        self._peers.pop(incarnation, None)

    def get(self, incarnation: str) -> Peer | None:
        """The proxy; None if it has sent no entry since this one started."""
        return self._peers.get(incarnation)

    @property
    def clock_skew(self) -> float:
        """Seconds; the largest difference to the clock of any proxy."""
        return max((abs(peer.difference) / 1000 for peer in self._peers.values()), default=0.0)
