"""What a proxy knows of etcd at a moment, and of its own place among the proxies: a plain value. Pure."""

import math
from typing import NamedTuple, Protocol

#: Seconds without an answer after which etcd counts as out of reach.
OUTAGE = 3.0
_KEEP_ALIVES = 3  # for each lease time
_LONGEST = 5.0  # as for a lease of this time, at most: answers must be newer than OUTAGE at any moment


def keep_alive_interval(lease: float) -> float:
    """Seconds between two keep-alives of a lease."""
    return min(lease, _LONGEST) / _KEEP_ALIVES


class Contact(NamedTuple):
    """The contact to etcd. Times are in seconds of a monotonic clock."""

    silence: float  # seconds since etcd last answered
    keep_alive_sent: float  # when the last answered keep-alive of the sessions' incarnation was sent
    lease: float  # seconds of the proxy's lease, as granted
    rank: int  # how many living proxies are older than this one
    serving: bool = True  # whether the state may be shown to clients: it is right, and recent
    right: bool = True  # if not, no client may see the state, however long etcd is out of reach
    ended: float = math.inf  # when that incarnation ended, if its sessions are not carried over yet

    @property
    def in_touch(self) -> bool:
        """Whether etcd has answered lately, and the state may be shown."""
        return self.silence <= OUTAGE and self.serving


class Link(Protocol):
    """The log, as far as sessions and operators depend on its contact to etcd."""

    def contact(self) -> Contact:
        """The contact to etcd now."""
