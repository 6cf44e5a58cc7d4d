"""How far the other proxies had come when they sent their last entries. Pure; clocks are arguments.

An entry names its sender's last checkpoint. A proxy has one every CHECKPOINT_EVERY entries, so the distance
is known to that many entries, and only for proxies that have sent something.
"""

from typing import NamedTuple


class Lag(NamedTuple):
    """One proxy at the time of its last entry."""

    behind: int  # entries that it had not applied at most; 0 if it named no checkpoint so far
    heard: int  # when its entry was applied here, in milliseconds since 1970


class Lags:
    """The other proxies, by incarnation."""

    def __init__(self) -> None:
        self._seen: dict[str, Lag] = {}

    def note(self, incarnation: str, checkpoint: int, entries: int, now: int) -> None:
        """An entry is applied `now` as number `entries` of the tree; its sender had reached `checkpoint`."""
        self._seen[incarnation] = Lag(max(0, entries - checkpoint) if checkpoint else 0, now)

    def forget(self, incarnation: str) -> None:
        """A proxy is gone."""
        self._seen.pop(incarnation, None)

    def get(self, incarnation: str) -> Lag | None:
        """What is known of a proxy; None if it has sent nothing since this one started."""
        return self._seen.get(incarnation)
