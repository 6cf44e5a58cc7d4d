"""Sends the entries of the outbox to etcd, and makes sure that each number is filled.

The shell around `outbox`. It decides how many Txns are in flight, when a Txn is sent again, and when an
incarnation is over. It does not decide the outcome of an entry: the stream shows it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from itertools import chain, repeat

from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdError, EtcdNoSpace, EtcdRefused, EtcdUnknown, RefusalKind, Txn, TxnResult
from proxy.log.append.head_reader import HeadReader
from proxy.log.append.outbox import Outbox
from proxy.log.append.registration import Incarnation
from proxy.log.append.sent import EntryHeader, Form, Sent
from proxy.log.combine.combining import Combining
from proxy.log.context import Context, txns_in_flight
from proxy.log.follow.watch_guard import WatchGuard
from proxy.support.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

# Timeouts in seconds of the first, the second, ... attempt; the last value is that of all further attempts.
# After a timeout the outcome is unknown. Sending the same Txn again is safe, so the first timeout is short.
# The others give a slow etcd enough time.
_TIMEOUTS = (1.0, 1.0, 2.0, 3.0, 5.0)
# Seconds before the next attempt, if one fails at once; the last is that of all further attempts too.
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.5)
_REFUSED_PAUSE = 1.0  # seconds, after a refusal that only an operator can end, such as missing permission
_TRIAL_INTERVAL = 1.0  # seconds between two writes that ask a full etcd whether it has space again
# Bytes before compression that are sent and not applied; one entry is sent in any case. At worst a byte takes
# every proxy 0.4 us: about a second in all. A proxy may not be behind etcd for longer than --max-staleness.
_WINDOW_BYTES = 2 << 20
_LONG_ENTRY = 64 << 10  # bytes; after making a longer entry the loop does other work before the next one
_GATHERING = 0.002  # seconds that requests wait at most for others that are expected
_EXPECTED_FOR = 0.01  # seconds after an answer in which its client's next request is expected


class NextPump(Enum):
    """When the appender looks at the requests that wait, the next time."""

    AT_A_REQUEST = "when one arrives: it can be sent, or has to be refused"
    SCHEDULED = "in the next turn of the loop"
    AT_ROOM = "when an answer or the stream makes room for them, or an incarnation begins"


_AT_A_REQUEST, _SCHEDULED, _AT_ROOM = NextPump.AT_A_REQUEST, NextPump.SCHEDULED, NextPump.AT_ROOM


async def _answer_to(etcd: Etcd, txn: Txn, timeout: float) -> TxnResult | EtcdError:
    """The answer to a Txn that may be sent again. Cancelled once the stream has shown the entry."""
    answered: asyncio.Future[TxnResult | EtcdError] = asyncio.get_running_loop().create_future()

    def settle(answer: TxnResult | EtcdError) -> None:
        if not answered.done():
            answered.set_result(answer)

    request = etcd.begin_txn(txn, timeout, settle)
    try:
        return await answered
    finally:
        request.cancel()


class Appender:
    """Appends the entries of one incarnation after the other."""

    def __init__(
        self,
        context: Context,
        outbox: Outbox,
        head: HeadReader,
        watch_guard: WatchGuard,
        combining: Combining,
        on_refused: Callable[[float, EtcdError], bool],
    ) -> None:
        """`head` reads for the syncs that need no entry.

        `on_refused(seconds, error)`: etcd refuses an entry that was first sent so long ago; returns whether
        the incarnation has to end for that.
        """
        self._etcd = context.etcd
        self._tasks = context.tasks
        self._machine = context.machine
        self._stats = context.stats
        self._rules = int(context.settings.rules)
        self._window = context.settings.window
        self._clock = context.environment.clock
        self._outbox = outbox
        self._head = head
        self._watch_guard = watch_guard
        self._combining = combining
        self._on_refused = on_refused
        self._next_pump = _AT_A_REQUEST
        self._incarnation: Incarnation | None = None  # None: there is none
        # What may not be in the log yet; None while its first attempt is in flight.
        self._running: dict[Sent, asyncio.Task[None] | None] = {}
        self._try_at = 0.0
        self._gathering: asyncio.TimerHandle | None = None  # while requests wait for others
        self._expected_until = 0.0  # by the clock's perf_counter
        self._throttled_log = ThrottledLog(log, self._clock)
        outbox.on_arrival(self._arrived)

    @property
    def window(self) -> int:
        """How many Txns may be in flight."""
        return txns_in_flight(self._stats.round_trip.seconds, *self._window)

    def start(self, incarnation: Incarnation) -> None:
        """Append under this incarnation from now on."""
        self._incarnation = incarnation
        self._outbox.begin_incarnation(incarnation.name)
        self._combining.start(incarnation.name, incarnation.revision)
        self._schedule()

    def stop(self) -> None:
        """Send nothing more: the incarnation is over. Txns in flight may succeed until its key is gone."""
        self._watch_guard.stop()
        self._combining.stop()
        self._incarnation = None
        for task in self._running.values():
            if task is not None:
                task.cancel()
        self._running.clear()

    def make_room(self) -> None:
        """An entry of ours was applied, or syncs were answered without one: free its place in the window."""
        self._expected_until = self._clock.perf_counter() + _EXPECTED_FOR
        for sent in [sent for sent in self._running if sent.is_over]:
            if self._combining.shown(sent.number):  # no answer follows
                self._running.pop(sent)
            # The first attempt is not cancelled: its answer is about to arrive.
            elif sent.attempts > 1 and (task := self._running.pop(sent)) is not None:
                task.cancel()
        self._room()

    def no_space(self) -> None:
        """etcd has refused another request because its quota is used up."""
        self._full("etcd has no space left, and takes no writes until it has")

    # -- how -----------------------------------------------------------------------------------------------

    def _arrived(self) -> None:
        if self._next_pump is _AT_A_REQUEST:
            self._schedule()

    def _schedule(self) -> None:
        if self._next_pump is not _SCHEDULED:
            self._next_pump = _SCHEDULED
            asyncio.get_running_loop().call_soon(self._pump)

    def _room(self) -> None:
        """There may be room for one more Txn."""
        if self._outbox.queue or self._outbox.syncs.waiting:
            self._schedule()
        elif self._next_pump is not _SCHEDULED:
            self._next_pump = _AT_A_REQUEST

    def _pump(self) -> None:
        """Send the requests that wait, as far as the window allows, and answer those that are refused."""
        self._next_pump = _AT_ROOM
        outbox = self._outbox
        window = self.window
        if self._incarnation is not None:
            self._send_waiting(window)
        elif outbox.is_full:
            outbox.refuse_metered()
        if outbox.refused:
            zxid = self._machine.zxid
            for pending, error in outbox.take_refused():
                pending.answer(zxid, error)
            if outbox.queue:
                self._schedule()  # an answer made a client submit another request
        if self._next_pump is not _SCHEDULED and self._takes_more(window):
            self._next_pump = _AT_A_REQUEST

    def _takes_more(self, window: int) -> bool:
        """Whether to look at the next request when it arrives."""
        outbox = self._outbox
        if self._incarnation is None:
            return outbox.is_full  # then it may have to be refused; otherwise it waits for an incarnation
        if outbox.has_next and self._gathering is None:
            return False  # the first that waits has no room, so neither has one that arrives
        return outbox.unanswered < window

    def _send_waiting(self, window: int) -> None:
        """Send what waits in as many entries as the window has room for."""
        outbox = self._outbox
        if outbox.set_syncs_apart():
            self._head.read()
        while (
            outbox.queue
            and outbox.unanswered < window
            and outbox.bytes < _WINDOW_BYTES
            and not self._gathers()
        ):
            may_try = outbox.is_full and self._clock.monotonic() >= self._try_at
            sent = outbox.cut(self._header(), may_try=may_try)
            if sent is None:
                if outbox.has_next:
                    self._schedule()
                return
            if sent.form is Form.TRIAL:
                self._try_at = self._clock.monotonic() + _TRIAL_INTERVAL
            self._stats.sent_entries += 1
            self._stats.sent_requests += len(sent.requests)
            self._stats.entry_requests.note(len(sent.requests))
            self._stats.sent_bytes += len(sent.value)
            self._running[sent] = None  # most first attempts succeed, so they need no task
            sent.attempts = 1
            sent.began = self._clock.perf_counter()  # uvloop's own clock counts milliseconds
            self._combining.begin(sent, self._answered, self._send_directly)
            if len(sent.original) > _LONG_ENTRY and outbox.queue:
                self._schedule()
                return

    def _gathers(self) -> bool:
        """Whether the requests that wait do so for others."""
        timer = self._gathering
        if not self._outbox.is_gathering:
            if timer is not None:
                timer.cancel()
                self._gathering = None
            return False
        if timer is None:
            if self._clock.perf_counter() >= self._expected_until:
                return False
            self._gathering = asyncio.get_running_loop().call_later(_GATHERING, self._gathered)
        return True

    def _gathered(self) -> None:
        """The requests that were expected have not come: send those that wait."""
        self._gathering = None
        self._outbox.gathered()
        self._schedule()

    def _header(self) -> EntryHeader:
        checkpoint, digest = self._machine.last_checkpoint
        return EntryHeader(self._clock.time_ns() // 1_000_000, self._rules, checkpoint, digest)

    def _send_directly(self, sent: Sent) -> None:
        """Send an entry by a Txn of its own, unless its incarnation is over."""
        if self._incarnation is not None and sent in self._running:
            sent.began = self._clock.perf_counter()  # perhaps later: a combiner has not appended it
            txn = self._incarnation.txn_of(sent)
            self._etcd.begin_txn(txn, _TIMEOUTS[0], partial(self._answered, sent))

    def _answered(self, sent: Sent, outcome: TxnResult | EtcdError, seconds: float | None = None) -> None:
        """The outcome of a first attempt. `seconds`: what the combiner's Txn took."""
        incarnation = self._incarnation
        if incarnation is None or sent not in self._running:
            return  # its incarnation is over
        if seconds is None:
            seconds = self._clock.perf_counter() - sent.began
        if isinstance(outcome, TxnResult) and outcome.succeeded and not self._outbox.is_full:
            self._stats.round_trip.note(seconds)
            self._appended(sent, incarnation)
        else:
            settling = self._send_until_decided(sent, incarnation, outcome, seconds)
            self._running[sent] = self._tasks.start(settling, "append an entry")

    async def _send_until_decided(
        self, sent: Sent, incarnation: Incarnation, answer: TxnResult | EtcdError, seconds: float
    ) -> None:
        """Send an entry again until its number is definitely filled, or the incarnation is over.

        `answer` is the answer to the first attempt, which took `seconds`.
        """
        pauses = chain(_PAUSES, repeat(_PAUSES[-1]))
        while isinstance(answer, EtcdError):
            pause = self._react(sent, incarnation, answer, seconds, pauses)
            if pause is None:
                self._give_up(sent, incarnation, f"its requests are sent again: {answer}")
                return
            if pause:
                await asyncio.sleep(pause)
            if sent.is_over:
                self._appended(sent, incarnation)
                return
            timeout = _TIMEOUTS[min(sent.attempts, len(_TIMEOUTS) - 1)]
            sent.attempts += 1
            self._stats.resent += 1
            started = self._clock.perf_counter()
            answer = await _answer_to(self._etcd, incarnation.txn_of(sent), timeout)
            seconds = self._clock.perf_counter() - started
        if incarnation.is_denied_by(answer):
            self._give_up(sent, incarnation, "its key is gone")
            return
        if answer.succeeded and not sent.form.is_nested and self._outbox.set_full(False):
            log.warning("etcd has space again")
        self._appended(sent, incarnation)

    def _react(
        self, sent: Sent, incarnation: Incarnation, error: EtcdError, seconds: float, pauses: Iterator[float]
    ) -> float | None:
        """React to a failed attempt, which took `seconds`.

        Returns the seconds until the next attempt, which may send a replacement; None: the incarnation has to
        end. `pauses` are those between attempts of unknown outcome.
        """
        if isinstance(error, EtcdNoSpace):
            if sent.form.is_nested or sent.is_over:
                return _REFUSED_PAUSE
            self._full(error.message)
            self._outbox.no_space(sent)
            return 0.0
        if isinstance(error, EtcdUnknown):
            self._throttled_log.warn(
                "entry %d of %s is not confirmed, and is sent again: %s", sent.number, incarnation.name, error
            )
            # After a timeout the Txn is sent again at once: the etcd client has changed to another endpoint.
            return 0.0 if seconds >= _TIMEOUTS[0] / 2 else next(pauses)
        if isinstance(error, EtcdRefused) and error.kind is RefusalKind.TOO_LARGE and not sent.is_over:
            log.warning(
                "etcd refused an entry of %d bytes: %s. Set its --max-request-bytes to 1.5 MiB, then restart"
                " this proxy or run `zketcd upgrade`: until then its entries are smaller",
                len(sent.value),
                error,
            )
            return 0.0 if self._outbox.too_large(sent) else None
        self._throttled_log.warn("etcd refuses entries: %s", error)
        is_over = self._on_refused(self._clock.perf_counter() - sent.began, error)
        return None if is_over else _REFUSED_PAUSE

    def _give_up(self, sent: Sent, incarnation: Incarnation, why: str) -> None:
        """The incarnation has to end."""
        self._running.pop(sent, None)
        if not sent.is_over:
            incarnation.end(why)

    def _appended(self, sent: Sent, incarnation: Incarnation) -> None:
        if not sent.is_over:
            self._watch_guard.appended(incarnation.name, sent.number, self._stats.round_trip.seconds)
        self._running.pop(sent, None)
        self._outbox.appended(sent)
        self._room()

    def _full(self, why: str) -> None:
        if self._outbox.set_full(True):
            log.error("etcd's quota is used up (%s): clients' writes are refused with SYSTEMERROR", why)
        self._try_at = self._clock.monotonic() + _TRIAL_INTERVAL
        self._schedule()
