"""Group commit: while Txns are in flight further writes gather, and become the next Txn.

The asynchronous shell around `batch` and `plan`. It keeps each session's writes in order (one Txn in flight a
session), forms batches and sends them, answers what was applied, and evaluates again what lost a race. Its
parts: records of what is under way (`flights`), what became of a Txn (`outcome`), evaluating ahead (`ahead`).
"""

import asyncio
import enum
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from codec.constants import ErrorCode
from proxy import plan
from proxy.ahead import Foresight
from proxy.batch import Batch, Later, Request
from proxy.courtesy import Courtesy, Hold
from proxy.draft import Entry, Held
from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdNoSpace, EtcdRefused, EtcdUnknown, RefusalKind
from proxy.flights import QUANTUM, Flight, Lane, Queue, State
from proxy.gathering import Gathering, is_quick
from proxy.latency import Histogram
from proxy.mirror import Mirror
from proxy.ops.session import END, END_IF_GONE, TAKE_OVER
from proxy.ops.sync import SYNC
from proxy.outcome import TXN_TIMEOUT, NoSpace, Outcomes, Untold
from proxy.rules import DEFAULT_RULES, Rules
from proxy.tasks import Tasks
from proxy.watches import HeldWatches
from schema.keys import Keyspace

log = logging.getLogger(__name__)

# Txns in flight. With more, all that clients have sent is on its way, the proxy idles: docs/performance.md.
LANES = 3
_WARY = 16  # Txns behind a lost race for which nothing is evaluated ahead
_PATIENCE = 8  # times in a row that a session finds its path held, until all others wait for it
_AT_ONCE = 4  # lost races of a request after each of which it is tried again at once: winners take turns
_BACKOFF = 0.002  # seconds; doubled with each race lost after these, with jitter
_MAX_BACKOFF = 0.25
_NO_SPACE_PAUSE = 1.0  # seconds between tries to end a session while etcd is full and takes not even that


# What goes on while etcd's quota is used up, alone in its Txn: it adds no key, and nothing could end without.
_ENDINGS = (END, END_IF_GONE)
_UNMETERED = (*_ENDINGS, TAKE_OVER, SYNC)


class _Turn(enum.Enum):
    OVER = "the session has no more that can go into this batch"
    AGAIN = "the session has more"
    FULL = "the batch is full"
    DUE = "the session has waited so often that it goes first when nothing is in flight any more"


