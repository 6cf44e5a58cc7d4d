"""Judges whether two servers answered a step alike.

Equal must be: every header's err and xid, every body, every Stat field, every event, their order on each
connection, and where a connection is closed. zxids are compared by their order, times by what they tell about
each other, session ids by who owns them.
"""

from __future__ import annotations

import bisect
from typing import NamedTuple

from lab.oracle.wire import Closed, Session, Silent, Stat
from tests.compat.fields import Value


class Answer(NamedTuple):
    """A reply with decoded fields; `wrote`: it tells of a change, so its zxid is the change's own."""

    xid: int
    zxid: int
    err: int
    values: tuple[Value, ...]
    wrote: bool


class Notice(NamedTuple):
    """A watch event, its path as scripts write it."""

    zxid: int
    type: int
    state: int
    path: str


Seen = Answer | Notice | Session | Closed | Silent
Outcome = dict[int, list[Seen]]


class Mismatch(Exception):
    """The two sides differ; the message says in what."""


class ZxidMap:
    """Holds the zxids of the two sides against each other.

    `change` zxids name a change of the tree (in a Stat, an event, or the reply to a write): they must map one
    to one in the same order. Other replies carry whatever the server had last applied: those need only lie in
    the same place among the changes (ZooKeeper numbers refused writes and sessions too). In a run with
    pipelined requests (`strict` False) zketcd may commit several in one revision: order may become equality.
    """

    def __init__(self, strict: bool = True) -> None:
        self._strict = strict
        self._left: list[int] = []
        self._right: list[int] = []

    def change(self, left: int, right: int) -> None:
        """Take a pair of zxids of one change; raises Mismatch."""
        if left <= 0 or right <= 0:
            if left != right:
                raise Mismatch(f"zxid {left} against {right}")
            return
        place = bisect.bisect_left(self._left, left)
        if place < len(self._left) and self._left[place] == left:
            if self._right[place] != right:
                raise Mismatch(f"zxid {left} was {self._right[place]}, is now {right}")
            return
        gap = 0 if self._strict else 1
        above_lower = place == 0 or self._right[place - 1] < right + gap
        below_upper = place == len(self._right) or right < self._right[place] + gap
        if not (above_lower and below_upper):
            raise Mismatch(f"zxid {left} against {right}: not in the same order as before")
        self._left.insert(place, left)
        self._right.insert(place, right)

    def position(self, left: int, right: int) -> None:
        """Take a pair of zxids of what two servers had applied; raises Mismatch."""
        if left <= 0 or right <= 0:
            if left != right:
                raise Mismatch(f"zxid {left} against {right}")
            return
        applied = bisect.bisect_right(self._left, left)
        if applied and right < self._right[applied - 1]:
            raise Mismatch(f"zxid {right} is older than a change shown before ({self._right[applied - 1]})")
        if self._strict and applied < len(self._right) and right >= self._right[applied]:
            raise Mismatch(f"zxid {right} is as new as a change that came later ({self._right[applied]})")


