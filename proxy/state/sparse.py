"""Dicts and sets that had very many items once: they keep the room, and to go over it takes as long as then.

Of a million ephemerals that a session owned, a set needs 8 ms to find the last one, in every getEphemerals.
"""

from collections.abc import Collection
from sys import getsizeof

#: `is_sparse` is worth a call when a multiple of so many items is left, none included.
LOOK = 1024
# Bytes of room for each item. What only grew has 128 at most.
_MOST = 512


def is_sparse(items: Collection[str]) -> bool:
    """Whether they are to be copied: most of the room is empty."""
    return getsizeof(items) > _MOST * len(items)
