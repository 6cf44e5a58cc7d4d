"""Notices that requests wait without an outcome although etcd answers; then the process has to end.

An exception in a callback alone ends the process (`support.last_resort`). This is for what raises
nothing: a callback that was not scheduled, an answer that got lost, a loop that is blocked. It runs in a
thread of its own, reads plain values, and shares no code with what it watches.

For each place where requests wait it remembers the one that has waited longest. Time counts only while it is
this process that keeps the request waiting:

1. What waits for etcd: not while etcd does not answer Txns, or fails or refuses some: they are repeated, and
   say so in the log. Each proxy asks etcd about once a second, so there is an answer all the time
   (`Staleness`). Nor while the tree is loaded anew or caught up with, or another process takes over.
2. Not while long work on the state, or a slow read, progresses in slices.
3. Not while the process did not run: between two looks at most two intervals count.

Requests that wait at one connection for its client are not looked at.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

from proxy.log.append.pending import Pending
from proxy.log.append.sent import Sent
from proxy.server import Server
from proxy.support.last_resort import End, end_process

_INTERVAL = 1.0  # seconds between two looks
_SILENCE = 3.0  # seconds without an answer to a Txn after which etcd does not count as answering
_LEAST = 60.0  # seconds, see `limit_of`
_LIVE = 2.0  # seconds in which `/live` says why, before the process ends
_KINDS = ("no space", "refused", "unknown")  # of failures of calls to etcd
_METHODS = ("Txn", "LeaseGrant", "LeaseRevoke")

_BLOCKED = "the event loop has not had a turn"
_OF_ETCD = "requests have waited to be sent to etcd"
_SENT = "requests that were sent to etcd have had no outcome"
_SYNCS = "syncs have waited for a read of the log's head"
_BY_ETCD = (_OF_ETCD, _SENT, _SYNCS)


def limit_of(max_staleness: float) -> float:
    """Seconds that a request may wait for this process alone.

    Longer than everything by which zketcd mends itself: five seconds for the longest attempt to append, nine
    until a silent watch breaks, half of --max-staleness between two watches in place of one that hangs.
    Longer than a client waits, and as long as a liveness probe that gets no answer.
    """
    return max(_LEAST, 2 * max_staleness)


class Watchdog:
    """Watches one server."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop, limit: float) -> None:
        """`limit`: seconds, see `limit_of`."""
        self._server = server
        self._loop = loop
        self._limit = limit
        self._looked = server.clock.monotonic()
        self._waited: dict[str, tuple[object, float]] = {}  # what waits longest, and for how many seconds
        self._asked = self._answered = 0  # turns of the loop
        self._answers = 0  # of etcd to Txns
        self._answered_at = self._looked
        self._failures = 0
        self._slices: set[float] = set()  # when those of work that was not done began

    def look(self) -> str:
        """Why the process has to end; "" if it has not to. From then on `/live` says it too."""
        now = self._server.clock.monotonic()
        passed, self._looked = min(now - self._looked, 2 * _INTERVAL), now
        by_etcd, progresses = self._etcd_counts(now), self._progresses()
        before, self._waited = self._waited, {}
        for what, first in self._waiting():
            former, seconds = before.get(what, (None, 0.0))
            if former is not first or (what in _BY_ETCD and not by_etcd):
                seconds = 0.0
            elif not progresses or what == _BLOCKED:
                seconds += passed
            self._waited[what] = first, seconds
            if seconds > self._limit:
                answered = f"etcd answered {now - self._answered_at:.1f} s ago"
                self._server.process.deaf = f"{what} for {seconds:.0f} s{_named(first)}; {answered}"
        return self._server.process.deaf

    # -- what counts -----------------------------------------------------------------------------------------

    def _etcd_counts(self, now: float) -> bool:
        """Whether it is not etcd, nor a load, nor a handover, for which requests wait."""
        log = self._server.log
        calls = log.context.etcd.calls
        times = calls.times.get("Txn")
        answers = 0 if times is None else times.count
        if answers != self._answers:
            self._answers, self._answered_at = answers, now
        failures = sum(calls.failures[method, kind] for method in _METHODS for kind in _KINDS)
        fails, self._failures = failures != self._failures, failures
        silent = now - self._answered_at > _SILENCE
        return not (silent or fails or log.outbox.is_held) and log.follower.live.is_set()

    def _progresses(self) -> bool:
        """Whether work in slices, for which the log or clients have to wait, has had a slice since."""
        running = self._server.log.applier.worker, *self._server.state_gate.reads
        former, self._slices = self._slices, {each.began for each in running if not each.done}
        return not self._slices <= former

    def _waiting(self) -> Iterator[tuple[str, object]]:
        """What waits longest, by the place where it waits."""
        if self._asked == self._answered:
            self._asked += 1
            self._loop.call_soon_threadsafe(self._turn, self._asked)
        else:
            yield _BLOCKED, self._asked
        outbox, gate, flush_queue = self._server.log.outbox, self._server.state_gate, self._server.flush_queue
        syncs = outbox.syncs
        places: tuple[tuple[str, Callable[[], object]], ...] = (
            (_OF_ETCD, lambda: outbox.queue[0]),
            (_SENT, lambda: outbox.get(outbox.first_sent)),
            (_SYNCS, lambda: (syncs.asked or syncs.waiting)[0][0]),
            ("refused requests have waited for their answers", lambda: outbox.refused[0][0]),
            ("clients have waited for their turn", lambda: gate.first_parked),
            ("new clients have waited for their turn", lambda: gate.openings.first_parked),
            ("slow reads have waited", lambda: gate.first_slow_read),
            ("replies have waited to be sent", lambda: flush_queue.first),
        )
        for what, find in places:
            # The loop runs meanwhile: what was there may be gone.
            with suppress(IndexError, RuntimeError):
                if (first := find()) is not None:
                    yield what, first

    def _turn(self, asked: int) -> None:
        self._answered = asked


def _named(first: object) -> str:
    """The request that has waited longest, for people."""
    request = first.requests[0] if isinstance(first, Sent) else first
    if not isinstance(request, Pending):
        return ""
    return f" (first session {request.session_id:#x}, opcode {request.opcode})"


class WatchdogThread:
    """Looks about once a second, until it is stopped."""

    def __init__(self, watchdog: Watchdog, end: End = end_process) -> None:
        self._watchdog = watchdog
        self._end = end
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more: the loop ends."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(_INTERVAL):
            reason = self._watchdog.look()
            if reason:
                # Once it is stopped, the process ends anyway; after a handover that must keep the clients.
                if not self._stopped.wait(_LIVE):
                    self._end(f"ending: {reason}", None)
                return
