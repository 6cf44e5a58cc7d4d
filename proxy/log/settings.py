"""The settings of a proxy that concern its part in the log."""

from collections.abc import Collection
from typing import NamedTuple

from proxy.log.follow.staleness import LIMIT
from proxy.state.level import KNOWN
from proxy.state.pause import LENGTHS, Lengths
from schema.record import Home


class LogSettings(NamedTuple):
    """What an operator can set, and what follows from the release."""

    lease_seconds: int = 5  # without keep-alives for so long a proxy counts as dead; etcd may grant more
    rules: int = 0  # schema.entry.Rules of the requests that this proxy sends
    levels: Collection[int] = KNOWN
    version: str = ""  # of this release, for people
    home: Home = Home()  # where this proxy runs
    max_staleness: float = LIMIT  # seconds; a proxy whose state is older than this stops serving
    archives: bool = False  # this proxy can archive the log
    reserve: int = 10  # percent of etcd's quota
    lengths: Lengths = LENGTHS  # how long work on the state may be
