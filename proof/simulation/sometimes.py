"""Branches that matter and are seldom taken: a campaign that never takes one of them proves little of it."""

from collections import Counter
from collections.abc import Mapping

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
LENT = "growth that the reserve has room for"
EPHEMERAL = "an ephemeral node that the reserve has room for"
GIVES_SPACE = "a snapshot that gives space"
WHOLE_AGAIN = "a reserve that is whole again"
COMBINED = "entries of several proxies in one Txn"
REFUSED = "entries that their combiner refuses"
UNCERTAIN = "entries that their combiner may not have appended"
CHOSEN = "another choice between combined and direct appends"
BETWEEN = "a client that came between the sockets and the freeze"
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
    LENT,
    EPHEMERAL,
    GIVES_SPACE,
    WHOLE_AGAIN,
    COMBINED,
    REFUSED,
    UNCERTAIN,
    CHOSEN,
    BETWEEN,
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

    def reached(self, branch: str) -> None:
        """A server has taken a branch: its name is the one in the code."""
        assert branch in BRANCHES, f"{branch!r} is no branch that is known"
        self._counts[branch] += 1


def never_taken(counts: Mapping[str, int], stormy_hours: float) -> list[str]:
    """Branches that so many hours should have taken, and have not."""
    if stormy_hours < ENOUGH_HOURS:
        return []
    return [branch for branch in BRANCHES if not counts.get(branch)]
