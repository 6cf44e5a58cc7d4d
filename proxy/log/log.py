"""A proxy's end of the replicated log: it puts the parts together, and forwards what the stream delivers.

Requests are submitted to `Log.outbox`. Each request gets its outcome by a call (`Pending.answer`). Changes
of sessions and proxies are reported to the keeper of sessions, in the order of the log.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, assert_never

from proxy.etcd.model import Delete, EtcdError, Txn
from proxy.log.append.head_reader import HeadReader
from proxy.log.append.incarnations import Incarnations
from proxy.log.append.outbox import Outbox, SpentBudgets
from proxy.log.append.pending import CallbackRequest, Pending
from proxy.log.append.space import Space
from proxy.log.append.syncs import sync_entry
from proxy.log.applier import Applier, Broken, BudgetSpent, Notice, NotOurs, RoomFreed
from proxy.log.combine.combining import Combining
from proxy.log.context import Context, SessionKeeper
from proxy.log.follow.catch_up import Loaded
from proxy.log.follow.copy_lag import CopyLag
from proxy.log.follow.log_follower import LogFollower
from proxy.log.follow.log_order import EntriesGone, Gap, Item, ProxyCame, ProxyGone
from proxy.log.follow.standby_signs import Standby
from proxy.log.living import LivingProxies, Peer, living_proxy
from proxy.log.load.start import load_to_serve
from proxy.log.recent import Recent
from proxy.log.record import TreeNotServable, unknown_level
from proxy.log.slices import StateWorker
from proxy.log.status import Contact, LogStatus
from proxy.state.level import UnknownLevel
from proxy.state.machine import Machine
from proxy.state.outcome import Disagreement, QuotaExceeded, SearchRefused
from proxy.state.pause import NO_PAUSE, Pause
from proxy.state.watches import WatchTable
from proxy.support import probe
from proxy.support.rates import rates_text
from proxy.support.throttled_log import LogsByPath, ThrottledLog
from schema.budgets import Rule, encode_rule
from schema.entry import Kind, encode_carry_over, encode_epoch
from schema.zxids import zxid_to_exceed

log = logging.getLogger(__name__)

_DRAIN_INTERVAL = 0.02  # seconds
_TAKE_BACK = 2.0  # seconds for one request


class Log:
    """One proxy's end of the replicated log."""

    def __init__(
        self,
        context: Context,
        watches: WatchTable,
        sessions: SessionKeeper,
        stopped_serving: Callable[[str], None],
        disagreed: Callable[[Disagreement], object],
        entries_gone: Callable[[EntriesGone], object],
    ) -> None:
        """`context.machine` is the state; `load` fills it.

        `stopped_serving(reason)`: the state may be old or wrong; close all connections, and accept none until
        `Contact.in_touch`. `disagreed`: the digest of another proxy differs from ours; each is reported once.
        `entries_gone`: entries that had taken effect were deleted from the log (`upkeep.deleted_entries`).
        """
        machine, stats, clock = context.machine, context.stats, context.environment.clock
        self.context = context
        self._sessions = sessions
        self.stopped_serving = stopped_serving
        self._disagreed = disagreed
        self._entries_gone = entries_gone
        self.machine = machine
        self.stats = stats
        self.living = LivingProxies()
        #: The room that etcd has, and what is refused while there is little.
        self.space = Space(context.settings.reserve, machine, stats)
        #: Takes requests for the log.
        self.outbox = Outbox(self.space, SpentBudgets(machine, lambda path: self._notice(BudgetSpent(path))))
        worker = StateWorker(clock, lengths=context.settings.lengths)
        self.applier = Applier(context, watches, self.outbox, sessions, self._notice, worker)
        #: What requests have changed, for those that read it.
        self.recent = Recent(machine, self.applier)
        self.follower = LogFollower(
            context.etcd,
            context.keys,
            machine,
            consumer=self,
            successor=self,
            limit=context.settings.max_staleness,
            clock=clock,
            drained=self.applier.worker.drained,
            standby=Standby(context.etcd, context.keys, context.settings.standby_within, clock),
        )
        #: Reads for the syncs that are in no entry.
        self.head = HeadReader(
            context, self.outbox, self.follower, lambda proven: self.applier.apply([proven])
        )
        peers = self.applier.peers
        peers.clock_changed = self._clock_changed
        self.combining = Combining(
            context, self.living, lambda: peers.quiet_for(clock.time_ns() // 1_000_000)
        )
        self.incarnations = Incarnations(
            context, self.outbox, self.head, self.follower, self.combining, sessions, stopped_serving
        )
        self._lag = CopyLag(context.etcd, context.keys.lag)
        self._running: list[asyncio.Task[None]] = []
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._last_disagreement: Disagreement | None = None
        self._throttled_log = ThrottledLog(log, clock)
        self._about_path = LogsByPath(partial(ThrottledLog, log, clock))

    @property
    def incarnation(self) -> str:
        """The name under which this proxy appends, or did so last."""
        return self.incarnations.registration.current.name

    @property
    def is_copy(self) -> bool:
        """As `SeenRecord.is_copy`."""
        return self.follower.record.is_copy

    def contact(self) -> Contact:
        """The contact to etcd now."""
        incarnations, current = self.incarnations, self.incarnations.registration.current
        staleness = self.follower.staleness
        return Contact(
            silence=staleness.silence,
            keep_alive_sent=incarnations.keep_alive_sent,
            lease=current.granted,
            rank=self.living.rank(current.name),
            freshness=staleness.freshness,
            why=staleness.why,
            is_alone=staleness.standby.is_silent,
            is_copy=self.is_copy,
            window=incarnations.appender.window,
            ended_at=incarnations.ended_at,
            is_behind=staleness.is_behind,
        )

    def status(self) -> LogStatus:
        """The state of the log, for operators and for the writer of snapshots."""
        current, follower, outbox = self.incarnations.registration.current, self.follower, self.outbox
        standby = follower.staleness.standby
        return LogStatus(
            living=self.living,
            peers=self.applier.peers,
            stats=self.stats,
            incarnation=current.name,
            is_registered=not current.is_over,
            is_full=outbox.is_full,
            pressure=self.space.pressure,
            record=follower.record.value,
            position=self.applier.position,
            backlog=self.applier.backlog,
            outstanding=outbox.outstanding,
            unanswered=outbox.unanswered,
            age=follower.staleness.age,
            replayed=(follower.last_load.log_bytes, follower.last_load.log_requests),
            fell_back=follower.last_load.fell_back,
            combined=self.combining.state,
            standby_silence=standby.silence if standby.is_needed else None,
            lag=self._lag.value,
        )

    def learned_space(self, in_use: int, quota: int, log_bytes: int) -> float:
        """As Space.learned."""
        record = self.follower.record.value
        interval = self.space.learned(in_use, quota, None if record is None else record.current, log_bytes)
        if self.space.needs_entry():
            self.outbox.submit(sync_entry())
        return interval

    def propose_budgets(self, rules: Iterable[Rule]) -> None:
        """Make the budgets of this proxy's operator those of the tree, where they differ. Others stay."""
        there = set(self.machine.budgets.rules)

        def done(rule: Rule, _pending: Pending, _zxid: int, error: int, _body: bytes) -> None:
            if error:
                log.error("the budget %s=%s was refused (error %d)", rule.path, rates_text(rule), error)
            else:
                log.info("the budget of %s is %s now", rule.path, rates_text(rule))

        for rule in rules:
            if rule not in there:
                body = encode_rule(*rule)
                self.outbox.submit(CallbackRequest(Kind.BUDGET, body, partial(done, rule)))

    def _begin_epoch(self, above: int) -> None:
        """Request an epoch above this zxid, unless another proxy has begun one since the tree was restored.

        Zxids have to exceed all that clients have seen, also after an earlier restore that the backup lacks.
        """
        cluster_id, machine = self.follower.last_load.cluster_id, self.machine

        def is_wanted() -> bool:
            return machine.cluster_id != cluster_id or machine.zxid <= above

        def done(pending: Pending, _zxid: int, error: int, _body: bytes) -> None:
            if error and is_wanted():
                log.error("cannot begin a new epoch of zxids (error %d); trying again", error)
                self.outbox.submit_first([pending])

        body = encode_epoch(cluster_id, zxid_to_exceed(self.context.environment.clock.time(), above))
        # Before all writes that wait: these would get zxids that clients have seen.
        self.outbox.submit_first([CallbackRequest(Kind.EPOCH, body, done, is_wanted)])

    async def carry_over(
        self, incarnation: str, then: Callable[[], object] | None = None, own: str = ""
    ) -> int:
        """Move the sessions of another incarnation to this one; returns an error, or 0.

        `then` is called at this place in the log. `own`: not done under another incarnation than this.
        """
        moved: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def done(_pending: Pending, _zxid: int, error: int, _body: bytes) -> None:
            if then is not None:
                then()
            if not moved.done():
                moved.set_result(error)

        def is_wanted() -> bool:
            return not moved.done() and own in ("", self.incarnation)

        body = encode_carry_over(incarnation)
        self.outbox.submit_first([CallbackRequest(Kind.CARRY_OVER, body, done, is_wanted)])
        return await moved

    async def take_back(self, successor: str, went: Contact) -> None:
        """Get the sessions back that another process, which has ended, may have carried over.

        It may have an append in flight. None takes effect once its key is gone. `went`: the contact to etcd
        when the sessions went.
        """
        with self.incarnations.without_sessions(went.keep_alive_sent):
            key = self.context.keys.proxy(successor)
            is_deleted = False  # this proxy may not have seen yet that the other one has come
            while not is_deleted or successor in self.living:
                try:
                    await self.context.etcd.txn(Txn((), (Delete(key),)), _TAKE_BACK)
                    is_deleted = True
                except EtcdError as error:
                    log.warning("cannot delete the key of proxy %s: %s; trying again", successor, error)
                await asyncio.sleep(_DRAIN_INTERVAL)
            while code := await self.carry_over(successor):
                log.error("sessions were not carried back (error %d); trying again", code)

    # -- life ----------------------------------------------------------------------------------------------

    async def load(self, progress: Callable[[int], None] | None = None, timeout: float | None = None) -> None:
        """Load the state, also of a copy; retried until etcd answers, or for `timeout` seconds.

        Raises TreeNotServable, EtcdRefused where etcd refuses for certain, and EtcdError after the timeout.
        """
        context = self.context
        loaded = await load_to_serve(
            context.etcd,
            context.keys,
            context.settings.levels,
            even_copy=True,
            progress=progress,
            timeout=timeout,
        )
        self._note_disagreements(loaded)
        self.machine.replace(loaded.machine)
        self.deliver(await self.follower.continue_from(loaded))

    async def start(self, copies: Callable[[], None] = lambda: None) -> None:
        """Follow the log and register; returns when the state is caught up with etcd as of now.

        If the tree is a copy, `copies` is called when the state is caught up, and this proxy writes nothing
        until the tree is complete.
        """
        self._run(self.follower.run(), "follow the log")
        if self.is_copy:
            await self._until(self.follower.staleness.caught_up())
            log.warning(
                "the tree under %s follows another one, now at zxid 0x%x: waiting for `zketcd follow"
                " --finish`",
                self.context.keys.prefix.decode(),
                self.machine.zxid,
            )
            reads = self.context.tasks.start(self._lag.run(), "read how far the tree is behind")
            copies()
            await self._until(self.follower.record.complete.wait())
            reads.cancel()
            await self.applier.worker.drained()
            log.info("the tree is complete, at zxid 0x%x", self.machine.zxid)
        if self.follower.last_load.cluster_id != self.machine.cluster_id:
            log.warning("this tree was restored into another etcd cluster; zxids continue in a new epoch")
            self._begin_epoch(self.machine.zxid)
        keep_alive = self.incarnations.registration.keep_alive(lambda: self.follower.staleness.cut_off)
        self._run(keep_alive, "keep this proxy's lease alive")
        self._run(self.incarnations.run(), "keep an incarnation")
        await self._until(self.incarnations.ready.wait(), self.follower.staleness.caught_up())
        self._loaded()

    def _run(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """Run some work until `stop`. The proxy cannot continue if it ends."""
        self._running.append(self.context.tasks.start(work, what, reported=(TreeNotServable, EtcdError)))

    async def _until(self, *awaited: Coroutine[Any, Any, object]) -> None:
        """Wait for all of these. Raises what ends the proxy's work."""
        waits = [self.context.tasks.start(each, "wait for the log") for each in awaited]
        failure = self.context.tasks.start(self.failed(), "wait for a failure")
        try:
            while not all(wait.done() for wait in waits):
                unfinished = [wait for wait in waits if not wait.done()]
                await asyncio.wait((*unfinished, failure), return_when=asyncio.FIRST_COMPLETED)
                if failure.done():
                    raise failure.result()
        finally:
            for task in (*waits, failure):
                task.cancel()

    async def failed(self) -> BaseException:
        """Wait for a fault after which the proxy cannot continue.

        The caller reports it: TreeNotServable and EtcdError are not in the log.
        """
        ended, _ = await asyncio.wait((*self._running, self._failure), return_when=asyncio.FIRST_COMPLETED)
        task = ended.pop()
        if task.cancelled():
            return RuntimeError(f"{task} was cancelled")
        return task.exception() or RuntimeError(f"{task} ended")

    async def drain(self, timeout: float) -> bool:
        """Wait until every request has its outcome; False if `timeout` has passed before."""
        now = asyncio.get_running_loop().time
        deadline = now() + timeout
        while self.outbox.outstanding:
            if now() >= deadline:
                return False
            await asyncio.sleep(_DRAIN_INTERVAL)
        return True

    async def stop(self) -> None:
        """Stop appending and following."""
        self.incarnations.appender.stop()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        if self._failure.done() and not self._failure.cancelled():
            self._failure.exception()  # seen
        await self.incarnations.retire()

    # -- the consumer of what is followed ------------------------------------------------------------------

    def deliver(self, items: list[Item]) -> None:
        """Apply items of the log."""
        self.applier.apply(items)
        self.combining.applied()
        if self.applier.worker.done:  # while entries wait to be applied, the order is ahead of the state
            self.follower.order.retain(self.machine.applied)
        self.head.delivered(self.follower.order.revision)

    async def load_anew(self, *, is_wrong: bool) -> Loaded:
        """Load the tree as it is now."""
        if not self.applier.worker.is_whole:
            probe.current.reached("a reload during a long write")
        context = self.context
        loaded = await load_to_serve(
            context.etcd, context.keys, context.settings.levels, make=False, even_copy=self.is_copy
        )
        self._note_disagreements(loaded)
        return loaded

    def _note_disagreements(self, loaded: Loaded) -> None:
        if not (found := loaded.disagreements):
            return
        self.stats.disagreements += len(found)
        log.error(
            "%d entries have another digest than this replay of the log, which the tree is loaded from. The"
            " first is of proxy %s: after %d entries %016x, and %016x here. Its sender was wrong; or the keys"
            " were copied one by one, which loses their order: then restore a snapshot of etcd",
            *(len(found), found[0].incarnation, found[0].checkpoint, found[0].theirs, found[0].ours),
        )

    async def replace(self, machine: Machine, *, restored: bool) -> None:
        """Continue with a state that was loaded anew."""
        await self.applier.worker.drained()
        zxid = self.machine.zxid
        await self.applier.become(machine, lambda: self._replaced(zxid, restored=restored))

    def _replaced(self, zxid: int, *, restored: bool) -> None:
        """The state was replaced. `zxid`: the last one of the former state, which clients have seen."""
        log.info("the state was loaded anew: zxid 0x%x in place of 0x%x", self.machine.zxid, zxid)
        self.recent.replaced()
        self.follower.staleness.trust()
        if restored:  # those that come back tell what they have seen
            self.stopped_serving("etcd was restored from a backup: clients may have seen what is undone")
        if self.is_copy:
            return
        self.incarnations.check_known(restored=restored)
        if restored:
            self._begin_epoch(zxid)
        self.incarnations.appender.make_room()
        self._loaded(self.applier.worker)

    def _loaded(self, pause: Pause = NO_PAUSE) -> None:
        # Proxies that came since the former state are delivered after that was freed, which can take long.
        living = {proxy.incarnation for proxy in self.living}
        self._sessions.loaded(living | self.follower.order.living.keys(), pause)

    def _clock_changed(self, name: str, peer: Peer) -> None:
        """The clock of another proxy begins or ceases to differ from ours."""
        who, ahead = self.living.get(name) or name, -peer.difference / 1000
        if not peer.differs:
            log.info("the clock of proxy %s agrees with this host's again", who)
            return
        how = "ahead of this host's" if ahead > 0 else "behind this host's, or its entries are late"
        log.warning("the clock of proxy %s is %.0f s %s: `zketcd proxies` compares all", who, abs(ahead), how)

    # -- what the applier notices --------------------------------------------------------------------------

    def _notice(self, notice: Notice) -> None:
        """Handle a notice, at its place in the order of the log."""
        match notice:
            case RoomFreed():
                self.incarnations.appender.make_room()
            case NotOurs(number):
                self.incarnations.taken(number)
            case ProxyCame():
                self._proxy_came(notice)
            case ProxyGone(name, _):
                proxy = self.living.get(name)
                log.info("proxy %s is gone", proxy or name)
                self.living.gone(name)
                self.applier.peers.forget(name)
                self.combining.proxy_gone(name)
                self.incarnations.registration.key_gone(name)
                self._sessions.proxy_gone(name, proxy.value.lease if proxy is not None else 0)
            case Gap(name, number, behind):
                log.warning(
                    "entry %d of %s is missing from the log, so the %d behind it have no effect. That is"
                    " normal if the proxy ended while it appended them: no client was answered. If somebody"
                    " has deleted the key %s, restore etcd from a backup",
                    *(number, name, behind, self.context.keys.entry(name, number).decode()),
                )
            case EntriesGone():
                if not self.is_copy:  # its follower truncates the log, and no proxy writes a snapshot
                    self._entries_gone(notice)
            case QuotaExceeded(path, what):
                self._about_path.warn(path, "quota exceeded at %s: %s", what)
            case SearchRefused(path, session_id):
                words = (
                    "removeRecursive of %s by session 0x%x was refused with NOTEMPTY: such requests that"
                    " failed have searched too many nodes. Each further request of any client allows 2 more"
                )
                self._about_path.warn(path, words, session_id)
            case BudgetSpent(path):
                self.stats.throttled[path] += 1
                words = "the budget of %s is spent: requests are refused with THROTTLEDOP"
                self._about_path.warn(path, words)
            case Disagreement():
                self._disagreement(notice)
            case Broken(error):
                if isinstance(error, UnknownLevel):
                    prefix, levels = self.context.keys.prefix.decode(), self.context.settings.levels
                    error = TreeNotServable(unknown_level(prefix, error.level, levels))
                if not self._failure.done():
                    self._failure.set_exception(error)
            case _:
                assert_never(notice)

    def _proxy_came(self, item: ProxyCame) -> None:
        proxy = living_proxy(item.incarnation, item.revision, item.value)
        self.living.add(proxy)
        log.info("proxy %s has come", proxy)
        if not proxy.value.levels:
            log.error("proxy %s: release %s", proxy, proxy.value.version)
        self._sessions.proxy_came(item.incarnation)

    def _disagreement(self, found: Disagreement) -> None:
        """The digest of another proxy differs from ours: one of the two is wrong."""
        if found == self._last_disagreement:
            return  # each entry of that proxy has the digest, until its next checkpoint
        self._last_disagreement = found
        self._throttled_log.error(
            "proxy %s says that after %d entries its digest was %016x; ours was %016x",
            found.incarnation,
            found.checkpoint,
            found.theirs,
            found.ours,
        )
        if self.is_copy:
            self.follower.distrust()  # only `zketcd follow` writes here
        else:
            self._disagreed(found)
