"""How much clients may write in the naive ZooKeeper: budgets, as docs/budgets.md and decision 0034 say."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from lab.oracle.requests import (
    Create,
    CreateContainer,
    CreateIfNotExists,
    CreateTtl,
    Multi,
    Request,
    SetAcl,
    SetData,
)

_SECOND = 1000  # the unit of time is a millisecond
_DIGITS = "0" * 10  # the name of a sequential node ends with ten of them


@dataclass
class Bucket:
    """What may be spent: of a rate, at most one second's worth."""

    rate: int  # a second; 0: no limit
    left: Fraction
    at: int  # the time of `left`

    def fill(self, now: int) -> None:
        """Refill the budget for the time since the last entry."""
        self.left = min(Fraction(self.rate), self.left + Fraction(self.rate * (now - self.at), _SECOND))
        self.at = now

    @property
    def is_spent(self) -> bool:
        """Whether the budget refuses every write."""
        return self.rate > 0 and self.left <= 0


@dataclass
class NaiveBudgets:
    """All budgets: of each path a bucket of writes, and one of bytes."""

    buckets: dict[str, tuple[Bucket, Bucket]] = field(default_factory=dict)
    #: Milliseconds, on the one clock that all budgets have.
    now: int = 0
    #: What each server's clock lacks to that one.
    behind: dict[str, int] = field(default_factory=dict)

    def entry(self, server: str, clock: int) -> None:
        """A server has written to the log, at this time of its own clock."""
        if not self.buckets:
            return
        time = clock + self.behind.setdefault(server, self.now - clock)
        if time < self.now - _SECOND:
            self.behind[server] = self.now - clock
        self.now = max(self.now, time)

    def set(self, path: str, writes: int, size: int, server: str, clock: int) -> None:
        """Set a budget; one without any limit is removed."""
        if not self.buckets:
            self.now, self.behind = clock, {server: 0}
        self.buckets[path] = (
            Bucket(writes, Fraction(writes), self.now),
            Bucket(size, Fraction(size), self.now),
        )
        if not writes and not size:
            del self.buckets[path]

    def refuses(self, asked: Request) -> bool:
        """Whether one of a request's budgets is spent."""
        for buckets, _ in self._costs(asked):
            for bucket in buckets:
                bucket.fill(self.now)
        return any(bucket.is_spent for buckets, _ in self._costs(asked) for bucket in buckets)

    def take(self, asked: Request) -> None:
        """Take what a request costs, after `refuses`."""
        for (writes, data), size in self._costs(asked):
            writes.left -= 1
            data.left -= size

    def _costs(self, asked: Request) -> list[tuple[tuple[Bucket, Bucket], int]]:
        return [
            (self.buckets[path], size) for written, size in _written(asked) for path in self._above(written)
        ]

    def left(self) -> dict[str, tuple[int, int]]:
        """What is left of each, in thousandths; 0 where there is no limit."""
        for buckets in self.buckets.values():
            for bucket in buckets:
                bucket.fill(self.now)
        return {
            path: (_thousandths(writes), _thousandths(data)) for path, (writes, data) in self.buckets.items()
        }

    def _above(self, path: str) -> Iterator[str]:
        """The paths with budgets that a path lies below, or is."""
        for limited in self.buckets:
            if f"{path}/".startswith(f"{limited}/") or limited == "/":
                yield limited


def _thousandths(bucket: Bucket) -> int:
    return int(bucket.left * 1000) if bucket.rate else 0


def _written(asked: Request) -> Iterator[tuple[str, int]]:
    """The paths that a request writes, and how many bytes to each."""
    if isinstance(asked, Multi):
        for part in asked.ops:
            yield from _written(part)
    elif isinstance(asked, Create | CreateContainer | CreateTtl | CreateIfNotExists):
        yield str(asked.path) + (_DIGITS if asked.flags & 2 else ""), len(asked.data or b"")
    elif isinstance(asked, SetData):
        yield str(asked.path), len(asked.data or b"")
    elif isinstance(asked, SetAcl):
        yield str(asked.path), 0
