"""The level of the rules by which requests are evaluated.

Two releases that evaluate one request differently would make two different trees of one log. So whatever
changes an outcome (also how leniently a request is decoded) gets a new level, and the code for a level never
changes what it does. docs/upgrading.md says how long an old level is
supported.
"""

from collections.abc import Iterable

#: The levels whose rules this release knows.
KNOWN = frozenset((1,))
#: The level of a new tree.
NEWEST = 1


class UnknownLevel(Exception):
    """The log raises the tree to a level whose rules this release does not know."""

    def __init__(self, level: int, known: Iterable[int]) -> None:
        super().__init__(
            f"the tree's semantics are at level {level}, and this release knows {sorted(known)}: "
            "start a newer release"
        )
        self.level = level
