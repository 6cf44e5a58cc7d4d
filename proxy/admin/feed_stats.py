"""What a proxy's feeds of changes (`console.feeds`) count, for metrics."""

from dataclasses import dataclass, field
from typing import Protocol


class Feed(Protocol):
    """One reader."""

    @property
    def behind(self) -> int:
        """How many zxids it has not been sent yet."""


@dataclass(eq=False, slots=True)
class FeedStats:
    """The feeds that are open, and counts since the start."""

    open: list[Feed] = field(default_factory=list)
    sent: int = 0  # changes
    refused: int = 0  # requests, since there were too many feeds, or too many that read the log

    @property
    def behind(self) -> int:
        """How many zxids the slowest one has not been sent yet."""
        return max((each.behind for each in self.open), default=0)
