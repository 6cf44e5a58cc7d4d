"""A proxy's end of the replicated log: it puts the parts together, and forwards what the stream delivers.

Requests are submitted to `Log.outbox`. Each request gets its outcome by a call (`Pending.applied`). Changes
of sessions and proxies are reported to the keeper of sessions, in the order of the log.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial

from proxy.etcd.interface import Etcd
from proxy.etcd.model import Delete, EtcdError, Txn
from proxy.etcd.versions import reads_are_new
from proxy.log.append.head_reader import HeadReader
from proxy.log.append.incarnations import Incarnations
from proxy.log.append.outbox import Outbox
from proxy.log.append.pending import CallbackRequest, Pending
from proxy.log.append.space import Space
from proxy.log.applier import Applier, MembershipItem
from proxy.log.budgets import SpentBudgets
from proxy.log.contact import Contact
from proxy.log.follow.catch_up import Loaded
from proxy.log.follow.follow import Stream
from proxy.log.follow.follower import Follower, Item, ProxyCame, ProxyGone
from proxy.log.follow.staleness import Staleness
from proxy.log.follow.watch_guard import WatchGuard
from proxy.log.listeners import Listener, SessionKeeper
from proxy.log.members import Member, Members
from proxy.log.record import TreeNotServable, unknown_level
from proxy.log.settings import LogSettings
from proxy.log.slices import StateWorker
from proxy.log.start import load
from proxy.log.stats import Stats
from proxy.log.status import LogStatus
from proxy.state.level import UnknownLevel
from proxy.state.machine import Disagreement, Machine
from proxy.state.watches import WatchTable
from proxy.support import probe
from proxy.support.environment import HOST, Environment
from proxy.support.tasks import Tasks
from proxy.support.throttled_log import ThrottledLog
from schema.entry import Kind, encode_carry_over
from schema.errors import BadValue
from schema.keys import Keyspace
from schema.record import ProxyValue, decode_proxy

log = logging.getLogger(__name__)

_DRAIN_INTERVAL = 0.02  # seconds
_TAKE_BACK = 2.0  # seconds for one request


class Log:
    """One proxy's end of the replicated log."""

    def __init__(
        self,
        etcd: Etcd,
        keys: Keyspace,
        tasks: Tasks,
        machine: Machine,
        watches: WatchTable,
        sessions: SessionKeeper,
        listener: Listener,
        settings: LogSettings = LogSettings(),  # noqa: B008 - immutable
        environment: Environment = HOST,
    ) -> None:
        """`machine` is the state; `load` fills it."""
        self._etcd = etcd
        self._keys = keys
        self._tasks = tasks
        self._sessions = sessions
        self._settings = settings
        self.machine = machine
        self.members = Members()
        self.stats = Stats()
        #: Takes requests for the log.
        self.outbox = Outbox()
        self.outbox.space = Space(settings.reserve, machine, self.stats)
        self.outbox.budgets = SpentBudgets(machine, lambda: self.incarnation, self.over_budget)
        self._reports = _Reports(listener, environment)
        follower = Follower(keys)
        worker = StateWorker(environment.clock, lengths=settings.lengths)
        self.applier = Applier(
            machine, watches, self.outbox, self, sessions, self.stats, worker, environment.clock
        )
        self._stream = Stream(etcd, keys, follower, self, self._load_anew, environment.clock)
        watch_guard = WatchGuard(
            follower, etcd.watched_member_is_suspect, self._stream.renew, settings.max_staleness / 2
        )
        self.outbox.head = HeadReader(
            etcd,
            keys,
            machine,
            self.outbox,
            watch_guard,
            lambda proven: self.applier.feed([proven]),
            environment.clock,
        )
        self.incarnations = Incarnations(
            etcd,
            keys,
            tasks,
            settings,
            machine,
            self.outbox,
            self.applier,
            follower,
            sessions,
            self.stats,
            watch_guard,
            listener.stopped_serving,
            environment,
        )
        self.staleness = Staleness(
            etcd,
            keys,
            follower,
            machine,
            watch_guard,
            listener.stopped_serving,
            self._stream.left_out,
            settings.max_staleness,
            environment.clock,
        )
        self._running: list[asyncio.Task[None]] = []
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def incarnation(self) -> str:
        """The name under which this proxy appends, or did so last."""
        return self.incarnations.membership.incarnation

    def contact(self) -> Contact:
        """The contact to etcd now."""
        incarnations, membership = self.incarnations, self.incarnations.membership
        return Contact(
            silence=self.staleness.silence,
            keep_alive_sent=incarnations.keep_alive_sent,
            lease=membership.granted,
            rank=self.members.rank(membership.incarnation),
            serving=self.staleness.serving,
            ended=incarnations.ended,
        )

    def status(self) -> LogStatus:
        """The state of the log, for operators and for the writer of snapshots."""
        membership, stream, outbox = self.incarnations.membership, self._stream, self.outbox
        return LogStatus(
            members=self.members,
            peers=self.applier.peers,
            stats=self.stats,
            incarnation=membership.incarnation,
            is_registered=not membership.is_over,
            is_full=outbox.full,
            pressure=None if outbox.space is None else outbox.space.pressure,
            record=stream.record,
            position=self.applier.position,
            backlog=self.applier.backlog,
            outstanding=outbox.outstanding,
            unanswered=outbox.unanswered,
            age=self.staleness.age,
            replayed=stream.replayed,
            fell_back=stream.fell_back,
        )

    def learned_space(self, in_use: int, quota: int, log_bytes: int) -> float:
        """As Space.learned."""
        record, space = self._stream.record, self.outbox.space
        assert space is not None
        return space.learned(in_use, quota, None if record is None else record.current, log_bytes)

    def learned_versions(self, versions: Iterable[str]) -> None:
        """The versions of etcd's members: by them, a read may take the place of an entry for a sync."""
        head = self.outbox.head
        assert head is not None
        known = list(versions)
        head.is_trusted = bool(known) and all(map(reads_are_new, known))

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
        self.outbox.submit_first([CallbackRequest(Kind.CARRY_OVER, 0, 0, (), body, done, is_wanted)])
        return await moved

    async def take_back(self, heir: str, went: Contact) -> None:
        """Get the sessions back that another process, which has ended, may have carried over.

        It may have an append in flight. None takes effect once its key is gone. `went`: the contact to etcd
        when the sessions went.
        """
        with self.incarnations.without_sessions(went.keep_alive_sent):
            key = self._keys.proxy(heir)
            while heir in self.members:
                try:
                    await self._etcd.txn(Txn((), (Delete(key),)), _TAKE_BACK)
                except EtcdError as error:
                    log.warning("cannot delete the key of proxy %s: %s; trying again", heir, error)
                await asyncio.sleep(_DRAIN_INTERVAL)
            while code := await self.carry_over(heir):
                log.error("sessions were not carried back (error %d); trying again", code)

    def distrust(self) -> None:
        """The state differs from what the log makes: show it to no client, and load the tree anew."""
        if not self.applier.worker.is_whole:
            probe.current.reached("a reload during a long write")
        self.staleness.distrust()
        self._stream.distrust()

    # -- life ----------------------------------------------------------------------------------------------

    async def load(self, progress: Callable[[int], None] | None = None, timeout: float | None = None) -> None:
        """Load the state; retried until etcd answers, or for `timeout` seconds.

        Raises TreeNotServable, EtcdRefused where etcd denies access, and EtcdError after the timeout.
        """
        levels = self._settings.levels
        loaded = await load(
            self._etcd, self._keys, levels=levels, progress=progress, wait=True, timeout=timeout
        )
        self.machine.become(loaded.machine)
        self.machine.session_changes.clear()
        self.deliver(await self._stream.begin(loaded))
        if loaded.cluster_id != self.machine.cluster_id:
            log.warning("this tree was restored into another etcd cluster; zxids continue in a new epoch")
            self.incarnations.new_epoch(loaded.cluster_id, self.machine.zxid)

    async def start(self) -> None:
        """Follow the log and register; returns when the state is caught up with etcd as of now."""
        for work, what in (
            (self._stream.run(), "follow the log"),
            (self.staleness.run(), "ask etcd for the newest entries"),
            (
                self.incarnations.membership.keep_alive(lambda: self.staleness.cut_off),
                "keep this proxy's lease alive",
            ),
            (self.incarnations.run(), "be a member of the cluster"),
        ):
            self._running.append(self._tasks.start(work, what, reported=(TreeNotServable, EtcdError)))
        waits = [
            self._tasks.start(self.incarnations.ready.wait(), "wait to be registered"),
            self._tasks.start(self.staleness.caught_up(), "wait until the state is recent"),
        ]
        failure = self._tasks.start(self.failed(), "wait for a failure")
        try:
            while not all(wait.done() for wait in waits):
                unfinished = [wait for wait in waits if not wait.done()]
                await asyncio.wait((*unfinished, failure), return_when=asyncio.FIRST_COMPLETED)
                if failure.done():
                    raise failure.result()
        finally:
            for task in (*waits, failure):
                task.cancel()
        self._loaded()

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

    # -- the stream's consumer -----------------------------------------------------------------------------

    def deliver(self, items: list[Item]) -> None:
        """Apply items of the log."""
        self.applier.feed(items)
        if self.applier.idle:  # while entries wait to be applied, the follower is ahead of the state
            self._stream.follower.retain(self.machine.applied)
        if self.outbox.head is not None:
            self.outbox.head.delivered(self._stream.follower.revision)

    async def replace(self, machine: Machine, *, restored: bool) -> None:
        """Continue with a state that was loaded anew."""
        await self.applier.drained()
        zxid = self.machine.zxid
        await self.applier.become(machine, lambda: self._replaced(zxid, restored=restored))

    def _replaced(self, zxid: int, *, restored: bool) -> None:
        """The state was replaced. `zxid`: the last one of the former state, which clients have seen."""
        log.info("the state was loaded anew: zxid 0x%x in place of 0x%x", self.machine.zxid, zxid)
        self.staleness.trust()
        self.incarnations.check_known(restored=restored)
        if restored:
            self.incarnations.new_epoch(self._stream.cluster_id, zxid)
        self._loaded()

    def _loaded(self) -> None:
        # Proxies that came since the former state are delivered after that was freed, which can take long.
        members = {member.incarnation for member in self.members}
        self._sessions.loaded(members | self._stream.follower.living.keys())

    async def _load_anew(self) -> Loaded:
        return await load(self._etcd, self._keys, levels=self._settings.levels, make=False)

    # -- the applier's effects -----------------------------------------------------------------------------

    def proxies_changed(self, item: MembershipItem) -> None:
        """A proxy started or stopped, or the tree's record changed; the stream handles the latter."""
        if isinstance(item, ProxyCame):
            try:
                value = decode_proxy(item.value)
            except BadValue as error:
                log.error("proxy %s: %s", item.incarnation, error)
                value = ProxyValue((), "")
            member = Member(item.incarnation, item.revision, *value)
            self.members.add(member)
            log.info("proxy %s has come", member)
            self._sessions.proxy_came(item.incarnation)
        elif isinstance(item, ProxyGone):
            log.info("proxy %s is gone", self.members.get(item.incarnation) or item.incarnation)
            self.members.gone(item.incarnation)
            self.applier.peers.forget(item.incarnation)
            self.incarnations.membership.key_gone(item.incarnation)
            self._sessions.proxy_gone(item.incarnation)

    def disagreed(self, disagreement: Disagreement) -> None:
        """The digest of another proxy differs from ours: one of the two is wrong."""
        self._reports.disagreed(disagreement)

    def over_quota(self, path: str, what: str) -> None:
        """A request exceeds a soft quota: ZooKeeper warns, and executes it."""
        self._reports.over_quota(path, what)

    def over_budget(self, path: str) -> None:
        """A request of a client was refused with THROTTLEDOP."""
        self.stats.throttled[path] += 1
        self._reports.over_budget(path)

    def has_room(self) -> None:
        """An entry of our own was applied, or syncs were answered without one."""
        self.incarnations.appender.applied()

    def failed_to_apply(self, error: Exception) -> None:
        """The log cannot be applied any further, so this proxy has to stop."""
        if isinstance(error, UnknownLevel):
            words = unknown_level(self._keys.prefix.decode(), error.level, self._settings.levels)
            error = TreeNotServable(words)
        if not self._failure.done():
            self._failure.set_exception(error)


class _Reports:
    """Messages that many entries cause, each reported once or at intervals."""

    def __init__(self, listener: Listener, environment: Environment) -> None:
        self._listener = listener
        self._disagreement: Disagreement | None = None  # the last one that was reported
        self._of_path: dict[str, ThrottledLog] = defaultdict(partial(ThrottledLog, log, environment.clock))

    def disagreed(self, disagreement: Disagreement) -> None:
        if disagreement == self._disagreement:
            return  # each entry of that proxy has the digest, until its next checkpoint
        self._disagreement = disagreement
        log.error(
            "proxy %s says that after %d entries its digest was %016x; ours was %016x",
            disagreement.incarnation,
            disagreement.checkpoint,
            disagreement.theirs,
            disagreement.ours,
        )
        self._listener.disagreed(disagreement)

    def over_quota(self, path: str, what: str) -> None:
        self._of_path[path].warn("quota exceeded at %s: %s", path, what)

    def over_budget(self, path: str) -> None:
        self._of_path[path].warn("the budget of %s is spent: requests are refused with THROTTLEDOP", path)