class ClockMap:
    """Checks the times of one side: one change has one time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._times: dict[int, int] = {}

    def take(self, zxid: int, time_ms: int) -> None:
        """Take the time of a change; raises Mismatch."""
        before = self._times.setdefault(zxid, time_ms)
        if before != time_ms:
            raise Mismatch(f"{self._name}: the time of zxid {zxid} was {before}, is now {time_ms}")


class Matcher:
    """Compares the outcomes of one run; what it has learnt of zxids, times and sessions is kept."""

    def __init__(self, left: str, right: str, strict: bool = True) -> None:
        self._strict = strict
        self._zxids = ZxidMap(strict)
        self._clocks = (ClockMap(left), ClockMap(right))
        self._owners: dict[int, int] = {0: 0}

    def compare(self, left: Outcome, right: Outcome, *, unordered: bool, positions: bool) -> None:
        """Raise Mismatch if the outcomes differ.

        `unordered`: events come in any order (a session's end deletes its nodes in the order of a hash set);
        `positions` False leaves out what the servers had applied meanwhile (a session may end at any time).
        """
        for slot in sorted(left.keys() | right.keys()):
            ours, theirs = left.get(slot, []), right.get(slot, [])
            if unordered:
                ours, theirs = _events_sorted(ours), _events_sorted(theirs)
            for place, (one, other) in enumerate(zip(ours, theirs, strict=False)):
                try:
                    self._seen(one, other, positions)
                except Mismatch as mismatch:
                    raise Mismatch(f"slot {slot}, message {place + 1}: {mismatch}") from None
            if len(ours) != len(theirs):
                raise Mismatch(f"slot {slot}: {len(ours)} messages against {len(theirs)}")

    def _seen(self, left: Seen, right: Seen, positions: bool) -> None:
        if isinstance(left, Answer) and isinstance(right, Answer):
            self._answer(left, right, positions)
        elif isinstance(left, Notice) and isinstance(right, Notice):
            _equal("event", left[1:], right[1:])
            self._zxids.change(left.zxid, right.zxid)
        elif isinstance(left, Session) and isinstance(right, Session):
            self._session(left, right)
        else:
            _equal("kind of message", type(left).__name__, type(right).__name__)

    def _answer(self, left: Answer, right: Answer, positions: bool) -> None:
        _equal("xid", left.xid, right.xid)
        _equal("err", left.err, right.err)
        self._value(left.values, right.values)
        if left.wrote != right.wrote:
            raise Mismatch(f"success of the write: {left.wrote} against {right.wrote}")
        if left.wrote:
            self._zxids.change(left.zxid, right.zxid)
        elif positions:
            self._zxids.position(left.zxid, right.zxid)

    def _session(self, left: Session, right: Session) -> None:
        _equal("protocol", left.protocol, right.protocol)
        _equal("timeout", left.timeout_ms, right.timeout_ms)
        _equal("length of the password", len(left.password), len(right.password))
        _equal("password is zeros", not any(left.password), not any(right.password))
        _equal("trailer", left.trailer, right.trailer)
        self._owner(left.id, right.id, new=True)

    def _owner(self, left: int, right: int, new: bool = False) -> None:
        known = self._owners.get(left)
        if new and known is None and right not in self._owners.values():
            self._owners[left] = right
        elif known != right:
            raise Mismatch(f"session {left:#x} against {right:#x}")

    def _value(self, left: Value, right: Value) -> None:
        if isinstance(left, Stat) and isinstance(right, Stat):
            self._stat(left, right)
        elif isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right):
            for one, other in zip(left, right, strict=True):
                self._value(one, other)
        else:
            _equal("body", left, right)

    def _stat(self, left: Stat, right: Stat) -> None:
        for name in ("version", "cversion", "aversion", "data_length", "num_children"):
            _equal(f"Stat.{name}", getattr(left, name), getattr(right, name))
        for name in ("czxid", "mzxid", "pzxid"):
            try:
                self._zxids.change(getattr(left, name), getattr(right, name))
            except Mismatch as mismatch:
                raise Mismatch(f"Stat.{name}: {mismatch}") from None
        self._owner(left.ephemeral_owner, right.ephemeral_owner)
        _equal("Stat.ctime is 0", left.ctime == 0, right.ctime == 0)
        _equal("Stat.mtime is 0", left.mtime == 0, right.mtime == 0)
        if self._strict:
            for clock, stat in zip(self._clocks, (left, right), strict=True):
                clock.take(stat.czxid, stat.ctime)
                clock.take(stat.mzxid, stat.mtime)


def _equal(what: str, left: object, right: object) -> None:
    if left != right:
        raise Mismatch(f"{what}: {left!r} against {right!r}")


def _events_sorted(seen: list[Seen]) -> list[Seen]:
    """Return the events sorted, then the rest in order."""
    events = sorted((item for item in seen if isinstance(item, Notice)), key=lambda item: item[1:])
    return [*events, *(item for item in seen if not isinstance(item, Notice))]
