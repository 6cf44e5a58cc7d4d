"""Detects quickly that the watch hangs: etcd has answered an append, and the watch does not show the entry.

A member of etcd that was stopped or cut off keeps its connections. The append goes to another member, which
answers it, but clients get their replies by the watch, which still waits for the first member. `Staleness`
would detect that after seconds; this class needs tenths of a second, as long as clients write: fewer if the
watch's member is the one that did not answer the append.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from proxy.log.follower import Follower

_TICK = 0.05  # seconds between two checks
_LEAST_TICKS = 6  # without the entry: a loop that was blocked proves nothing about the watch
# Instead of these and of what follows, if the watch's member has just left a request unanswered.
_SUSPECT_TICKS = 1
# Seconds, or round trips if that is longer, after which the watch must have shown an entry.
_SHOWN_WITHIN = 0.3
_ROUND_TRIPS = 3


class _Landed:
    """An entry of ours that is in the log, and that the watch has not shown."""

    __slots__ = ("incarnation", "number", "since", "ticks", "within")

    def __init__(self, incarnation: str, number: int, since: float, within: float) -> None:
        self.incarnation = incarnation
        self.number = number
        self.since = since
        self.within = within
        self.ticks = 0


class WatchGuard:
    """Compares the answers to appends with what the stream has delivered."""

    def __init__(
        self,
        follower: Follower,
        is_suspect: Callable[[], bool],
        hangs: Callable[[], None],
        limit: float,
    ) -> None:
        """`is_suspect`: whether the watch's member has left a request unanswered that another one answered.

        `hangs` is called when the watch hangs, each time after a longer pause, up to `limit` seconds.
        """
        self._follower = follower
        self._is_suspect = is_suspect
        self._hangs = hangs
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._landed: deque[_Landed] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._replaced = -float("inf")  # the loop's time at which the watch was last replaced
        self._factor = 1  # doubled each time that a new watch delivers no more than the one before

    def landed(self, incarnation: str, number: int, round_trip: float) -> None:
        """etcd has answered that this entry is in the log. `round_trip`: seconds."""
        within = max(_SHOWN_WITHIN, _ROUND_TRIPS * round_trip)
        self._landed.append(_Landed(incarnation, number, self._loop.time(), within))
        if self._timer is None:
            self._timer = self._loop.call_later(_TICK, self._look)

    def stop(self) -> None:
        """Stop checking until etcd answers the next append: the incarnation is over."""
        self._landed.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        landed = self._landed
        while landed and self._was_shown(landed[0]):
            landed.popleft()
        self._timer = self._loop.call_later(_TICK, self._look) if landed else None
        now = self._loop.time()
        if now - self._replaced > self._limit:
            self._factor = 1
        if landed and self._is_late(landed[0], now):
            self._factor *= 2
            self._replaced = now
            self._hangs()

    def _was_shown(self, entry: _Landed) -> bool:
        """Also true if its incarnation is over: the watch need not show its entries."""
        follower, name = self._follower, entry.incarnation
        return not follower.knows(name) or follower.delivered(name) + follower.held(name) >= entry.number

    def _is_late(self, entry: _Landed, now: float) -> bool:
        entry.ticks += 1
        within, least = entry.within, _LEAST_TICKS
        if self._is_suspect():
            within, least = _SUSPECT_TICKS * _TICK, _SUSPECT_TICKS
        allowed = min(self._factor * within, self._limit)
        return entry.ticks > least and now - max(entry.since, self._replaced) > allowed
