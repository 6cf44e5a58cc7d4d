"""The level of the rules by which requests are evaluated.

If two releases evaluated one request differently, they would make two different trees of one log. So each
change of outcomes (also of how leniently a request is decoded) gets a new level, and the code of a level
never changes its outcomes.
"""

from collections.abc import Iterable

#: The levels whose rules this release knows.
KNOWN = frozenset((1,))
#: The level of a new tree: one that the former release knows too, so that it can still serve the tree.
OF_NEW_TREES = 1


class UnknownLevel(Exception):
    """The log raises the tree to a level whose rules this release does not know."""

    def __init__(self, level: int, known: Iterable[int]) -> None:
        super().__init__(
            f"the tree's semantics are at level {level}, and this release knows {sorted(known)}: "
            "start a newer release"
        )
        self.level = level
