"""Group commit: while Txns are in flight further writes gather, and become the next Txn.

The asynchronous shell around `batch` and `plan`. It keeps each session's writes in order (one Txn in flight a
session), evaluates again what lost a race, and finds out what became of a Txn whose answer was lost.
"""

import asyncio
import enum
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from codec.constants import ErrorCode
from proxy import plan
from proxy.batch import MAX_REQUESTS, Batch, Component, Later, Request
from proxy.courtesy import Courtesy, Hold
from proxy.draft import Entry, Held
from proxy.etcd.interface import Etcd
from proxy.etcd.model import (
    Compare,
    Delete,
    EtcdNoSpace,
    EtcdRefused,
    EtcdUnknown,
    Get,
    Put,
    RangeResult,
    RefusalKind,
    Txn,
    TxnResult,
)
from proxy.latency import Histogram
from proxy.mirror import Mirror
from proxy.ops.session import END, END_IF_GONE, TAKE_OVER
from proxy.ops.sync import SYNC
from proxy.rules import DEFAULT_RULES, Rules
from proxy.tasks import Tasks
from proxy.watches import HeldWatches
from schema.keys import Keyspace

log = logging.getLogger(__name__)

LANES = 4
TXN_TIMEOUT = 5.0  # seconds until the outcome of a Txn counts as unknown
QUANTUM = 64  # requests of one session before another has its turn
_AT_ONCE = 4  # lost races of a request after each of which it is tried again at once: winners take turns
_BACKOFF = 0.002  # seconds; doubled with each race lost after these, with jitter
_MAX_BACKOFF = 0.25
_NO_SPACE_PAUSE = 1.0  # seconds between tries to end a session while etcd is full and takes not even that
_RETRY = 0.05  # seconds between tries to learn what became of a Txn


# What goes on while etcd's quota is used up, alone in its Txn: it adds no key, and nothing could end without.
_ENDINGS = (END, END_IF_GONE)
_UNMETERED = (*_ENDINGS, TAKE_OVER, SYNC)


class _State(enum.Enum):
    IDLE = "nothing to do"
    READY = "waits for a Txn to be formed"
    BUSY = "has requests in a Txn in flight"
    WAITING = "waits for a Txn in flight that holds its path, or for a pause after a lost race"


class _Turn(enum.Enum):
    OVER = "the session has no more that can go into this batch"
    AGAIN = "the session has more"
    FULL = "the batch is full"


class _Queue:
    """The writes of one session, in order."""

    __slots__ = ("requests", "session_id", "state")

    def __init__(self, session_id: int) -> None:
        self.session_id = session_id
        self.requests: deque[Request] = deque()
        self.state = _State.IDLE


class _Lane:
    """One marker key; at most one Txn in flight uses it."""

    __slots__ = ("key", "mod", "serial")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.mod = 0  # 0: to be opened before use
        self.serial = 0

    def next_value(self, what: str) -> bytes:
        """A marker value that no other Txn of this lane has."""
        self.serial += 1
        return f"{what} {self.serial}".encode()


class _NoSpace(Exception):
    """A Txn was not applied since etcd's quota is used up."""


class _Untold(Exception):
    """Nothing is left that could tell what became of a Txn."""


