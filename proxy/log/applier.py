"""Applies items of the log to the state machine, in slices, and reports the outcomes.

Part of the shell: it reads the clock, for the length of a slice, and uses the event loop to continue. For
each request, in this order: the state changes, watch events are sent, the request's own proxy answers it, and
the module that manages sessions gets the changes of sessions. Between two slices clients are served; they
read the state between two requests. A request that takes long by itself is applied in several slices:
meanwhile the machine is `midway`, and clients are served only what the request does not change.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from time import perf_counter, time_ns
from typing import Protocol

from codec.constants import ErrorCode
from proxy.log.follower import Apply, Item, ProxyCame, ProxyGone, RecordChanged
from proxy.log.outbox import Outbox, Sent
from proxy.log.peers import Peers
from proxy.log.pending import Pending
from proxy.log.record import TreeNotServable, unreadable
from proxy.log.stats import Stats
from proxy.state.difference import Difference, moving_sessions
from proxy.state.level import UnknownLevel
from proxy.state.machine import Disagreement, Machine
from proxy.state.outcome import Outcome, SessionChange
from proxy.state.pieces import Result, Unfinished, Work
from proxy.state.tree import dropping
from proxy.state.watches import TreeEvent, WatchTable
from proxy.support.slices import SLICE
from schema.entry import Entry, Request, decode_entry
from schema.errors import BadValue

log = logging.getLogger(__name__)

_FIRED = 64  # events of one request between two looks at the clock

Membership = ProxyCame | ProxyGone | RecordChanged
_new = tuple.__new__


class Effects(Protocol):
    """Who hears of what was applied, besides the requests' own `done`."""

    def session_changed(self, change: SessionChange) -> None:
        """A session began, came to another proxy, or ended."""

    def proxies_changed(self, item: Membership) -> None:
        """A proxy came or went, or the tree's record changed, at this place in the order of entries."""

    def disagreed(self, disagreement: Disagreement) -> None:
        """An entry carries a digest that differs from ours."""

    def over_quota(self, path: str, what: str) -> None:
        """A request exceeds a soft quota."""

    def appended(self) -> None:
        """An entry of our own was applied: there is room for another one."""

    def failed_to_apply(self, error: Exception) -> None:
        """Applying cannot go on."""


