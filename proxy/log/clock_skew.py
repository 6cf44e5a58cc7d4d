"""How far the clocks of other proxies' hosts are from ours, as their entries show.

Pure; clocks are arguments. An entry carries its sender's clock and is applied a little later. The smallest
difference within some time is that of the clocks. Larger ones include the time of transport and application.
"""

_WHILE = 60_000  # ms


class ClockSkew:
    """The differences to each proxy, in milliseconds."""

    def __init__(self) -> None:
        # By incarnation: the smallest difference in this while, in the one before, and when this one began.
        self._seen: dict[str, tuple[int, int, int]] = {}

    def note(self, incarnation: str, clock: int, now: int) -> None:
        """An entry of another proxy is applied `now`; `clock` is its sender's. Both in ms."""
        difference = now - clock
        current, previous, began = self._seen.get(incarnation, (difference, difference, now))
        if now - began > _WHILE:
            current, previous, began = difference, current, now
        self._seen[incarnation] = (min(current, difference, key=abs), previous, began)

    def forget(self, incarnation: str) -> None:
        """A proxy is gone."""
        self._seen.pop(incarnation, None)

    @property
    def worst(self) -> float:
        """Seconds; the largest difference to any proxy."""
        return max(
            (abs(min(current, previous, key=abs)) / 1000 for current, previous, _ in self._seen.values()),
            default=0.0,
        )
