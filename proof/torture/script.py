"""Which faults come, for how long, and whether a client dies meanwhile: by the seed alone. Pure.

The same seed and kinds give the same script to every system, however long it takes to recover.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

ALONE = frozenset(("restore", "password"))
"""Kinds that need all members of etcd, or its operator, so that no other fault lasts meanwhile."""
HOLDS = (1.0, 3.0, 6.0, 12.0)  # seconds that a fault lasts
_QUIET = (1.0, 2.0)  # seconds between a recovery and the next fault
_DEATHS = 0.2  # of the episodes have a client die


class Scene(NamedTuple):
    """One episode, as it is planned."""

    kinds: list[str]
    hold: float
    """Seconds that its faults last."""
    dies: bool
    """Whether a client dies."""
    quiet: float
    """Seconds between the recovery and the next fault."""


class Script:
    """Each kind once, in the seed's order, and then again; sometimes two at once."""

    def __init__(
        self, chance: random.Random, kinds: Sequence[str], pairs: float, holds: Sequence[float] = ()
    ) -> None:
        """`pairs`: how many of the episodes have two faults, from 0 to 1."""
        self._random = chance
        self._kinds = kinds
        self._pairs = pairs
        self._holds = holds or HOLDS
        self._left: list[str] = []

    def next(self) -> Scene:
        """The next episode."""
        kinds = self._choose()
        chance = self._random
        return Scene(kinds, chance.choice(self._holds), chance.random() < _DEATHS, chance.uniform(*_QUIET))

    def _choose(self) -> list[str]:
        """One or two of the kinds."""
        in_pairs = [kind for kind in self._kinds if kind not in ALONE]
        if self._pairs and len(in_pairs) > 1 and self._random.random() < self._pairs:
            return self._random.sample(in_pairs, 2)
        if not self._left:
            self._left = list(self._kinds)
            self._random.shuffle(self._left)
        return [self._left.pop()]