class Applier:
    """Runs the items of the log on one machine."""

    def __init__(
        self,
        machine: Machine,
        watches: WatchTable,
        outbox: Outbox,
        effects: Effects,
        stats: Stats,
        slice_seconds: float = SLICE,
    ) -> None:
        self._machine = machine
        machine.in_pieces = True
        self._watches = watches
        self._outbox = outbox
        self._effects = effects
        self._stats = stats
        self._slice = slice_seconds
        self._backlog: deque[Item] = deque()
        self._work: Iterator[None] | None = None
        self._began = self._deadline = 0.0
        self._scheduled = False  # the next slice is on its way
        self._holds = 0  # whoever wants the state to stay as it is
        self._when_whole: list[Callable[[], None]] = []
        self._drained: list[asyncio.Future[None]] = []
        #: Our own incarnation: whose entries have requests that wait for their answers.
        self.own = ""
        #: What the entries of the other proxies show.
        self.peers = Peers()
        #: The position of the last entry applied.
        self.position = 0
        #: The clock of the last entry applied, milliseconds since 1970.
        self.clock = 0
        #: When the last entry of our own to be applied was sent, by time.perf_counter.
        self.sent_at = 0.0
        #: Nothing more is applied: an item could not be.
        self.broken = False

    @property
    def backlog(self) -> int:
        """Items that wait."""
        return len(self._backlog)

    @property
    def idle(self) -> bool:
        """Whether all that was fed is applied."""
        return self._work is None

    @property
    def slice_began(self) -> float:
        """When the current slice of applying began, by time.perf_counter."""
        return self._began

    def feed(self, items: Sequence[Item]) -> None:
        """Apply items: a first slice at once, the rest as the loop gets to it."""
        if self.broken:
            return
        self._backlog.extend(items)
        if self._work is None and self._backlog:
            self._work = self._run()
            self._go_on()

    def hold(self) -> None:
        """Apply nothing more, until `release`: the request that is being applied is the last."""
        self._holds += 1
        self._deadline = 0.0

    def release(self) -> None:
        """Go on, in another turn of the loop, unless there are other holds."""
        self._holds -= 1
        if not self._holds and self._work is not None:
            self._schedule()

    def when_whole(self, callback: Callable[[], None]) -> None:
        """While the machine is `midway`: call back, in a turn of the loop, when it is not any more."""
        self._when_whole.append(callback)

    async def drained(self) -> None:
        """Wait until all that was fed is applied."""
        while self._work is not None:
            waiting = asyncio.get_running_loop().create_future()
            self._drained.append(waiting)
            await waiting

    async def become(self, loaded: Machine, then: Callable[[], None]) -> None:
        """Take over a state that was loaded; to be called with nothing left to apply.

        Watches fire for what differs. Requests of our own that the loaded state holds lose their answers.
        `then` is called before any client can read the new state.
        """
        assert self._work is None, "a state is loaded while entries are being applied"
        self._work = self._becoming(loaded, then)
        self._go_on()
        await self.drained()

    def answer(self, pending: Pending, zxid: int, error: int, body: bytes = b"") -> None:
        """Tell a request its outcome."""
        try:
            pending.applied(zxid, error, body)
        except Exception:
            log.exception("cannot make the reply to a request of session 0x%x", pending.session_id)

    # -- how -----------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        """One slice."""
        self._scheduled = False
        work = self._work
        if self._holds:
            return  # `release` comes back to this
        assert work is not None
        self._began = perf_counter()
        self._deadline = self._began + self._slice
        try:
            for _ in work:
                if not self._holds:
                    self._schedule()
                return
        except Exception as error:
            if not isinstance(error, TreeNotServable | UnknownLevel):  # these explain themselves
                log.exception("the log cannot be applied any further")
            self.broken = True
            self._machine.midway = False
            self._backlog.clear()
            self._effects.failed_to_apply(error)
        self._work = None
        if self._drained:
            drained, self._drained = self._drained, []
            for waiting in drained:
                if not waiting.done():
                    waiting.set_result(None)

    def _run(self) -> Iterator[None]:
        """Apply what waits; yields when the slice is over."""
        backlog = self._backlog
        while backlog:
            item = backlog.popleft()
            if type(item) is Apply:
                sent = self._outbox.get(item.number) if item.incarnation == self.own else None
                yield from self._foreign(item) if sent is None else self._mine(item, sent)
            else:
                self._effects.proxies_changed(item)  # type: ignore[arg-type]
            if perf_counter() >= self._deadline and backlog:
                yield

    def _becoming(self, loaded: Machine, then: Callable[[], None]) -> Iterator[None]:
        """Clients read the former state until the two are compared, and nothing while they are told."""
        machine = self._machine
        moved = yield from self._in_slices(moving_sessions(machine.sessions, loaded.sessions))
        difference = Difference(machine.tree.nodes, loaded.tree.nodes)
        if self._watches:
            yield from self._in_slices(difference.finding())
        former = machine.tree.nodes
        machine.replace(loaded)
        self._stats.reloads += 1
        zxid = machine.zxid
        machine.midway = True
        machine.begin_events()
        yield from self._in_slices(self._firing(difference.events(), zxid))
        for change in moved:
            self._session_changed(change)
            if perf_counter() >= self._deadline:
                yield
        for pending, error in self._outbox.skipped(machine.applied.get(self.own, 0)):
            self.answer(pending, zxid, error)
            if perf_counter() >= self._deadline:
                yield
        then()
        machine.end_events()
        self._be_whole()
        del difference, loaded
        yield from self._in_slices(dropping(former))
        yield from self._run()

    def _begin(self, item: Apply, clock: int, rules: int, checkpoint: int, digest: int) -> None:
        disagreement = self._machine.begin(item.incarnation, item.number, clock, rules, checkpoint, digest)
        self.clock = clock
        if disagreement is not None:
            self._stats.disagreements += 1
            self._effects.disagreed(disagreement)

    def _end(self, item: Apply, count: int) -> None:
        self._machine.end()
        self.position = max(self.position, item.position)
        stats = self._stats
        stats.applied_entries += 1
        stats.applied_bytes += len(item.value)
        stats.applied_requests += count

    def _decode(self, item: Apply) -> Entry:
        """The entry. Raises TreeNotServable: to skip it would make another tree of the log."""
        try:
            return decode_entry(item.value)
        except BadValue as error:
            raise unreadable(item.incarnation, item.number, error) from error

    def _foreign(self, item: Apply) -> Iterator[None]:
        """An entry of another proxy, or one of ours that nobody here waits for."""
        machine = self._machine
        clock, rules, checkpoint, digest, requests = self._decode(item)
        self._begin(item, clock, rules, checkpoint, digest)
        if item.incarnation != self.own:
            now = time_ns() // 1_000_000
            self.peers.note(item.incarnation, clock, checkpoint, machine.entries, now)
        machine.watched = bool(self._watches)
        execute = machine.execute
        events, changes, warnings = machine.events, machine.session_changes, machine.warnings
        for request in requests:
            try:
                execute(request)
            except Unfinished as long:
                yield from self._at_length(long.work)
            if events:
                many = self._fire(events, machine.zxid)
                if many is not None:
                    yield from self._telling_many(many)
                events.clear()
            if changes or warnings:
                self._tell()
            if perf_counter() >= self._deadline:
                yield
                machine.watched = bool(self._watches)
        self._end(item, len(requests))
        if item.incarnation == self.own:
            self._outbox.applied(item.number)

    def _mine(self, item: Apply, sent: Sent) -> Iterator[None]:
        """An entry of ours: its requests are decoded already, and their clients wait for answers."""
        kept: list[bool] | None = None
        if item.value != sent.original:
            if sent.kept is None or item.value != sent.value:
                yield from self._strange(item, sent)
                return
            kept = sent.kept
            self._stats.voided += 1
        machine = self._machine
        header = sent.header
        self.sent_at = sent.began
        self._begin(item, header.clock, header.rules, header.checkpoint, header.digest)
        execute = machine.execute
        events, changes, warnings = machine.events, machine.session_changes, machine.warnings
        watches = self._watches
        data, children = watches.data.by_path, watches.children.by_path
        persistent, recursive = watches.persistent.by_path, watches.recursive.by_path
        for index, pending in enumerate(sent.requests):
            if kept is not None and not kept[index]:
                self.answer(pending, machine.zxid, sent.error)
                continue
            # Reads that wait behind a request set watches when it is answered.
            machine.watched = bool(data or children or persistent or recursive)
            fields = pending.kind, pending.session_id, pending.opcode, pending.identities, pending.body
            # `Request(*fields)` goes through a function written in Python, this does not.
            try:
                error, body = execute(_new(Request, fields), pending.fields, True)
            except Unfinished as long:
                error, body = yield from self._at_length(long.work)
            zxid = machine.zxid
            if events:
                many = self._fire(events, zxid)
                if many is not None:
                    yield from self._telling_many(many)
                events.clear()
            try:
                pending.applied(zxid, error, body)
            except Exception:
                log.exception("cannot make the reply to a request of session 0x%x", pending.session_id)
            if changes or warnings:
                self._tell()
            if perf_counter() >= self._deadline:
                yield
        self._end(item, len(sent.requests) if kept is None else sum(kept))
        self._settle(item.number)

    def _at_length(self, work: Work[Outcome]) -> Generator[None, None, Outcome]:
        """A request that takes long, and its events. The slice ends with it: others have waited."""
        machine = self._machine
        machine.midway = True
        outcome = Outcome(*(yield from self._in_slices(work)))
        events = machine.events
        if events:
            # A client that got one of them must not get a reply with the state, or zxid, from before it.
            machine.begin_events()
        yield from self._in_slices(self._firing(events, machine.next_zxid))
        events.clear()
        machine.publish_zxid()
        self._be_whole()
        return outcome

    def _telling_many(self, work: Work[None]) -> Iterator[None]:
        """The events of a short request for very many clients: nobody reads meanwhile.

        Some of them would see the change before its event, others be told an older zxid after it.
        """
        self._machine.midway = True
        self._machine.begin_events()
        yield from self._in_slices(work)
        self._machine.end_events()
        self._be_whole()

    def _be_whole(self) -> None:
        """Nothing is half done any more. The slice ends."""
        self._machine.midway = False
        self._deadline = 0.0
        waiting, self._when_whole = self._when_whole, []
        for callback in waiting:
            asyncio.get_running_loop().call_soon(callback)

    def _in_slices(self, work: Work[Result]) -> Generator[None, None, Result]:
        """Do all of it, with a yield at the end of each slice."""
        while True:
            try:
                next(work)
            except StopIteration as end:
                result: Result = end.value
                return result
            if perf_counter() >= self._deadline:
                yield

    def _strange(self, item: Apply, sent: Sent) -> Iterator[None]:
        """What is in the log under our number is nothing that we sent: somebody else wrote there."""
        log.error(
            "entry %d of %s is not what this proxy sent under its number", item.number, item.incarnation
        )
        yield from self._foreign(item)
        for pending in sent.requests:
            self.answer(pending, self._machine.zxid, ErrorCode.CONNECTION_LOSS)
        self._settle(item.number, sent)

    def _settle(self, number: int, sent: Sent | None = None) -> None:
        """An entry of ours is applied: answer what was refused behind it."""
        sent = self._outbox.applied(number) or sent
        if sent is not None:
            for pending, error in sent.after:
                self.answer(pending, self._machine.zxid, error)
        self._effects.appended()

    def _tell(self) -> None:
        """Quotas that are exceeded, and changes of sessions."""
        warnings = self._machine.warnings
        if warnings:
            for path, what in warnings:
                self._effects.over_quota(path, what)
            warnings.clear()
        changes = self._machine.session_changes
        if changes:
            changed = list(changes)
            changes.clear()
            for change in changed:
                self._session_changed(change)

    def _session_changed(self, change: SessionChange) -> None:
        try:
            self._effects.session_changed(change)
        except Exception:
            log.exception("cannot process a change of session 0x%x", change.session_id)

    def _fire(self, events: Sequence[TreeEvent], zxid: int) -> Work[None] | None:
        """Notify whoever watches; where there are very many, by the work that is returned then."""
        fire = self._watches.fire
        for place, event in enumerate(events):
            try:
                many = fire(event, zxid)
            except Exception:
                log.exception("watches of %s could not be fired", event.path)
                continue
            if many is not None:
                return self._firing(events[place + 1 :], zxid, many)
        return None

    def _firing(self, events: Iterable[TreeEvent], zxid: int, many: Work[None] | None = None) -> Work[None]:
        """The same in pieces, after what is left of an event before."""
        if many is not None:
            yield from self._safely(many)
        fire = self._watches.fire
        for count, event in enumerate(events, 1):
            try:
                many = fire(event, zxid)
            except Exception:
                log.exception("watches of %s could not be fired", event.path)
                continue
            if many is not None:
                yield from self._safely(many)
            if count % _FIRED == 0:
                yield

    def _safely(self, firing: Work[None]) -> Work[None]:
        try:
            yield from firing
        except Exception:
            log.exception("watches could not be fired")