class _Flight:
    """A batch under way: its lane, its sessions and who waits for it."""

    __slots__ = (
        "answered",
        "batch",
        "changed",
        "claimed",
        "ended",
        "history",
        "lane",
        "marker",
        "next",
        "own",
        "passed",
        "queues",
        "result",
        "sent",
        "since",
        "value",
        "waiting",
    )

    def __init__(self, batch: Batch, lane: _Lane, queues: list[_Queue]) -> None:
        self.batch = batch
        self.changed = batch.changed_paths()
        self.lane = lane
        self.queues = queues
        self.waiting: list[_Queue] = []
        self.next: Batch | None = None  # evaluated as if this one had been applied
        self.claimed: dict[_Queue, None] = {}  # sessions with requests in it
        self.passed: set[_Queue] = set()  # sessions whose next request cannot be evaluated so
        self.marker = lane.key
        self.value = b""  # what its Txn puts at the lane's marker
        self.own: dict[bytes, Entry] = {}  # what it puts at the keys of nodes
        self.history: object = None  # see Committer._history
        self.sent = 0.0  # time.monotonic()
        self.answered = 0.0  # time.monotonic() of the RPC's answer
        self.since = 0  # the mirror's revision when its Txn was sent
        self.ended = False  # answered; the RPC may still be under way
        self.result: tuple[int, list[bool]] | None = None  # revision, and which components were applied

    def lost_in(self, history: object) -> bool:
        """Whether its answer, if there is one, comes from an etcd whose history is not this one."""
        # An answer from before the mirror's revision of that time comes from the restored etcd itself.
        return self.history != history and self.result is not None and self.result[0] > self.since

    @property
    def is_steady(self) -> bool:
        """Whether it is likely to be applied as it is."""
        first = self.batch.requests[0]
        return not (self.ended or self.batch.wide or first.solo or first.attempts)

    def over(self) -> bool:
        """Whether it has ended; by its events, that happens while its RPC is still under way."""
        return self.ended


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
        self._queues: dict[int, _Queue] = {}
        self._ready: deque[_Queue] = deque()
        self._aside: list[_Queue] = []  # sessions whose next request does not go into the batch being formed
        self._lane_count = 0
        self._free = [self._new_lane() for _ in range(lanes)]
        self._flights: set[_Flight] = set()
        self._arrived: list[_Flight] = []  # answered by etcd, not yet seen by the mirror
        self._by_marker: dict[bytes, _Flight] = {}  # flights under way by their lane's key
        self._marked: list[_Flight] = []  # their marker is in the revision that the mirror is applying
        self._beaten: set[str] = set()  # numbers of its components that say that they have lost
        self._locks: dict[str, _Flight | Hold] = {}
        self._courtesy = Courtesy(mirror, self._locks, self._go_on)
        self._pump_scheduled = False
        self._draining = False  # a request that needs the proxy's Txns to itself comes next or is under way
        self._idle: list[asyncio.Future[None]] = []
        self._full = False  # etcd's quota was used up when last asked
        self.txns = 0
        self.committed = 0
        self.ahead = 0  # Txns that had been evaluated before the one ahead of them was over
        self.conflicts = 0
        self.unknown = 0  # Txns whose answer was lost
        self.refused = 0  # Txns that etcd refused for certain
        self.batch_sizes = Histogram()  # of requests

    def _new_lane(self) -> _Lane:
        self._lane_count += 1
        return _Lane(self._keys.marker(self._incarnation, self._lane_count))

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
            queue = self._queues[session_id] = _Queue(session_id)
        queue.requests.append(request)
        if queue.state is _State.IDLE:
            self._make_ready(queue)
        else:
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
                self._finish_early(flight, revision)
        self._beaten.clear()
        if not self._arrived:
            return
        history = self._history()
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

    def _finish_early(self, flight: _Flight, revision: int) -> None:
        """Answer a Txn by its events, which mostly come before the RPC's own answer."""
        applied = [
            self._shows(component, revision, str(number))
            for number, component in enumerate(flight.batch.components)
        ]
        if None not in applied:
            flight.lane.mod = revision
            flight.result = revision, [bool(won) for won in applied]
            self._finish(flight)

    def _shows(self, component: Component, revision: int, number: str) -> bool | None:
        """Whether the mirror, at the Txn's `revision`, shows the component applied; None: no telling."""
        nodes = self._mirror.tree.nodes
        for entry in component.entries:
            if entry.exists and (entry.node_changed or entry.counter_changed):
                node = nodes.get(entry.path)
                return node is not None and revision == (node.mod if entry.node_changed else node.counter_mod)
        for session_id, value in component.session_changes:
            record = self._mirror.sessions.get(session_id)
            if value is None:
                return record is None
            return record is not None and record.mod == revision
        return number not in self._beaten if component.changes_nothing else None

    def _history(self) -> object:
        """What changes when etcd has been restored from a backup: the same revisions then mean others."""
        record = self._mirror.record
        return None if record is None else record.offsets

    def _make_ready(self, queue: _Queue) -> None:
        queue.state = _State.READY
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
            flight = self._form()
            if flight is None:
                break
            self._launch(flight)
        if not self._ready and not self._draining:  # whoever waits for a lane goes first
            for flight in self._flights:
                if flight.is_steady:
                    self._look_ahead(flight)

    def _launch(self, flight: _Flight) -> None:
        # Nothing joins a wide one: any change in its ranges would have it evaluated again, for ever.
        self._draining = flight.batch.wide
        self._flights.add(flight)
        self._locks.update(dict.fromkeys(flight.changed, flight))
        self._tasks.start(self._fly(flight), "commit a batch")

    def _new_batch(self, ahead_of: _Flight | None = None) -> Batch:
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

    def _look_ahead(self, flight: _Flight) -> None:
        """Evaluate what waits for a Txn in flight, so that it can go out as soon as that has been applied.

        Otherwise the proxy would idle while etcd works, and etcd while the proxy does, wherever all writes go
        to one node or come from one session.
        """
        batch = flight.next or self._new_batch(flight)
        for queue in (*flight.waiting, *flight.queues):
            requests = queue.requests
            if queue in flight.passed:
                continue
            for _ in range(min(len(requests), QUANTUM)):
                if len(batch.requests) >= MAX_REQUESTS:
                    return
                request = requests[0]
                try:
                    fits = request.of_session and not request.solo and batch.add(request)
                except (Later, Held):
                    fits = False
                except Exception:
                    log.debug(
                        "a request could not be evaluated ahead", exc_info=True
                    )  # it is told in its turn
                    fits = False
                if not fits:
                    flight.passed.add(queue)
                    break
                if batch.wide:
                    batch.requests.clear()
                    flight.passed.add(queue)
                    flight.next = None
                    return
                flight.next = batch
                flight.claimed[queue] = None
                requests.popleft()

    def _follow(self, flight: _Flight, revision: int) -> bool:
        """Send what was evaluated ahead of a Txn of which all has been applied; False if that cannot be."""
        batch = flight.next
        if batch is None or self._draining or not self._locks.keys().isdisjoint(batch.draft.entries):
            return False
        batch.draft.settle(revision, self._mirror.zxid_of(revision))
        following = _Flight(batch, self._free.pop(), list(flight.claimed))
        for queue in flight.claimed:
            queue.state = _State.BUSY
        flight.next = None
        self.ahead += 1
        self._launch(following)
        return True

    def _forget_ahead(self, flight: _Flight) -> None:
        """Take back what was evaluated ahead of a Txn: things have not come as was supposed."""
        batch, flight.next = flight.next, None
        if batch is not None:
            self._put_back(batch)
            batch.dissolve()
        flight.claimed = {}

    def _form(self) -> _Flight | None:
        batch = self._new_batch()
        taken: dict[_Queue, None] = {}
        again: deque[_Queue] = deque()  # had their turn and have more
        turn = _Turn.OVER
        while turn is not _Turn.FULL and (self._ready or again):
            queue = self._ready.popleft() if self._ready else again.popleft()
            turn = self._take(queue, batch, taken)
            if turn is _Turn.AGAIN:
                again.append(queue)
        if self._aside:
            self._ready.extendleft(reversed(self._aside))
            self._aside.clear()
        if batch.wide and self._flights:
            self._draining = True
            self._put_back(batch)
            for queue in reversed(taken):
                queue.state = _State.READY
                self._ready.appendleft(queue)
            return None
        if not batch.requests:
            return None
        return _Flight(batch, self._free.pop(), list(taken))

    def _take(self, queue: _Queue, batch: Batch, taken: dict[_Queue, None]) -> _Turn:
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
                if queue.state is not _State.BUSY:
                    self._aside.append(queue)
                return _Turn.OVER
            except Held as held:
                if queue not in taken:
                    queue.state = _State.WAITING
                    cast(_Flight | Hold, held.holder).waiting.append(queue)
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
            if queue.state is not _State.BUSY:
                taken[queue] = None
                queue.state = _State.BUSY
        return _Turn.AGAIN if requests else _Turn.OVER

    def _put_back(self, batch: Batch) -> None:
        """Take the requests of a batch that was not sent, or not applied, back to their sessions."""
        for request in reversed(batch.requests):
            self._queues[request.caller.session_id].requests.appendleft(request)

    async def _fly(self, flight: _Flight) -> None:
        try:
            await self._commit(flight)
        except Exception:
            # A fault of ours: what became of these requests is not known, so their connections go.
            log.exception("a batch of %d requests failed", len(flight.batch.requests))
            self._fail(flight, flight.batch.requests, ErrorCode.CONNECTION_LOSS)

    async def _commit(self, flight: _Flight) -> None:
        """Commit one batch, whatever it takes, and hand the outcome to `applied`."""
        lane, batch = flight.lane, flight.batch
        if lane.mod == 0:
            try:
                await self._open(lane)
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
        flight.history = self._history()
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
                outcome = await self._resolve(flight, value, no_space)
            except _NoSpace:
                self._no_space(flight)
                return
            except _Untold:
                self._fail(flight, batch.requests, ErrorCode.CONNECTION_LOSS)
                return
        else:
            if flight.over():
                return
            outcome = self._outcome(flight, answer)
        if flight.over():
            return
        if outcome is None:
            self._retry(flight)
            return
        flight.result = outcome
        if flight.lost_in(self._history()):
            self._finish(flight, told=False)
        elif self._mirror.revision >= outcome[0] > flight.since:
            self._finish(flight)
        else:
            flight.answered = time.monotonic()
            self._arrived.append(flight)

    def _outcome(self, flight: _Flight, answer: TxnResult) -> tuple[int, list[bool]] | None:
        """(revision, applied by component) of a Txn's answer; None if the lane was lost."""
        if not answer.succeeded:
            # The marker is not as we left it: somebody swept it, since this proxy seemed dead.
            log.warning("marker %r was swept; opening another", flight.lane.key)
            flight.lane = self._new_lane()
            return None
        flight.lane.mod = answer.revision
        results = answer.responses[1:]
        return answer.revision, [isinstance(result, TxnResult) and result.succeeded for result in results]

    async def _open(self, lane: _Lane) -> None:
        """Put a lane's marker for the first time; a Txn never has to expect an absent one.

        Raises EtcdNoSpace, after which the marker may be there all the same.
        """
        level = logging.WARNING
        while lane.mod == 0:
            marker = plan.unmetered(Put(lane.key, lane.next_value("open")))
            txn = Txn((Compare(lane.key, 0),), (marker,), (Get(lane.key),))
            try:
                answer = await self._etcd.txn(txn, TXN_TIMEOUT)
            except EtcdNoSpace:
                raise
            except (EtcdUnknown, EtcdRefused) as error:
                log.log(level, "cannot open a marker: %s", error)
                level = logging.DEBUG  # told once is enough for an outage
                await asyncio.sleep(_RETRY)
                continue
            lane.mod = answer.revision if answer.succeeded else _only(answer).mod_revision

    async def _resolve(self, flight: _Flight, value: bytes, no_space: bool) -> tuple[int, list[bool]] | None:
        """Learn what became of a Txn whose answer was lost, first making sure that it cannot happen later.

        A fence on the lane's marker either wins, and the lost Txn's compare can never hold again, or it loses
        to the lost Txn, whose marker then tells the revision (DESIGN 4.7).
        """
        lane = flight.lane
        while not flight.over():
            fence = lane.next_value("fence")
            try:
                answer = await self._etcd.txn(
                    Txn(
                        (Compare(lane.key, lane.mod),),
                        (plan.unmetered(Put(lane.key, fence)),),
                        (Get(lane.key),),
                    ),
                    TXN_TIMEOUT,
                )
            except (EtcdUnknown, EtcdRefused) as error:
                log.debug("fence: %s", error)
                await asyncio.sleep(_RETRY * random.uniform(0.5, 1.5))
                continue
            if flight.over():
                break
            if answer.succeeded:
                lane.mod = answer.revision
                if no_space:
                    raise _NoSpace
                return None
            found = answer.responses[0]
            if not isinstance(found, RangeResult) or not found.kvs:
                # Swept, since this proxy seemed dead: perhaps with the lost Txn's own marker.
                log.error("marker %r was swept; what became of its Txn cannot be told", lane.key)
                flight.lane = self._new_lane()
                raise _Untold
            marker = found.kvs[0]
            lane.mod = marker.mod_revision
            if marker.value != value:
                return None  # an earlier fence, whose own answer was lost, has won
            return await self._applied_components(flight, marker.mod_revision)
        return None  # the Txn's own events have come meanwhile

    async def _applied_components(self, flight: _Flight, revision: int) -> tuple[int, list[bool]] | None:
        """Which components of a Txn that was applied at `revision` had their guards hold."""
        return revision, [
            await self._was_applied(component, revision) for component in flight.batch.components
        ]

    async def _was_applied(self, component: Component, revision: int) -> bool:
        write = plan.witness(component, self._keys)
        if write is None:
            return False  # it only answers; asking again is as good
        while True:
            try:
                found = await self._etcd.range(Get(write.key, revision=revision), TXN_TIMEOUT)
            except EtcdUnknown:
                await asyncio.sleep(_RETRY)
                continue
            except EtcdRefused as refused:
                log.error("cannot tell what became of a write at revision %d: %s", revision, refused)
                for request in component.requests:
                    request.refusal = ErrorCode.CONNECTION_LOSS
                return True
            if isinstance(write, Delete):
                return not found.kvs
            return bool(found.kvs) and found.kvs[0].mod_revision == revision

    def _refused(self, flight: _Flight, refused: EtcdRefused) -> None:
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

    def _fail(self, flight: _Flight, requests: list[Request], code: ErrorCode) -> None:
        """Answer these requests of a batch that was not applied with an error, and let go of it."""
        for request in requests:
            request.refusal = code
            _tell(request, self._mirror.zxid)
        self._release(flight)

    def _no_space(self, flight: _Flight) -> None:
        """etcd's quota is used up: refuse writes clearly, but try again what can do without."""
        if not self._full:
            self._full = True
            log.error("etcd has no space left: writes are refused; compact, defragment and disarm its alarm")
        self._forget_ahead(flight)
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

    def _retry(self, flight: _Flight) -> None:
        """Nothing of the batch was applied: evaluate all of it again."""
        self._forget_ahead(flight)
        self._put_back(flight.batch)
        self._release(flight)

    def _finish(self, flight: _Flight, *, told: bool = True) -> None:
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
        if losers:
            self._forget_ahead(flight)
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
        self, flight: _Flight, pause: float = 0.0, paused: set[int] | None = None, applied_at: int = 0
    ) -> None:
        """Free the lane, the paths and the sessions of a flight that is over.

        `applied_at`: the revision at which all of it was applied; 0 if not.
        """
        flight.ended = True
        self._by_marker.pop(flight.marker, None)
        self._flights.discard(flight)
        self._free.append(flight.lane)
        for path in flight.changed:
            del self._locks[path]
        self._courtesy.released(flight.changed)
        if not (applied_at and self._follow(flight, applied_at)):
            self._forget_ahead(flight)
        flight.batch.dissolve()
        for queue in (*flight.queues, *flight.waiting):
            if queue in flight.claimed:
                continue
            if not queue.requests:
                self._retire(queue)
            elif pause and paused and queue.session_id in paused:
                queue.state = _State.WAITING
                asyncio.get_running_loop().call_later(pause, self._make_ready, queue)
            else:
                self._make_ready(queue)
        self._schedule()

    def _go_on(self, queues: Iterable[_Queue]) -> None:
        """What these sessions waited for is over."""
        for queue in queues:
            if queue.requests:
                self._make_ready(queue)
            else:
                self._retire(queue)

    def _retire(self, queue: _Queue) -> None:
        """Forget a session that has no requests."""
        queue.state = _State.IDLE
        self._queues.pop(queue.session_id, None)
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


def _only(answer: TxnResult) -> Any:
    found = answer.responses[0]
    assert isinstance(found, RangeResult)
    return found.kvs[0]