class Committer:
    """Takes the writes of all sessions to etcd."""

    def __init__(
        self,
        mirror: Mirror,
        etcd: Etcd,
        keys: Keyspace,
        incarnation: str,
        tasks: Tasks,
        watches_of: Callable[[int], HeldWatches | None] = lambda _: None,
        lanes: int = LANES,
        rules: Rules = DEFAULT_RULES,
    ) -> None:
        """`watches_of`: what a session itself watches."""
        self._watches_of = watches_of
        self._rules = rules
        self._mirror = mirror
        self._etcd = etcd
        self._keys = keys
        self._incarnation = incarnation
        self._tasks = tasks
        self._queues: dict[int, Queue] = {}
        self._ready: deque[Queue] = deque()
        self._aside: list[Queue] = []  # sessions whose next request does not go into the batch being formed
        self._lane_count = 0
        self._free = [self._new_lane() for _ in range(lanes)]
        self._flights: set[Flight] = set()
        self._arrived: list[Flight] = []  # answered by etcd, not yet seen by the mirror
        self._by_marker: dict[bytes, Flight] = {}  # flights under way by their lane's key
        self._marked: list[Flight] = []  # their marker is in the revision that the mirror is applying
        self._beaten: set[str] = set()  # numbers of its components that say that they have lost
        self._locks: dict[str, Flight | Hold] = {}
        self._courtesy = Courtesy(mirror, self._locks, self._go_on)
        self._outcomes = Outcomes(mirror, etcd, keys, self._new_lane)
        self._foresight = Foresight(mirror, self._locks, self._new_batch, self._put_back)
        self._gathering = Gathering(self._schedule)
        self._quick = 0  # sessions in flight that come back at once
        self._pump_scheduled = False
        self._wary = 0  # Txns until something is evaluated ahead again
        # A request that needs the proxy's Txns to itself, or a session that has waited too often, comes next.
        self._draining = False
        self._idle: list[asyncio.Future[None]] = []
        self._full = False  # etcd's quota was used up when last asked
        self.txns = 0
        self.committed = 0
        self.ahead = 0  # Txns that had been evaluated before the one ahead of them was over
        self.conflicts = 0
        self.unknown = 0  # Txns whose answer was lost
        self.refused = 0  # Txns that etcd refused for certain
        self.batch_sizes = Histogram()  # of requests

    def _new_lane(self) -> Lane:
        self._lane_count += 1
        return Lane(self._keys.marker(self._incarnation, self._lane_count))

    @property
    def outstanding(self) -> int:
        """Requests that have no answer yet."""
        return sum(len(queue.requests) for queue in self._queues.values()) + sum(
            len(batch.requests)
            for flight in self._flights
            for batch in (flight.batch, flight.next)
            if batch is not None
        )

    @property
    def is_full(self) -> bool:
        """Whether etcd's quota was used up when last asked."""
        return self._full

    def lag(self) -> tuple[int, float]:
        """How far the mirror is behind what etcd has answered to this proxy: in revisions, and in seconds."""
        if not self._arrived:
            return 0, 0.0
        newest = max(flight.result[0] for flight in self._arrived if flight.result is not None)
        oldest = min(flight.answered for flight in self._arrived)
        return max(0, newest - self._mirror.revision), time.monotonic() - oldest

    def submit(self, request: Request) -> None:
        """Take a write; its `done` is called, in the order of the session, when it is known to be durable."""
        session_id = request.caller.session_id
        queue = self._queues.get(session_id)
        if queue is None:
            queue = self._queues[session_id] = self._gathering.came(session_id)
        else:
            queue.quick = 0
        queue.requests.append(request)
        if queue.state is State.IDLE:
            self._make_ready(queue)
        elif not self._pump_scheduled:
            self._schedule()  # perhaps it can be evaluated ahead

    async def commit(self, request_of: Callable[[Callable[[Request, int], None]], Request]) -> Request:
        """Submit the request that `request_of` makes of a callback, and wait for its end."""
        future: asyncio.Future[Request] = asyncio.get_running_loop().create_future()

        def done(request: Request, _zxid: int) -> None:
            if not future.done():
                future.set_result(request)

        self.submit(request_of(done))
        return await future

    async def drain(self) -> None:
        """Wait until every request has its answer."""
        if self._queues:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(future)
            await future

    def marked(self, marker: bytes, value: bytes) -> dict[bytes, Entry] | None:
        """The revision that the mirror is applying has put a marker: what that Txn of ours puts beside it."""
        flight = self._by_marker.get(marker)
        if flight is None or flight.value != value:
            return None
        if flight.result is None:
            self._marked.append(flight)
        return flight.own

    def lost(self, number: str, incarnation: str, paths: Sequence[str]) -> None:
        """The revision that the mirror is applying tells of a lost race, of that component of its Txn."""
        if incarnation == self._incarnation:
            self._beaten.add(number)
        else:
            self._courtesy.lost(paths)

    def applied(self, revision: int) -> None:
        """The mirror has applied `revision` and fired its watches: answer what was committed up to there."""
        self._courtesy.applied()
        if self._marked:
            marked, self._marked = self._marked, []
            for flight in marked:
                # Their events mostly come before the RPC's own answer.
                outcome = self._outcomes.of_events(flight, revision, self._beaten)
                if outcome is not None:
                    flight.result = outcome
                    self._finish(flight)
        self._beaten.clear()
        if not self._arrived:
            return
        history = self._outcomes.history()
        lost = [flight for flight in self._arrived if flight.lost_in(history)]
        if lost:
            self._arrived = [flight for flight in self._arrived if flight not in lost]
            for flight in lost:
                self._finish(flight, told=False)
        due = [
            flight for flight in self._arrived if flight.result is not None and flight.result[0] <= revision
        ]
        if due:
            self._arrived = [flight for flight in self._arrived if flight not in due]
            due.sort(key=lambda flight: flight.result[0] if flight.result else 0)
            for flight in due:
                self._finish(flight)

    def _make_ready(self, queue: Queue) -> None:
        queue.state = State.READY
        self._ready.append(queue)
        self._schedule()

    def _schedule(self) -> None:
        if not self._pump_scheduled:
            self._pump_scheduled = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        """Form and send batches while there are free lanes and sessions with writes; then look ahead."""
        self._pump_scheduled = False
        while self._free and self._ready:
            if self._draining and self._flights:
                break
            if not self._draining and self._gathering.waits(
                self._ready, self._quick, self._courtesy.round_trip
            ):
                break
            flight = self._form()
            if flight is None:
                break
            self._launch(flight)
        # Whoever waits for a lane goes first; and where others win races, it would mostly be in vain.
        if not (self._ready or self._draining or self._wary):
            for flight in self._flights:
                if flight.is_steady:
                    self._foresight.look(flight)

    def _launch(self, flight: Flight) -> None:
        # Nothing joins a wide one: any change in its ranges would have it evaluated again, for ever.
        self._draining = flight.batch.wide
        for other in self._flights:
            # A Stat's counts of children have no guard: nothing else would tell that they have changed.
            if other.next is not None and not other.next.draft.entries.keys().isdisjoint(flight.changed):
                self._foresight.forget(other)
        self._flights.add(flight)
        flight.quick = sum(map(is_quick, flight.queues))
        self._quick += flight.quick
        self._locks.update(dict.fromkeys(flight.changed, flight))
        self._tasks.start(self._fly(flight), "commit a batch")

    def _new_batch(self, ahead_of: Flight | None = None) -> Batch:
        mirror = self._mirror
        return Batch(
            mirror.tree,
            mirror.sessions,
            self._locks,
            self._incarnation,
            mirror.revision,
            time.time_ns() // 1_000_000,
            self._watches_of,
            self._rules,
            None if ahead_of is None else (ahead_of, ahead_of.batch.draft),
        )

    def _form(self) -> Flight | None:
        batch = self._new_batch()
        taken: dict[Queue, None] = {}
        again: deque[Queue] = deque()  # had their turn and have more
        turn = _Turn.OVER
        queue: Queue | None = None  # the last one that had its turn
        while turn in (_Turn.OVER, _Turn.AGAIN) and (self._ready or again):
            queue = self._ready.popleft() if self._ready else again.popleft()
            turn = self._take(queue, batch, taken)
            if turn is _Turn.AGAIN:
                again.append(queue)
        if self._aside:
            self._ready.extendleft(reversed(self._aside))
            self._aside.clear()
        if turn is _Turn.DUE or (batch.wide and self._flights):
            self._draining = True
            self._put_back(batch)
            for other in reversed(taken):
                other.state = State.READY
                self._ready.appendleft(other)
            if turn is _Turn.DUE and queue is not None:
                self._ready.appendleft(queue)
            return None
        if not batch.requests:
            return None
        return Flight(batch, self._free.pop(), list(taken))

    def _take(self, queue: Queue, batch: Batch, taken: dict[Queue, None]) -> _Turn:
        """Take a turn of a session's requests, which `_ready` no longer holds, into the batch."""
        requests = queue.requests
        add = batch.add
        for _ in range(QUANTUM):
            if not requests:
                if queue not in taken:
                    self._retire(queue)
                return _Turn.OVER
            try:
                fits = add(requests[0])
            except Later:
                if queue.state is not State.BUSY:
                    self._aside.append(queue)
                return _Turn.OVER
            except Held as held:
                if queue not in taken:
                    queue.held += 1
                    # In a crowd that takes turns nobody has to wait longer than for all others.
                    if queue.held > _PATIENCE + len(self._queues) // 8 and self._flights:
                        return _Turn.DUE
                    queue.state = State.WAITING
                    cast(Flight | Hold, held.holder).waiting.append(queue)
                return _Turn.OVER
            except Exception:
                # A fault of ours, of which nobody else has to suffer; PrepRequestProcessor answers so too.
                log.exception("a request could not be evaluated")
                request = requests.popleft()
                request.refusal = ErrorCode.MARSHALLING_ERROR
                _tell(request, self._mirror.zxid)
                continue
            if not fits:
                if queue not in taken:
                    self._ready.appendleft(queue)
                return _Turn.FULL
            requests.popleft()
            if queue.state is not State.BUSY:
                taken[queue] = None
                queue.state = State.BUSY
                queue.held = 0
        return _Turn.AGAIN if requests else _Turn.OVER

    def _put_back(self, batch: Batch) -> None:
        """Take the requests of a batch that was not sent, or not applied, back to their sessions."""
        for request in reversed(batch.requests):
            self._queues[request.caller.session_id].requests.appendleft(request)

    async def _fly(self, flight: Flight) -> None:
        try:
            await self._commit(flight)
        except Exception:
            # A fault of ours: what became of these requests is not known, so their connections go.
            log.exception("a batch of %d requests failed", len(flight.batch.requests))
            self._fail(flight, flight.batch.requests, ErrorCode.CONNECTION_LOSS)

    async def _commit(self, flight: Flight) -> None:
        """Commit one batch, whatever it takes, and hand the outcome to `applied`."""
        lane, batch = flight.lane, flight.batch
        if lane.mod == 0:
            try:
                await self._outcomes.open(lane)
            except EtcdNoSpace:
                self._no_space(flight)
                return
        value = flight.value = lane.next_value("txn")
        first = batch.requests[0]
        metered = not (first.solo and first.operation in _UNMETERED)
        txn, flight.own = plan.build(
            batch,
            self._keys,
            lane.key,
            lane.mod,
            value,
            metered=metered,
            loser=self._incarnation,
            rivals=len(self._mirror.proxies) > 1,  # alone, a proxy loses no race but by its own restart
        )
        self.txns += 1
        self.batch_sizes.note(len(batch.requests))
        flight.history = self._outcomes.history()
        flight.since = self._mirror.revision
        flight.sent = time.monotonic()
        self._by_marker[flight.marker] = flight
        try:
            answer = await self._etcd.txn(txn, TXN_TIMEOUT)
        except EtcdRefused as refused:
            self._refused(flight, refused)
            return
        except EtcdUnknown as unknown:
            if flight.over():
                return
            self.unknown += 1
            no_space = isinstance(unknown, EtcdNoSpace)
            level = logging.DEBUG if no_space else logging.WARNING
            log.log(level, "outcome of a Txn of %d requests is unknown: %s", len(batch.requests), unknown)
            try:
                outcome = await self._outcomes.resolve(flight, no_space)
            except NoSpace:
                self._no_space(flight)
                return
            except Untold:
                self._fail(flight, batch.requests, ErrorCode.CONNECTION_LOSS)
                return
        else:
            if flight.over():
                return
            outcome = self._outcomes.of_answer(flight, answer)
        if flight.over():
            return
        if outcome is None:
            self._retry(flight)
            return
        flight.result = outcome
        if flight.lost_in(self._outcomes.history()):
            self._finish(flight, told=False)
        elif self._mirror.revision >= outcome[0] > flight.since:
            self._finish(flight)
        else:
            flight.answered = time.monotonic()
            self._arrived.append(flight)

    def _refused(self, flight: Flight, refused: EtcdRefused) -> None:
        """etcd refused the Txn for certain: isolate whoever is to blame, and answer it."""
        self.refused += 1
        requests = flight.batch.requests
        if len(requests) > 1:
            for request in requests:
                request.solo = True
            self._retry(flight)
            return
        log.warning("etcd refused a request of %d bytes: %s", requests[0].size, refused)
        self._fail(flight, requests, _CODES.get(refused.kind, ErrorCode.SYSTEM_ERROR))

    def _fail(self, flight: Flight, requests: list[Request], code: ErrorCode) -> None:
        """Answer these requests of a batch that was not applied with an error, and let go of it."""
        for request in requests:
            request.refusal = code
            _tell(request, self._mirror.zxid)
        self._release(flight)

    def _no_space(self, flight: Flight) -> None:
        """etcd's quota is used up: refuse writes clearly, but try again what can do without."""
        if not self._full:
            self._full = True
            log.error("etcd has no space left: writes are refused; compact, defragment and disarm its alarm")
        self._foresight.forget(flight)
        pause = 0.0
        again: list[Request] = []
        refused: list[Request] = []
        held: set[int] = set()  # sessions with a request to be tried again, which those behind it wait for
        for request in flight.batch.requests:
            if request.operation in _UNMETERED and not request.solo:
                request.solo = True
            elif request.operation in _ENDINGS:  # until there is space; only on an etcd that meters more
                pause = _NO_SPACE_PAUSE
            elif request.caller.session_id not in held:
                refused.append(request)
                continue
            again.append(request)
            held.add(request.caller.session_id)
        for request in reversed(again):
            self._queues[request.caller.session_id].requests.appendleft(request)
        for request in refused:
            request.refusal = ErrorCode.SYSTEM_ERROR
            _tell(request, self._mirror.zxid)
        self._release(flight, pause, held)

    def _retry(self, flight: Flight) -> None:
        """Nothing of the batch was applied: evaluate all of it again."""
        self._foresight.forget(flight)
        self._put_back(flight.batch)
        self._release(flight)

    def _finish(self, flight: Flight, *, told: bool = True) -> None:
        """Answer a batch that the mirror has applied; what lost a race is evaluated again.

        `told` is false for a Txn that etcd has forgotten: it may be part of a backup that etcd was restored
        from, or not, and nobody can tell.
        """
        assert flight.result is not None
        _, applied = flight.result
        losers: list[Request] = []
        winners: list[Request] = []
        for component, won in zip(flight.batch.components, applied, strict=True):
            (winners if won else losers).extend(component.requests)
        if told:
            zxid = self._mirror.zxid_of(flight.result[0])
        else:
            log.error("etcd was restored from a backup: what became of %d requests is lost", len(winners))
            zxid = self._mirror.zxid
            for request in winners:
                request.refusal = ErrorCode.CONNECTION_LOSS
        self.committed += len(winners)
        if winners:
            self._courtesy.won(flight.result[0], time.monotonic() - flight.sent)
        if self._full and any(request.operation not in _UNMETERED for request in winners):
            self._full = False
            log.warning("etcd has space again: writes go on")
        pause = 0.0
        self._wary = _WARY if losers else max(0, self._wary - 1)
        if losers:
            self._foresight.forget(flight)
            self.conflicts += 1
            order = {id(request): place for place, request in enumerate(flight.batch.requests)}
            losers.sort(key=lambda request: order[id(request)])
            for request in reversed(losers):
                request.attempts += 1
                self._queues[request.caller.session_id].requests.appendleft(request)
            attempts = max(request.attempts for request in losers)
            if attempts > _AT_ONCE:
                pause = min(_MAX_BACKOFF, _BACKOFF * 2 ** min(attempts - _AT_ONCE, 10)) * random.random()
        # Answer before the sessions' next writes are evaluated, and in the order of the batch.
        for request in winners:
            try:  # as `_tell`, without a call
                request.done(request, zxid)
            except Exception:
                log.exception("a request's answer could not be given")
        applied_at = flight.result[0] if told and not losers else 0
        self._release(flight, pause, {request.caller.session_id for request in losers}, applied_at)

    def _release(
        self, flight: Flight, pause: float = 0.0, paused: set[int] | None = None, applied_at: int = 0
    ) -> None:
        """Free the lane, the paths and the sessions of a flight that is over.

        `applied_at`: the revision at which all of it was applied; 0 if not.
        """
        flight.ended = True
        self._by_marker.pop(flight.marker, None)
        self._flights.discard(flight)
        self._quick -= flight.quick
        self._free.append(flight.lane)
        for path in flight.changed:
            del self._locks[path]
        self._courtesy.released(flight.changed)
        following = None
        if applied_at and not self._draining and flight.history == self._outcomes.history():
            following = self._foresight.settle(flight, applied_at)
        if following is None:
            self._foresight.forget(flight)
        else:
            self.ahead += 1
            for queue in flight.claimed:
                queue.state = State.BUSY
            self._launch(Flight(following, self._free.pop(), list(flight.claimed)))
        flight.batch.dissolve()
        for queue in (*flight.waiting, *flight.queues):
            if queue in flight.claimed:
                continue
            if not queue.requests:
                self._retire(queue)
            elif pause and paused and queue.session_id in paused:
                queue.state = State.WAITING
                asyncio.get_running_loop().call_later(pause, self._make_ready, queue)
            else:
                self._make_ready(queue)
        self._schedule()

    def _go_on(self, queues: Iterable[Queue]) -> None:
        """What these sessions waited for is over."""
        for queue in queues:
            if queue.requests:
                self._make_ready(queue)
            else:
                self._retire(queue)

    def _retire(self, queue: Queue) -> None:
        """Forget a session that has no requests."""
        queue.state = State.IDLE
        if self._queues.pop(queue.session_id, None) is not None:
            self._gathering.left(queue)
        if not self._queues:
            for future in self._idle:
                if not future.done():
                    future.set_result(None)
            self._idle.clear()


_CODES = {
    RefusalKind.LEASE_NOT_FOUND: ErrorCode.SESSION_EXPIRED,
    RefusalKind.TOO_LARGE: ErrorCode.BAD_ARGUMENTS,
    RefusalKind.TOO_MANY_OPS: ErrorCode.BAD_ARGUMENTS,
    RefusalKind.INVALID: ErrorCode.SYSTEM_ERROR,
}


def _tell(request: Request, zxid: int) -> None:
    """Tell a request its end. Whoever stumbles over the answer must not take others down with it."""
    try:
        request.done(request, zxid)
    except Exception:
        log.exception("a request's answer could not be given")
