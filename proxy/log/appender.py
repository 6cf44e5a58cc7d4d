"""Sends entries to etcd, and makes sure that each number is filled.

The shell around `translator`: how many Txns are in flight, when one is sent again, when an incarnation is
over. The outcome of an entry is not decided here: the stream shows it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator

from proxy.etcd.interface import Etcd
from proxy.etcd.model import (
    EtcdError,
    EtcdNoSpace,
    EtcdRefused,
    EtcdUnknown,
    RefusalKind,
    Txn,
    TxnResult,
)
from proxy.log.pending import Pending
from proxy.log.stats import Stats
from proxy.log.translator import Header, Sent, Translator, Verdict, append_txn, verdict
from proxy.state.machine import Machine
from proxy.support.tasks import Tasks
from proxy.support.throttled_log import ThrottledLog
from schema.keys import Keyspace

log = logging.getLogger(__name__)

# Seconds until an outcome counts as unknown, by attempt, the last for all that follow. Sending the same Txn
# again is safe, so the first is short; the others leave a slow etcd the time that it needs.
_TIMEOUTS = (1.0, 1.0, 2.0, 3.0, 5.0)
_FIRST_PAUSE = 0.05  # seconds before the next attempt where an attempt fails at once; doubled each time
_LONGEST_PAUSE = 0.5
_REFUSED_PAUSE = 1.0  # seconds, after a refusal that only an operator can end, such as missing permission
_PROBE_INTERVAL = 1.0  # seconds between two writes that ask a full etcd whether it has space again
_LEAST_WINDOW = 2  # Txns in flight: near by, more only make the proxy and etcd take turns
_LARGEST_WINDOW = 8
_WINDOW_PER = 0.0025  # seconds of round trip for each Txn in flight; 8 at 20 ms
_WINDOW_BYTES = 2 << 20  # in flight together; one entry goes in any case
_LONG_ENTRY = 64 << 10  # bytes; making a longer one takes so long that others get their turn before the next
_SAMPLES = 128  # Txns after which the smallest round trip is measured anew


class _RoundTrip:
    """The smallest time that a Txn took lately: what the network and etcd take, without our own queues."""

    __slots__ = ("_count", "_current", "_previous")

    def __init__(self) -> None:
        self._previous = self._current = float("inf")
        self._count = 0

    def note(self, seconds: float) -> None:
        self._current = min(self._current, seconds)
        self._count += 1
        if self._count == _SAMPLES:
            self._previous, self._current, self._count = self._current, float("inf"), 0

    @property
    def seconds(self) -> float:
        """0 until something was measured."""
        least = min(self._previous, self._current)
        return 0.0 if least == float("inf") else least


def _growing_pauses() -> Iterator[float]:
    """Seconds before each next attempt, where attempts fail at once."""
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE)


class Appender:
    """Appends the entries of one incarnation after the other."""

    def __init__(
        self,
        etcd: Etcd,
        keys: Keyspace,
        tasks: Tasks,
        translator: Translator,
        machine: Machine,
        rules: int,
        stats: Stats,
        on_over: Callable[[str, str], None],
        answer: Callable[[Pending, int, int], None],
    ) -> None:
        """`on_over(incarnation, why)`: it cannot go on. `answer(pending, zxid, error)`: refuse a request."""
        self._etcd = etcd
        self._keys = keys
        self._tasks = tasks
        self._translator = translator
        self._machine = machine
        self._rules = int(rules)
        self._stats = stats
        self._on_over = on_over
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._queue = translator.queue
        self._scheduled = False
        self._has_room = True  # whether the next request has to schedule the pump
        self._incarnation = ""
        self._revision = 0
        # What may not be in the log yet; None while its first attempt is on its way.
        self._running: dict[Sent, asyncio.Task[None] | None] = {}
        self._round_trip = _RoundTrip()
        self._probe_at = 0.0
        self._throttled_log = ThrottledLog(log)

    @property
    def window(self) -> int:
        """How many Txns may be in flight: enough to keep a connection with this round trip busy."""
        wanted = int(self._round_trip.seconds / _WINDOW_PER) + 1
        return max(_LEAST_WINDOW, min(_LARGEST_WINDOW, wanted))

    def submit(self, pending: Pending) -> None:
        """Take a request. The first goes out as soon as what the loop has read is taken in; others gather."""
        self._queue.append(pending)
        if self._has_room:
            self._schedule()

    def submit_first(self, pending: Pending) -> None:
        """Take a request that goes out before all that waits."""
        self._queue.appendleft(pending)
        if self._has_room:
            self._schedule()

    def start(self, incarnation: str, revision: int) -> None:
        """Append under this incarnation from now on; `revision`: where its proxy key was put."""
        self._incarnation = incarnation
        self._revision = revision
        self._schedule()

    def stop(self) -> None:
        """Send nothing more: the incarnation is over. What was sent may yet be put until its key is gone."""
        self._incarnation = ""
        for task in self._running.values():
            if task is not None:
                task.cancel()
        self._running.clear()

    def applied(self) -> None:
        """The stream has shown an entry of ours."""
        for sent in [sent for sent in self._running if sent.over]:
            # One that is on its way for the first time is left alone: its answer is about to come.
            if sent.attempts > 1 and (task := self._running.pop(sent)) is not None:
                task.cancel()
        self._room()

    def no_space(self) -> None:
        """etcd has refused something else for want of space."""
        self._full("etcd has no space left, and takes no writes until it has")

    # -- how -----------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        self._has_room = False
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._pump)

    def _room(self) -> None:
        """There may be room for one more Txn."""
        if self._queue:
            self._schedule()
        elif not self._scheduled:
            self._has_room = True

    def _pump(self) -> None:
        """Send what waits, as far as the window allows."""
        self._scheduled = False
        translator = self._translator
        window = self.window
        if not self._incarnation:
            if translator.full:
                translator.refuse_metered()
        else:
            while (
                self._queue
                and translator.unanswered < window
                and (translator.bytes < _WINDOW_BYTES or not translator.unanswered)
            ):
                probes = translator.full and self._loop.time() >= self._probe_at
                sent = translator.cut(self._header(), may_probe=probes)
                if sent is None:
                    break
                if sent.is_probe:
                    self._probe_at = self._loop.time() + _PROBE_INTERVAL
                self._stats.sent_entries += 1
                self._stats.sent_requests += len(sent.requests)
                self._stats.entry_requests.note(len(sent.requests))
                self._stats.sent_bytes += len(sent.value)
                self._begin(sent)
                if len(sent.original) > _LONG_ENTRY and self._queue:
                    self._schedule()
                    break
        if translator.refused:
            zxid = self._machine.zxid
            for pending, error in translator.take_refused():
                self._answer(pending, zxid, error)
        # While nothing can be sent, and while etcd is full, what comes next may have to be refused.
        if self._incarnation:
            self._has_room = not self._queue and translator.unanswered < window
        else:
            self._has_room = translator.full

    def _header(self) -> Header:
        checkpoint, digest = self._machine.last_checkpoint
        return Header(time.time_ns() // 1_000_000, self._rules, checkpoint, digest)

    def _begin(self, sent: Sent) -> None:
        """Send an entry for the first time. Mostly that is all there is to do: no task is needed for it."""
        self._running[sent] = None
        txn = self._txn(sent, self._incarnation, self._revision)
        started = time.perf_counter()  # uvloop's own clock counts milliseconds

        def answered(answer: TxnResult | EtcdError) -> None:
            if sent not in self._running:
                return  # the incarnation is over
            seconds = time.perf_counter() - started
            if isinstance(answer, TxnResult) and answer.succeeded and not self._translator.full:
                self._round_trip.note(seconds)
                self._landed(sent)
            else:
                settling = self._settle(sent, self._incarnation, self._revision, answer, seconds)
                self._running[sent] = self._tasks.start(settling, "append an entry")

        self._etcd.begin_txn(txn, _TIMEOUTS[0], answered)

    def _txn(self, sent: Sent, incarnation: str, revision: int) -> Txn:
        sent.attempts += 1
        entry_key = self._keys.entry(incarnation, sent.number)
        return append_txn(self._keys.proxy(incarnation), revision, entry_key, sent.value, nested=sent.nested)

    async def _settle(
        self, sent: Sent, incarnation: str, revision: int, answer: TxnResult | EtcdError, seconds: float
    ) -> None:
        """Go on until an entry's number is filled for certain, or the incarnation is over.

        `answer` is what came of the first attempt after so many `seconds`.
        """
        pauses = _growing_pauses()
        while isinstance(answer, EtcdError):
            pause = self._react(sent, incarnation, answer, seconds, pauses)
            if pause is None:
                self._give_up(sent, incarnation, "its requests are sent again in smaller entries")
                return
            if pause:
                await asyncio.sleep(pause)
            if sent.over:
                break
            timeout = _TIMEOUTS[min(sent.attempts, len(_TIMEOUTS) - 1)]
            txn = self._txn(sent, incarnation, revision)
            self._stats.resent += 1
            started = time.perf_counter()
            try:
                answer = await self._etcd.txn(txn, timeout)
            except EtcdError as error:
                answer = error
            seconds = time.perf_counter() - started
        else:
            if verdict(answer, revision) is Verdict.OVER:
                self._give_up(sent, incarnation, "its key is gone")
                return
            if answer.succeeded and not sent.nested and self._translator.full:
                log.warning("etcd has space again")
                self._translator.full = False
        self._landed(sent)

    def _react(
        self, sent: Sent, incarnation: str, error: EtcdError, seconds: float, pauses: Iterator[float]
    ) -> float | None:
        """Decide what follows from a failed attempt, which took `seconds`.

        Returns the seconds until the next attempt, which may send a replacement; None: the incarnation has to
        end. `pauses` are those between attempts of unknown outcome.
        """
        if isinstance(error, EtcdNoSpace):
            if sent.nested or sent.over:
                return _REFUSED_PAUSE
            self._full(error.message)
            self._translator.no_space(sent)
            return 0.0
        if isinstance(error, EtcdUnknown):
            self._throttled_log.warn("entry %d of %s: outcome unknown (%s)", sent.number, incarnation, error)
            # What has waited for its timeout is sent again at once. The client has turned to another endpoint
            # meanwhile.
            return 0.0 if seconds >= _TIMEOUTS[0] / 2 else next(pauses)
        if isinstance(error, EtcdRefused) and error.kind is RefusalKind.TOO_LARGE and not sent.over:
            log.warning(
                "etcd refused an entry of %d bytes: %s. Set its --max-request-bytes to 1.5 MiB",
                len(sent.value),
                error,
            )
            return 0.0 if self._translator.too_large(sent) else None
        self._throttled_log.warn("etcd refuses entries: %s", error)
        return _REFUSED_PAUSE

    def _give_up(self, sent: Sent, incarnation: str, why: str) -> None:
        """The incarnation cannot go on."""
        self._running.pop(sent, None)
        if not sent.over:
            self._on_over(incarnation, why)

    def _landed(self, sent: Sent) -> None:
        self._running.pop(sent, None)
        self._translator.landed(sent)
        self._room()

    def _full(self, why: str) -> None:
        if not self._translator.full:
            log.error("etcd's quota is used up (%s): clients' writes are refused with SYSTEMERROR", why)
        self._translator.full = True
        self._probe_at = self._loop.time() + _PROBE_INTERVAL
        self._schedule()
