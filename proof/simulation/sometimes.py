"""Branches that matter and are seldom taken: a campaign that never takes one of them proves little of it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from proxy.log.log import Log
from proxy.log.outbox import Outbox
from proxy.log.snapshots import Snapshots
from proxy.log.space import Pressure, Space
from proxy.log.start import _Load
from proxy.state.machine import Machine
from schema.record import SnapshotRef

REPLACEMENT = "a replacement entry"
CARRY_OVER = "a carry-over"
GAP_CLOSES = "a gap that closes"
GAP_STAYS = "a gap that never closes"
RELOAD_IN_WRITE = "a reload during a long write"
EXPIRED_ATTACH = "an attach that meets an expiry"
FALLBACK = "a fallback to the previous snapshot"
OVER_BUDGET = "a request that its budget refuses"
NEARLY_FULL = "a request that the reserve refuses"
LAST_ROOM = "a request that the room for one snapshot refuses"
GIVES_SPACE = "a snapshot that gives space"
WHOLE_AGAIN = "a reserve that is whole again"
BRANCHES = (
    REPLACEMENT,
    CARRY_OVER,
    GAP_CLOSES,
    GAP_STAYS,
    RELOAD_IN_WRITE,
    EXPIRED_ATTACH,
    FALLBACK,
    OVER_BUDGET,
    NEARLY_FULL,
    LAST_ROOM,
    GIVES_SPACE,
    WHOLE_AGAIN,
)
ENOUGH_HOURS = 8.0
"""Stormy hours after which each branch should have been taken."""


class Sometimes:
    """How often each branch was taken in a world."""

    def __init__(self, counts: Counter[str]) -> None:
        """`counts`: what the oracle counts."""
        self._counts = counts

    @property
    def taken(self) -> dict[str, int]:
        """The branches that were taken."""
        return {branch: self._counts[branch] for branch in BRANCHES if self._counts[branch]}

    def note(self, branch: str) -> None:
        """It is taken."""
        self._counts[branch] += 1

    @contextmanager
    def observed(self) -> Iterator[None]:
        """Note those that only the servers know of."""
        replace, distrust, confirm = Outbox._replace, Log.distrust, _Load._confirm
        count, learned, gives_space = Space.count, Space.learned, Snapshots._gives_space

        def replaced(*arguments: Any, **options: Any) -> None:
            self.note(REPLACEMENT)
            replace(*arguments, **options)

        def distrusted(log: Log) -> None:
            if not log.applier.worker.is_whole:
                self.note(RELOAD_IN_WRITE)
            distrust(log)

        def confirmed(load: _Load, machine: Machine, base: SnapshotRef | None, lost: SnapshotRef) -> None:
            confirm(load, machine, base, lost)
            if base is not None:
                self.note(FALLBACK)

        def counted(space: Space) -> None:
            self.note(LAST_ROOM if space.pressure is not None and space.pressure.is_last else NEARLY_FULL)
            count(space)

        def has_learned(space: Space, *sizes: Any) -> float:
            was_short = space.pressure is not None
            interval = learned(space, *sizes)
            if was_short and space.pressure is None:
                self.note(WHOLE_AGAIN)
            return interval

        def gave_space(snapshots: Snapshots, pressure: Pressure | None) -> bool:
            gives = gives_space(snapshots, pressure)
            if gives:
                self.note(GIVES_SPACE)
            return gives

        Space.count = counted  # type: ignore[assignment, method-assign]
        Space.learned = has_learned  # type: ignore[assignment, method-assign]
        Snapshots._gives_space = gave_space  # type: ignore[assignment, method-assign]
        _Load._confirm = confirmed  # type: ignore[assignment, method-assign]
        Outbox._replace = replaced  # type: ignore[method-assign]
        Log.distrust = distrusted  # type: ignore[assignment, method-assign]
        try:
            yield
        finally:
            Space.count = count  # type: ignore[method-assign]
            Space.learned = learned  # type: ignore[method-assign]
            Snapshots._gives_space = gives_space  # type: ignore[method-assign]
            _Load._confirm = confirm  # type: ignore[method-assign]
            Outbox._replace = replace  # type: ignore[method-assign]
            Log.distrust = distrust  # type: ignore[method-assign]


def never_taken(counts: Mapping[str, int], stormy_hours: float) -> list[str]:
    """Branches that so many hours should have taken, and have not."""
    if stormy_hours < ENOUGH_HOURS:
        return []
    return [branch for branch in BRANCHES if not counts.get(branch)]
