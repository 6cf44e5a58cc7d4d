"""Deletions of whole subtrees that wait for a second person. Pure: the clock is an argument, in seconds.

Kept in memory: they are gone when the proxy ends, and each proxy has its own.
"""

from typing import NamedTuple

from proxy.state.auth.scheme import Identities

#: Seconds within which a deletion has to be confirmed.
TIMEOUT = 600.0
_MOST = 20


class Deletion(NamedTuple):
    """What one user wants to delete."""

    number: int
    path: str
    nodes: int  # the one itself included
    mark: bytes  # of these nodes: others in their places have another
    user: str
    identities: Identities  # the user's, as when it was asked for
    login: object  # of the user: when it ends, the deletion goes with it
    until: float


class Approvals:
    """All that wait at one console."""

    def __init__(self) -> None:
        self._waiting: dict[int, Deletion] = {}
        self._last = 0

    def ask(
        self, path: str, nodes: int, mark: bytes, user: str, identities: Identities, login: object, now: float
    ) -> Deletion:
        """Ask for a deletion. Raises ValueError if too many wait."""
        self._forget(now)
        if len(self._waiting) >= _MOST:
            raise ValueError(f"{_MOST} deletions wait for confirmation: confirm or withdraw some first")
        self._last += 1
        asked = Deletion(self._last, path, nodes, mark, user, identities, login, now + TIMEOUT)
        self._waiting[asked.number] = asked
        return asked

    def waiting(self, now: float) -> list[Deletion]:
        """All that may still be confirmed."""
        self._forget(now)
        return list(self._waiting.values())

    def find(self, number: int, now: float) -> Deletion | None:
        """One that may still be confirmed."""
        self._forget(now)
        return self._waiting.get(number)

    def take(self, number: int) -> None:
        """It is confirmed or withdrawn, so it cannot be confirmed again."""
        self._waiting.pop(number, None)

    def drop(self, login: object) -> None:
        """Forget what a login has asked for: its identities are no longer to be used."""
        for asked in [each for each in self._waiting.values() if each.login is login]:
            del self._waiting[asked.number]

    def _forget(self, now: float) -> None:
        for asked in [each for each in self._waiting.values() if each.until <= now]:
            del self._waiting[asked.number]


def refusal(asked: Deletion, user: str, path: str, nodes: int) -> str:
    """Why this user may not confirm it so; "" if they may. Without users, the requester confirms."""
    if user and user == asked.user:
        return "another user has to confirm this: you asked for it"
    if (path, nodes) != (asked.path, asked.nodes):
        return f"the path or the number of nodes is not that of the request: {asked.path}, {asked.nodes}"
    return ""
