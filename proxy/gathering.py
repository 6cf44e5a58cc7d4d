"""When to wait a moment before the next Txn is formed: sessions that write one by one are about to come back.

Clients that wait for each answer come back a moment after it. Whoever sends at once what is ready splits them
into as many small Txns as there are lanes, and each Txn costs etcd and the proxy as much as a dozen writes.
Here: who comes back at once, again and again, and whether to wait for such sessions. Not here: Txns.
See docs/decisions/0015.
"""

import asyncio
import time
from collections.abc import Callable, Iterable

from proxy.flights import Queue

GRACE = 0.002  # seconds that a Txn waits at most; etcds that take longer for one are not worth waiting for
_AT_ONCE = 0.001  # seconds from its answer in which a session comes back at once
_QUICK = 3  # times in a row that a session has come back at once before others wait for it
_ENOUGH = 32  # requests in a Txn of which its own costs are a small part
_WORTH = 4  # requests that may wait for one that will come


class Gathering:
    """Remembers the sessions that had a write just now."""

    def __init__(self, go_on: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        """`go_on`: called when a wait is over and nobody has come; `clock`: in seconds."""
        self._go_on = go_on
        self._clock = clock
        self._left: dict[int, Queue] = {}  # sessions without a write since a moment ago, the oldest first
        self._due = 0  # of these, those that others wait for
        self._timer: asyncio.TimerHandle | None = None
        self._waited = False  # as long as there is any use, since the last Txn was formed

    def came(self, session_id: int) -> Queue:
        """The queue of a session that had no write under way, and now has one."""
        queue = self._left.pop(session_id, None)
        if queue is None:
            return Queue(session_id)
        self._due -= is_quick(queue)
        queue.quick = queue.quick + 1 if self._clock() - queue.left < _AT_ONCE else 0
        return queue

    def left(self, queue: Queue) -> None:
        """Note that a session has no write under way any more."""
        queue.left = self._clock()
        self._forget_late(queue.left - GRACE)
        self._left[queue.session_id] = queue
        self._due += is_quick(queue)

    def waits(self, ready: Iterable[Queue], in_flight: int, round_trip: float) -> bool:
        """Whether to wait before a Txn is formed of what these sessions have; `go_on` is called in time then.

        If not, the caller forms it, and the next one may wait again. `in_flight`: the sessions in Txns under
        way that come back at once; whoever is out of step with them joins them so. `round_trip`: the seconds
        that a Txn takes, as of late.
        """
        near = round_trip <= GRACE
        if near and (self._due or in_flight) and not self._waited and self._worthwhile(ready, in_flight):
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(GRACE, self._give_up)
            return True
        self._waited = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return False

    def _worthwhile(self, ready: Iterable[Queue], in_flight: int) -> bool:
        self._forget_late(self._clock() - GRACE)
        away = self._due + in_flight
        most = min(_ENOUGH - 1, away * _WORTH)
        requests = 0
        for queue in ready:
            requests += len(queue.requests)
            if requests > most:
                return False
        return away > 0

    def _give_up(self) -> None:
        self._timer = None
        self._waited = True
        self._go_on()

    def _forget_late(self, before: float) -> None:
        while self._left:
            session_id, queue = next(iter(self._left.items()))
            if queue.left > before:
                break
            del self._left[session_id]
            self._due -= is_quick(queue)


def is_quick(queue: Queue) -> bool:
    """Whether the session comes back so quickly, time and again, that others wait for it."""
    return queue.quick >= _QUICK
