"""The living proxies, in the order of their age. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

from schema.record import Home


class Member(NamedTuple):
    """A living proxy. `revision` is the create_revision of its key, `levels` are those that it applies."""

    incarnation: str
    revision: int
    levels: tuple[int, ...]
    version: str
    archives: bool = False  # the log, if it is the eldest of those that do
    home: Home = Home()

    def __str__(self) -> str:
        """The name for messages."""
        where = " ".join(filter(None, (self.home.host, self.home.listen)))
        return f"{self.incarnation} ({where})" if where else self.incarnation


class Members:
    """All living proxies. The eldest is the one with the smallest create_revision of its key."""

    def __init__(self) -> None:
        self._by_age: list[Member] = []

    def __len__(self) -> int:
        return len(self._by_age)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_age)

    def __contains__(self, incarnation: str) -> bool:
        return any(member.incarnation == incarnation for member in self._by_age)

    @property
    def eldest(self) -> str:
        """The incarnation of the eldest proxy; "" if none lives."""
        return self._by_age[0].incarnation if self._by_age else ""

    @property
    def archiver(self) -> str:
        """The incarnation of the eldest proxy that archives the log; "" if none does."""
        return next((member.incarnation for member in self._by_age if member.archives), "")

    def get(self, incarnation: str) -> Member | None:
        """The living proxy of this name."""
        return next((member for member in self._by_age if member.incarnation == incarnation), None)

    def rank(self, incarnation: str) -> int:
        """How many proxies are older; all of them if this incarnation is not alive."""
        for rank, member in enumerate(self._by_age):
            if member.incarnation == incarnation:
                return rank
        return len(self._by_age)

    def add(self, member: Member) -> None:
        """A proxy's key was put."""
        self.gone(member.incarnation)
        self._by_age.append(member)
        self._by_age.sort(key=lambda each: each.revision)

    def gone(self, incarnation: str) -> None:
        """A proxy's key was deleted."""
        self._by_age = [member for member in self._by_age if member.incarnation != incarnation]
