"""When to wait a moment before the next Txn is formed: sessions that write one by one are about to come back.

Clients that wait for each answer come back a moment after it. Whoever sends at once what is ready splits them
into as many small Txns as there are lanes, and each Txn costs etcd and the proxy as much as a dozen writes.
Here: who came back at once the last time, and whether such sessions are worth waiting for. Not here: Txns.
See docs/decisions/0015.
"""

import asyncio
import time
from collections.abc import Callable, Iterable

from proxy.flights import Queue

GRACE = 0.002  # seconds from its answer in which a session comes back at once; nobody waits longer for others
ENOUGH = 32  # requests in a Txn of which its own costs are a small part
_WORTH = 4  # requests that may wait for one that will come
_SMOOTHING = 0.2  # the newest Txn's share in the average


class Gathering:
    """Remembers the sessions that come back at once, and how long a Txn takes."""

    def __init__(self, go_on: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        """`go_on`: called when a wait is over and they have not come; `clock`: in seconds."""
        self._go_on = go_on
        self._clock = clock
        self._prompt: set[int] = set()  # came back at once; each has a write under way, or had one just now
        self._left: dict[int, float] = {}  # sessions without one, and since when, the oldest first
        self._seconds = 0.0  # that a Txn takes, as of late
        self._timer: asyncio.TimerHandle | None = None
        self._waited = False  # as long as there is any use, since the last Txn was formed

    def came(self, session_id: int) -> None:
        """Note that a session that had no write under way has one."""
        left = self._left.pop(session_id, None)
        if left is not None:
            if self._clock() - left < GRACE:
                self._prompt.add(session_id)
            else:
                self._prompt.discard(session_id)

    def left(self, session_id: int) -> None:
        """Note that a session has no write under way any more."""
        self._left[session_id] = self._clock()

    def landed(self, seconds: float) -> None:
        """Note how long a Txn has taken."""
        self._seconds += _SMOOTHING * (seconds - self._seconds)

    def waits(self, ready: Iterable[Queue]) -> bool:
        """Whether to wait before a Txn is formed of what these sessions have; `go_on` is called in time then.

        If not, the caller forms it, and the next one may wait again.
        """
        if self._prompt and not self._waited and self._worthwhile(ready):
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(GRACE, self._give_up)
            return True
        self._waited = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return False

    def _worthwhile(self, ready: Iterable[Queue]) -> bool:
        self._forget_late()
        # Those with a write in a Txn count where it is soon over: else a few that are out of step with the
        # others would stay so.
        away = self._prompt.copy()
        if self._seconds > GRACE:
            away.intersection_update(self._left)
        requests = 0
        for queue in ready:
            requests += len(queue.requests)
            if requests >= ENOUGH:
                return False
            away.discard(queue.session_id)
        return bool(away) and len(away) * _WORTH >= requests

    def _give_up(self) -> None:
        self._timer = None
        self._waited = True
        self._go_on()

    def _forget_late(self) -> None:
        before = self._clock() - GRACE
        late = []
        for session_id, left in self._left.items():
            if left > before:
                break
            late.append(session_id)
        for session_id in late:
            del self._left[session_id]
            self._prompt.discard(session_id)
