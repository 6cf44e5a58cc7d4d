"""Applies items of the log to the state machine, in slices, and reports the outcomes.

Part of the shell: it reads the clock. For each request, in this order: the state changes, watch events are
sent, the proxy that appended the request answers it, and the session keeper gets the changes of sessions.

All of it is a plain loop, which the `StateWorker` runs in slices. Most slices end between two requests. A
slice may also end within a long request, or between its watch events: then the state is partially applied,
and no client may read it.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, assert_never

from codec.constants import ErrorCode
from codec.operation_names import constant_name
from proxy.log.append.outbox import Outbox
from proxy.log.append.sent import Sent
from proxy.log.append.syncs import Asked, Proven
from proxy.log.context import Context, SessionKeeper
from proxy.log.follow.log_order import Apply, EntriesGone, Gap, Item, ProxyCame, ProxyGone, RecordChanged
from proxy.log.living import Peers
from proxy.log.record import TreeNotServable
from proxy.log.slices import StateWorker
from proxy.state.difference import Difference, session_changes
from proxy.state.level import UnknownLevel
from proxy.state.machine import Machine
from proxy.state.outcome import CarriedOver, Disagreement, QuotaExceeded, SearchRefused
from proxy.state.tree import free
from proxy.state.watches import TreeEvent, WatchTable
from proxy.support import probe
from proxy.support.throttled_log import ThrottledLog
from schema.entry import Kind, RequestFields

log = logging.getLogger(__name__)

_THROTTLED_OP = int(ErrorCode.THROTTLED_OP)

# Of one request: a multi may exceed a quota with each of its parts, and few warnings are logged.
_MOST_WARNINGS = 16
_LONG = 0.1  # seconds at this proxy, from which on a request is logged


class BudgetSpent(NamedTuple):
    """A request of a client here was refused by the budget of a path."""

    path: str


class RoomFreed(NamedTuple):
    """An entry of our own was applied, or syncs were answered without one: there is room for more."""


class NotOurs(NamedTuple):
    """Another process has written an entry of this incarnation, under a number that was not used yet."""

    number: int


class Broken(NamedTuple):
    """The log cannot be applied any further."""

    error: Exception


class Between(NamedTuple):
    """Work to be done between two entries."""

    work: Callable[[], None]


#: What the applier notices besides outcomes and changes of sessions, at its place in the order of entries.
Notice = (
    ProxyCame
    | ProxyGone
    | Gap
    | EntriesGone
    | Disagreement
    | QuotaExceeded
    | SearchRefused
    | BudgetSpent
    | RoomFreed
    | NotOurs
    | Broken
)
_ROOM_FREED = RoomFreed()


class Applier:
    """Runs the items of the log on one machine."""

    def __init__(
        self,
        context: Context,
        watches: WatchTable,
        outbox: Outbox,
        sessions: SessionKeeper,
        notice: Callable[[Notice], None],
        worker: StateWorker,
    ) -> None:
        """`notice` takes each notice when it arises."""
        self._machine = context.machine
        self._stats = context.stats
        self._clock = context.environment.clock
        self._throttled_log = ThrottledLog(log, self._clock)
        self._watches = watches
        self._outbox = outbox
        self._sessions = sessions
        self._notice = notice
        self._backlog: deque[Item | Proven | Between] = deque()
        self._apply_all = partial(self._do, self._apply_backlog)
        #: Runs the applier in slices. Readers of the state ask it whether the state is whole.
        self.worker = worker
        context.machine.transaction.pause = worker  # so that the slice may end within a long request
        #: What the entries of the other proxies show.
        self.peers = Peers()
        #: The position of the last entry applied.
        self.position = 0
        #: When the last entry of our own, or the last read for syncs, was sent, by the clock's perf_counter.
        self.sent_at = 0.0
        #: Called after each request, while somebody reads what requests change. Set it between two entries.
        self.recorder: Callable[[RequestFields], None] | None = None
        #: An item could not be applied, so nothing more is.
        self.broken = False

    @property
    def backlog(self) -> int:
        """Items that wait."""
        return len(self._backlog)

    def apply(self, items: Sequence[Item | Proven | Between]) -> None:
        """Apply items: the first slice at once, the rest in later turns of the loop."""
        if self.broken:
            return
        self._backlog.extend(items)
        if self._backlog and self.worker.done:
            self.worker.run(self._apply_all)

    async def become(self, loaded: Machine, then: Callable[[], None]) -> None:
        """Replace the state by one that was loaded. Call it only when all items are applied.

        Watches fire for what differs. The outcome of own requests that the loaded state contains is unknown.
        `then` is called before any client can read the new state.
        """
        assert self.worker.done, "a state is loaded while entries are being applied"
        probe.current.loading(self._machine.zxid, loaded.zxid)
        self.worker.run(partial(self._do, partial(self._become, loaded, then)))
        await self.worker.drained()

    # -- how -----------------------------------------------------------------------------------------------

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except MemoryError:
            self.broken = True  # the process ends
            raise
        except Exception as error:
            if not isinstance(error, TreeNotServable | UnknownLevel):  # these explain themselves
                log.exception("the log cannot be applied any further")
            self.broken = True
            self._backlog.clear()
            self.worker.finished_step()
            self._notice(Broken(error))

    def _apply_backlog(self) -> None:
        outbox = self._outbox
        syncs = outbox.syncs
        while self._backlog:
            item = self._backlog.popleft()
            match item:
                case Apply():
                    is_own = item.incarnation == outbox.incarnation
                    sent = outbox.get(item.number) if is_own else None
                    if sent is None:
                        self._apply_other(item)
                        if is_own:
                            self._notice(NotOurs(item.number))
                    else:
                        if syncs:
                            self._answer_syncs(syncs.take_all(), sent.began)
                        self._apply_own(item, sent)
                case Proven():
                    if outbox.incarnation:
                        self._answer_syncs(syncs.proven(item.asked), item.began)
                        self._notice(_ROOM_FREED)
                case Between():
                    item.work()
                case ProxyCame() | ProxyGone() | Gap() | EntriesGone():
                    self.worker.changes_nothing = True  # the sessions of a dead proxy may be many
                    self._notice(item)
                    self.worker.changes_nothing = False
                case RecordChanged():
                    pass  # `LogFollower` has the record
                case _:
                    assert_never(item)
            if self._backlog:
                self.worker.rest()

    def _answer_syncs(self, asked: Asked, began: float) -> None:
        """Answer syncs that are in no entry. `began`: when that which proves them was sent."""
        self.sent_at = began
        machine = self._machine
        for pending, error in asked:
            outcome = (
                (error, b"") if error else machine.sync(pending, pending.fields, self._outbox.incarnation)
            )
            pending.answer(machine.zxid, *outcome)
            self.worker.rest()

    def _apply_other(self, item: Apply) -> None:
        """An entry for which no request here waits."""
        machine = self._machine
        clock, rules, checkpoint, digest, requests = item.decode()
        self._begin(item, clock, rules, checkpoint, digest)
        own = self._outbox.incarnation
        if own and item.incarnation != own:  # no proxy writes a copy
            milliseconds = self._clock.time_ns() // 1_000_000
            self.peers.note(item.incarnation, clock, checkpoint, machine.entries, milliseconds)
        # Always the same lists: each `execute` empties and fills them.
        events, warnings, changes = (
            machine.transaction.events,
            machine.transaction.warnings,
            machine.session_changes,
        )
        worker, now, recorder = self.worker, self._clock.perf_counter, self.recorder
        machine.transaction.watched = bool(self._watches)
        for request in requests:
            machine.execute(request)
            if recorder is not None:
                recorder(request)
            if events:
                self._fire(events, machine.zxid)
            if not worker.is_whole:
                self._finished_long(request, events)
            if warnings or changes:
                self._report()
                machine.transaction.watched = bool(self._watches)
            if now() >= worker.deadline:
                worker.interrupt()
                # Meanwhile clients may have set the first ones.
                machine.transaction.watched = bool(self._watches)
        self._end(item, len(requests))

    def _apply_own(self, item: Apply, sent: Sent) -> None:
        """An entry of ours: its requests are decoded already, and their clients wait for answers."""
        kept: Sequence[bool] | None = None
        if item.value != sent.original:
            if item.value != sent.value:
                self._apply_strange(item, sent)
                return
            kept = sent.kept
            self._stats.replaced += 1
        machine = self._machine
        header = sent.header
        self.sent_at = sent.began
        self._begin(item, header.clock, header.rules, header.checkpoint, header.digest)
        # Always the same lists: each `execute` empties and fills them.
        events, warnings, changes = (
            machine.transaction.events,
            machine.transaction.warnings,
            machine.session_changes,
        )
        worker, now, recorder = self.worker, self._clock.perf_counter, self.recorder
        watches = self._watches
        for index, pending in enumerate(sent.requests):
            if kept is not None and not kept[index]:
                pending.answer(machine.zxid, sent.error)
                worker.rest()
                continue
            # Reads that wait behind a request set watches when it is answered.
            machine.transaction.watched = bool(watches)
            err, body = machine.execute(pending, pending.fields, True)
            zxid = machine.zxid
            if recorder is not None:
                recorder(pending)
            if events:
                self._fire(events, zxid)
            if not worker.is_whole:
                self._finished_long(pending, events)
            pending.answer(zxid, err, body)
            if err == _THROTTLED_OP:
                self._notice(BudgetSpent(machine.throttled))
            if warnings or changes:
                self._report()
            if now() >= worker.deadline:
                worker.interrupt()
        self._end(item, len(sent.requests) if kept is None else sum(kept))
        self._settle(item.number)

    def _apply_strange(self, item: Apply, sent: Sent) -> None:
        """Another process has written an entry under a number of this proxy."""
        log.error(
            "entry %d of %s is not what this proxy sent under its number", item.number, item.incarnation
        )
        self._apply_other(item)
        for pending in sent.requests:
            pending.answer(self._machine.zxid, ErrorCode.CONNECTION_LOSS)
        self._settle(item.number)

    def _become(self, loaded: Machine, then: Callable[[], None]) -> None:
        """Clients read the former state until both are compared. While events are sent, no client reads."""
        machine = self._machine
        worker = self.worker
        worker.changes_nothing = True
        moved = session_changes(machine.sessions, loaded.sessions, worker)
        difference = Difference(machine.tree.nodes, loaded.tree.nodes)
        if self._watches:
            difference.find(worker)
        worker.changes_nothing = False
        former = machine.tree.nodes
        machine.replace(loaded)
        self._stats.reloads += 1
        zxid = machine.zxid
        for events in worker.batches(difference.events()):
            self._fire(events, zxid)
        for change in worker.each(moved):
            self._sessions.session_changed(change)
        for pending, error in worker.each(
            self._outbox.skipped(machine.applied.get(self._outbox.incarnation, 0))
        ):
            pending.answer(zxid, error)
        probe.current.loaded()
        then()
        worker.finished_step()
        worker.changes_nothing = True
        del difference, loaded
        free(former, worker)
        worker.changes_nothing = False
        self._apply_backlog()

    def _begin(self, item: Apply, clock: int, rules: int, checkpoint: int, digest: int) -> None:
        disagreement = self._machine.begin(item.incarnation, item.number, clock, rules, checkpoint, digest)
        if disagreement is not None:
            self._stats.disagreements += 1
            self._notice(disagreement)

    def _end(self, item: Apply, count: int) -> None:
        self._machine.end()
        if not self.worker.is_whole:  # a digest of very large nodes
            self.worker.finished_step()
        probe.current.applied(self._machine)
        self.position = max(self.position, item.position)
        stats = self._stats
        stats.applied_entries += 1
        stats.applied_bytes += len(item.value)
        stats.applied_requests += count
        stats.applied_cost += item.cost(count, self._machine.transaction.parts)

    def _fire(self, events: Sequence[TreeEvent], zxid: int) -> None:
        """Notify the clients that watch."""
        self._watches.fire(events, zxid, self.worker)

    def _finished_long(self, request: RequestFields, events: list[TreeEvent]) -> None:
        """A request took more than a slice, as it does at all proxies: say whose it was."""
        count = len(events)
        self.worker.clear(events)  # the next request would do so at once
        seconds = self.worker.finished_step()
        self._stats.long_requests += 1
        self._stats.long_seconds += seconds
        transaction, kind = self._machine.transaction, request.kind
        # The next request may have the same zxid.
        (zxid, changes), transaction.many = transaction.many, (0, 0)
        if seconds >= _LONG:
            self._throttled_log.warn(
                "applying took long: %s of session 0x%x took %d ms, with %s changes and %d watch events",
                constant_name(request.opcode) if kind == Kind.CLIENT else Kind(kind).name,
                request.session_id,
                seconds * 1000,
                changes if zxid == transaction.zxid else "few",
                count,
            )

    def _settle(self, number: int) -> None:
        """An entry of ours is applied: it leaves the outbox; what was refused after it is answered."""
        sent = self._outbox.settle(number)
        if sent is not None:
            for pending, error in sent.after:
                pending.answer(self._machine.zxid, error)
        self._notice(_ROOM_FREED)

    def _report(self) -> None:
        """Report quotas that are exceeded, and changes of sessions."""
        machine = self._machine
        for warning in machine.transaction.warnings[:_MOST_WARNINGS]:
            self._notice(warning)
        if machine.session_changes:
            for change in tuple(machine.session_changes):
                if isinstance(change, CarriedOver):
                    self.worker.changes_nothing = True
                    self._sessions.all_changed(change)
                    self.worker.changes_nothing = False
                else:
                    self._sessions.session_changed(change)
                    self.worker.rest()
