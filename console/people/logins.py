"""Who is logged in, which identities each has added, and a request of one. Kept in memory only.

Times are seconds of a monotonic clock, which is an argument.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from proxy.state.auth.scheme import Identities, Identity

_IDLE = 3600.0  # seconds without a request after which a login is over
_LONGEST = 12 * 3600.0
_MOST = 200  # logins; of the address that has most of them, the one that is idle for longest gives way
_MOST_IDENTITIES = 20
_TOKEN_BYTES = 32


class Login:
    """One browser of one user. The user is "" where the console needs no login."""

    __slots__ = ("began", "identities", "is_over", "seen", "source", "token", "user")

    def __init__(self, token: str, user: str, now: float, source: str = "") -> None:
        self.token = token
        self.user = user
        self.source = source  # the browser's host or network
        self.began = self.seen = now
        self.identities: Identities = ()
        self.is_over = False

    def add(self, identities: Identities) -> None:
        """Be these as well, as by the client's addauth. Raises ValueError if they are too many."""
        together = tuple(dict.fromkeys((*self.identities, *identities)))
        if len(together) > _MOST_IDENTITIES:
            raise ValueError(f"a login has {_MOST_IDENTITIES} identities at most")
        self.identities = together

    @property
    def names(self) -> list[str]:
        """The identities without what proves them."""
        return [_name(identity) for identity in self.identities]


def _name(identity: Identity) -> str:
    return (
        identity.scheme
        if identity.scheme == "super"
        else f"{identity.scheme}:{identity.id.partition(':')[0]}"
    )


class Logins:
    """All of one console."""

    def __init__(self, ended: Callable[[Login], None] = lambda _login: None) -> None:
        """`ended` is called with each login that is over, when that is noticed."""
        self._ended = ended
        self._by_token: dict[str, Login] = {}

    def begin(self, user: str, now: float, source: str = "") -> Login:
        """A user has logged in, from this host or network."""
        self._forget(now)
        logins = self._by_token.values()
        if len(logins) >= _MOST:
            (busiest, _), *_ = Counter(login.source for login in logins).most_common(1)
            self.end(
                min((login for login in logins if login.source == busiest), key=lambda login: login.seen)
            )
        login = Login(secrets.token_urlsafe(_TOKEN_BYTES), user, now, source)
        self._by_token[login.token] = login
        return login

    def find(self, token: str | None, now: float) -> Login | None:
        """The login of a cookie; None if it is over, or never was."""
        login = self._by_token.get(token or "")
        if login is None:
            return None
        if _is_over(login, now):
            self.end(login)
            return None
        login.seen = now
        return login

    def end(self, login: Login) -> None:
        """A user has logged out."""
        self._by_token.pop(login.token, None)
        login.is_over = True
        self._ended(login)

    def _forget(self, now: float) -> None:
        for login in [each for each in self._by_token.values() if _is_over(each, now)]:
            self.end(login)


def _is_over(login: Login, now: float) -> bool:
    return now - login.seen > _IDLE or now - login.began > _LONGEST


Body = dict[str, Any]


class Refused(Exception):
    """A request was refused, and changed nothing; `status` is that of HTTP."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Call(NamedTuple):
    """A request to the console, once it is known who asks."""

    login: Login
    query: Mapping[str, str]
    values: Mapping[str, Any]  # the JSON of a POST
    address: str  # the browser's
    is_gone: Callable[[], bool]  # whether it has closed the connection
