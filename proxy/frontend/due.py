"""Which of very many things may be due: a look costs those that may be. Pure: the clock is an argument.

As in ZooKeeper's ExpiryQueue each is filed under a second, but under one before which it is not due. What
becomes due later, such as a session whose client was heard, stays where it is: it is filed again when its
second has come.
"""

from heapq import heappop, heappush
from typing import Generic, Protocol, TypeVar


class Filed(Protocol):
    """What can be due."""

    id: int
    second: int  # under which it is filed, or was; any number before that


Item = TypeVar("Item", bound=Filed)


class DueQueue(Generic[Item]):
    """Things by the second before which they are not due. Times are in seconds."""

    def __init__(self) -> None:
        self._by_second: dict[int, dict[int, Item]] = {}
        self._seconds: list[int] = []  # a heap of its keys

    def file(self, item: Item, due: float) -> None:
        """It may be due at this time, and not before. It is filed nowhere else any more."""
        self.remove(item)
        second = item.second = int(due)
        items = self._by_second.get(second)
        if items is None:
            items = self._by_second[second] = {}
            heappush(self._seconds, second)
        items[item.id] = item

    def remove(self, item: Item) -> None:
        """It will not be due, if it is filed."""
        items = self._by_second.get(item.second)
        if items is not None:
            items.pop(item.id, None)

    def take(self, now: float) -> list[Item]:
        """Take out what may be due now, in the order of seconds; those of one as they were filed."""
        taken: list[Item] = []
        while self._seconds and self._seconds[0] <= now:
            taken += self._by_second.pop(heappop(self._seconds)).values()
        return taken
