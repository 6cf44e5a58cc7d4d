"""How many passwords may be tried. Pure: the clock is an argument, in seconds.

A source is an address, or a browser by the cookie that it got with a login. Sources from which a user has
logged in count alone: guesses of that user's password from elsewhere cannot keep the user out.
"""

from collections import deque

_WHILE = 60.0  # seconds
_PER_SOURCE = 5
_PER_USER = 20  # from sources where the user has never logged in
_IN_ALL = 120  # from such sources: to find out whether a password is right takes some 50 ms
_MOST_KNOWN = 1000


class Throttle:
    """The tries of the last minute that were not right."""

    def __init__(self) -> None:
        self._tries: deque[tuple[float, str, str]] = deque()
        self._known: dict[tuple[str, str], None] = {}  # source and user; the last login last

    def knows(self, source: str, user: str) -> bool:
        """Whether this user has logged in from there."""
        return (source, user) in self._known

    def wait(self, source: str, user: str, now: float) -> float:
        """How many seconds this source has to wait before it may try; 0 for none."""
        while self._tries and now - self._tries[0][0] >= _WHILE:
            self._tries.popleft()
        if self.knows(source, user):
            limits = [(_PER_SOURCE, self._times(source=source, user=user))]
        else:
            limits = [
                (_PER_SOURCE, self._times(source=source)),
                (_PER_USER, self._times(user=user, strange=True)),
                (_IN_ALL, self._times(strange=True)),
            ]
        waits = [times[-most] + _WHILE - now for most, times in limits if len(times) >= most]
        return max(waits, default=0.0)

    def _times(self, source: str = "", user: str = "", *, strange: bool = False) -> list[float]:
        """When was tried: by this source, for this user; `strange`: where the user has never logged in."""
        return [
            when
            for when, whence, whom in self._tries
            if source in ("", whence) and user in ("", whom) and not (strange and self.knows(whence, whom))
        ]

    def tried(self, source: str, user: str, now: float) -> None:
        """A password is being tried: it counts until it is found right, also while that is found out."""
        self._tries.append((now, source, user))

    def succeeded(self, source: str, user: str) -> None:
        """The password was right: what this source tried before for this user is forgiven.

        Tries for other users still count: else a user with a login could try any number of their passwords.
        """
        self._tries = deque(each for each in self._tries if each[1:] != (source, user))
        self._known.pop((source, user), None)
        self._known[source, user] = None
        if len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]
