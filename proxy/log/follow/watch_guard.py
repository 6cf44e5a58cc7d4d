"""Detects quickly that the watch hangs: etcd has answered, and the watch does not show what the answer says.

A member of etcd that was stopped or cut off keeps its connections. The append goes to another member, which
answers it, but clients get their replies by the watch, which still waits for the first member. The same goes
for what a read has found: a sync's, or the question that each proxy asks once a second (`Staleness`). The
watch gets some tenths of a second: fewer if its member is the one that did not answer.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from proxy.log.follow.log_order import LogOrder

_TICK = 0.05  # seconds between two checks
_LEAST_TICKS = 6  # checks in vain: a loop that was blocked proves nothing about the watch
# Replaces _LEAST_TICKS and _SHOWN_WITHIN if the watch's member has just left a request unanswered.
_SUSPECT_TICKS = 1
# Seconds, or round trips if that is longer, after which the watch must have shown what etcd has answered.
_SHOWN_WITHIN = 0.3
_ROUND_TRIPS = 3


class _Awaited:
    """Something that is in etcd, and that the watch has to show."""

    __slots__ = ("is_shown", "since", "ticks", "within")

    def __init__(self, is_shown: Callable[[], bool], since: float, within: float) -> None:
        self.is_shown = is_shown
        self.since = since
        self.within = within
        self.ticks = 0


class WatchGuard:
    """Compares etcd's answers with what the stream has delivered."""

    def __init__(
        self,
        order: LogOrder,
        is_suspect: Callable[[], bool],
        hangs: Callable[[], None],
        left_out: Callable[[], None],
        limit: float,
    ) -> None:
        """`is_suspect`: whether the watch's member has left a request unanswered that another one answered.

        `hangs` is called when the watch hangs, each time after a longer pause, up to `limit` seconds.
        `left_out` is to be called when an answer of etcd has what the watch has passed without showing it.
        """
        self._order = order
        self._is_suspect = is_suspect
        self._hangs = hangs
        self.left_out = left_out
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._awaited: deque[_Awaited] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._replaced = -float("inf")  # the loop's time at which the watch was last replaced
        self._factor = 1  # doubled each time that a new watch delivers no more than the one before

    def appended(self, incarnation: str, number: int, round_trip: float) -> None:
        """etcd has answered that this entry is in the log. `round_trip`: seconds."""
        self.expect(partial(self._was_shown, incarnation, number), round_trip)

    def expect(self, is_shown: Callable[[], bool], round_trip: float) -> None:
        """etcd has answered after `round_trip` seconds, and the watch has to show what the answer says."""
        within = max(_SHOWN_WITHIN, _ROUND_TRIPS * round_trip)
        self._awaited.append(_Awaited(is_shown, self._loop.time(), within))
        if self._timer is None:
            self._timer = self._loop.call_later(_TICK, self._look)

    def stop(self) -> None:
        """Stop checking until etcd answers again: the incarnation is over, or the proxy stops."""
        self._awaited.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        awaited = self._awaited
        while awaited and awaited[0].is_shown():
            awaited.popleft()
        self._timer = self._loop.call_later(_TICK, self._look) if awaited else None
        now = self._loop.time()
        if now - self._replaced > self._limit:
            self._factor = 1
        # Not only the first: its answer may have taken an election, and so gives the watch much time.
        suspect = bool(awaited) and self._is_suspect()
        for each in awaited:
            each.ticks += 1
        if any(self._is_late(each, now, suspect=suspect) for each in awaited):
            self._factor *= 2
            self._replaced = now
            self._hangs()

    def _was_shown(self, incarnation: str, number: int) -> bool:
        """Also true if the incarnation is over: the watch need not show its entries."""
        order = self._order
        shown = order.delivered(incarnation) + order.held(incarnation)
        return shown >= number or not order.knows(incarnation)

    def _is_late(self, awaited: _Awaited, now: float, *, suspect: bool) -> bool:
        within, least = awaited.within, _LEAST_TICKS
        if suspect:
            within, least = _SUSPECT_TICKS * _TICK, _SUSPECT_TICKS
        allowed = min(self._factor * within, self._limit)
        is_over = awaited.ticks > least and now - max(awaited.since, self._replaced) > allowed
        return is_over and not awaited.is_shown()
