"""Endless and finite streams of encoded requests for one connection. Pure: no sockets, no clock."""

import sys
from collections.abc import Callable, Sequence
from typing import Protocol


class Stream(Protocol):
    """The requests of one connection, in order; the low byte of their xids counts from 1."""

    reply_sizes: Sequence[int]
    """Sizes of the successful replies with length prefix; they repeat in this cycle."""

    remaining: int
    """How many requests are left."""

    def take(self, count: int) -> bytes:
        """The next `count` requests as one chunk; count is at most `remaining` and at most 256."""


class RepeatedStream:
    """The same requests again and again, encoded once: for reads and sets."""

    def __init__(self, requests: Sequence[bytes], reply_sizes: Sequence[int]) -> None:
        """`requests` must be a multiple of 256 in number, so that the xids' low bytes keep counting."""
        if len(requests) % 256:
            raise ValueError(f"{len(requests)} requests aren't a multiple of 256")
        self.reply_sizes = reply_sizes
        self.remaining = sys.maxsize
        self._period = len(requests)
        twice = [*requests, *requests]
        self._bytes = b"".join(twice)
        self._ends = [0]
        for request in twice:
            self._ends.append(self._ends[-1] + len(request))
        self._next = 0

    def take(self, count: int) -> bytes:
        """See Stream."""
        start = self._next
        self._next = (start + count) % self._period
        return self._bytes[self._ends[start] : self._ends[start + count]]


class UniqueStream:
    """Requests that differ, made by a function of their number: for creates and deletes."""

    def __init__(
        self, make: Callable[[int], bytes], reply_sizes: Sequence[int], count: int = sys.maxsize
    ) -> None:
        self.reply_sizes = reply_sizes
        self.remaining = count
        self._make = make
        self._next = 0

    def take(self, count: int) -> bytes:
        """See Stream."""
        start = self._next
        self._next = end = start + count
        self.remaining -= count
        if count == 1:
            return self._make(start)
        return b"".join(map(self._make, range(start, end)))
