"""How many passwords may be tried. Pure: the clock is an argument, in seconds."""

from collections import deque

_WHILE = 60.0  # seconds
_PER_ADDRESS = 5
_IN_ALL = 60


class Throttle:
    """The tries of the last minute that were not right."""

    def __init__(self) -> None:
        self._tries: deque[tuple[float, str, str]] = deque()

    def wait(self, address: str, now: float) -> float:
        """How many seconds this address has to wait before it may try; 0 for none."""
        while self._tries and now - self._tries[0][0] >= _WHILE:
            self._tries.popleft()
        own = [when for when, who, _ in self._tries if who == address]
        if len(own) >= _PER_ADDRESS:
            return own[-_PER_ADDRESS] + _WHILE - now
        if len(self._tries) >= _IN_ALL:
            return self._tries[-_IN_ALL][0] + _WHILE - now
        return 0.0

    def tried(self, address: str, user: str, now: float) -> None:
        """A password is being tried: it counts until it is found right, also while that is found out."""
        self._tries.append((now, address, user))

    def succeeded(self, address: str, user: str) -> None:
        """The password was right: what this address tried before for this user is forgiven.

        Tries for other users still count: else a user with a login could try any number of their passwords.
        """
        self._tries = deque(each for each in self._tries if each[1:] != (address, user))
