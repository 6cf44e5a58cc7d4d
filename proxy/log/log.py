"""The log as the rest of the proxy sees it: submit requests, hear what was applied.

Puts the parts together and leads a proxy through its incarnations: register, append, and when an incarnation
is over, wait until the stream has passed the deletion of its key, carry its sessions over to the next one,
and send again what did not count.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol

from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdError
from proxy.log.appender import Appender
from proxy.log.applier import Applier
from proxy.log.applier import Membership as MembershipItem
from proxy.log.follower import Follower, Item, ProxyCame, ProxyGone
from proxy.log.lag import Lags
from proxy.log.members import Member, Members
from proxy.log.membership import Membership
from proxy.log.pending import CallbackRequest, Pending
from proxy.log.record import TreeNotServable, unknown_level
from proxy.log.staleness import LIMIT, Staleness
from proxy.log.start import Loaded, load
from proxy.log.stats import Stats
from proxy.log.stream import Stream
from proxy.log.translator import Translator
from proxy.state import capture
from proxy.state.level import KNOWN, UnknownLevel
from proxy.state.machine import Disagreement, Machine
from proxy.state.outcome import SessionChange
from proxy.state.watches import WatchTable
from proxy.support.environment import HOST, Environment
from proxy.support.tasks import Tasks
from proxy.support.throttled_log import ThrottledLog
from schema.entry import Kind, encode_carry_over, encode_epoch
from schema.errors import BadValue
from schema.keys import Keyspace
from schema.record import ProxyValue, TreeRecord, decode_proxy, encode_proxy

log = logging.getLogger(__name__)

_EVERYTHING = 1 << 62  # more than any entry's number
_DRAIN_INTERVAL = 0.02  # seconds


class LogSettings(NamedTuple):
    """What an operator may choose."""

    lease_seconds: int = 5  # after so long a silence a proxy counts as dead; etcd may grant more
    rules: int = 0  # schema.entry.Rules of the requests that this proxy sends
    levels: Collection[int] = KNOWN
    version: str = ""  # of this release, for people
    max_staleness: float = LIMIT  # seconds; a proxy that is older than this stops serving


class Listener(Protocol):
    """Is informed of sessions and proxies; all calls come in the order of the log."""

    def registered(self, incarnation: str) -> None:
        """This proxy appends under this name from now on."""

    def session_changed(self, change: SessionChange) -> None:
        """A session began, came to another proxy, or ended."""

    def proxy_came(self, incarnation: str) -> None:
        """A proxy lives."""

    def proxy_gone(self, incarnation: str) -> None:
        """A proxy's key is gone: it stopped, or died."""

    def reloaded(self) -> None:
        """The state was loaded anew; the changes of sessions were reported before."""

    def stopped_serving(self, reason: str) -> None:
        """What we show may be old: connections have to be closed, and none let in until `is_caught_up`."""


class Log:
    """One proxy's end of the replicated log."""

    def __init__(
        self,
        etcd: Etcd,
        keys: Keyspace,
        tasks: Tasks,
        listener: Listener,
        watches: WatchTable,
        settings: LogSettings = LogSettings(),  # noqa: B008 - immutable
        environment: Environment = HOST,
    ) -> None:
        self._etcd = etcd
        self._keys = keys
        self._tasks = tasks
        self._listener = listener
        self._settings = settings
        self._environment = environment
        self._loop = asyncio.get_running_loop()
        self.stats = Stats()
        #: The state. Always the same object; empty until `load`.
        self.machine: Machine = capture.new_machine(0)
        self.members = Members()
        self._translator = Translator()
        self._follower = Follower(keys)
        self._applier = Applier(self.machine, watches, self._translator, self, self.stats)
        value = encode_proxy(ProxyValue(tuple(sorted(settings.levels)), settings.version))
        self._membership = Membership(etcd, keys, settings.lease_seconds, value, self._no_space_to_register)
        self._appender = Appender(
            etcd,
            keys,
            tasks,
            self._translator,
            self.machine,
            settings.rules,
            self.stats,
            self._membership.end,
            self._applier.answer,
        )
        self._stream = Stream(etcd, keys, self._follower, self, self._load_anew)
        self._staleness = Staleness(
            etcd,
            keys,
            self._follower,
            self.machine,
            self._serving_changed,
            self._stream.renew,
            settings.max_staleness,
        )
        self._running: list[asyncio.Task[None]] = []
        self._failure: asyncio.Future[None] = self._loop.create_future()
        self._ready = asyncio.Event()  # registered, or etcd is too full for that
        self._caught_up = asyncio.Event()
        self._wrong = False  # the state is not what the log says, and is about to be loaded anew
        self._gone_names: set[str] = set()  # proxies that went while this one registered
        self._gone = asyncio.Event()  # our own key is gone, and nothing of the incarnation follows
        self._disagreement: Disagreement | None = None  # the last one that was reported
        self._over_quota: dict[str, ThrottledLog] = {}
        #: Whom to ask to check the state against a replay, when another proxy's digest differs.
        self.on_disagreement: Callable[[Disagreement], None] | None = None
        #: Takes a request for the log.
        self.submit: Callable[[Pending], None] = self._appender.submit
        #: The state stays as it is from `hold` to `release`.
        self.hold: Callable[[], None] = self._applier.hold
        self.release: Callable[[], None] = self._applier.release
        #: Calls back when a write that is applied in part (`Machine.midway`) is applied.
        self.when_whole: Callable[[Callable[[], None]], None] = self._applier.when_whole

    # -- what others ask -----------------------------------------------------------------------------------

    @property
    def incarnation(self) -> str:
        """The name under which this proxy appends; that of the last one while there is none."""
        return self._membership.incarnation

    @property
    def lease_seconds(self) -> int:
        """For how long etcd keeps a silent proxy's key."""
        return self._membership.granted

    @property
    def keep_alive_sent(self) -> float:
        """Monotonic seconds at which the last keep-alive was sent that etcd has answered."""
        return self._membership.keep_alive_sent

    @property
    def is_caught_up(self) -> bool:
        """Whether what we show is right, and what was in etcd a few seconds ago is applied."""
        return self._staleness.serving and not self._wrong

    @property
    def stages(self) -> tuple[int, int]:
        """When the entry of ours that is being applied was sent, and when this slice of applying began.

        In nanoseconds of time.perf_counter_ns.
        """
        applier = self._applier
        return int(applier.sent_at * 1e9), int(applier.slice_began * 1e9)

    @property
    def silence(self) -> float:
        """Seconds since etcd was last heard of."""
        return max(0.0, self._loop.time() - self._etcd.last_contact)

    @property
    def outstanding(self) -> int:
        """Requests without an outcome."""
        return self._translator.outstanding

    @property
    def is_registered(self) -> bool:
        """Whether there is an incarnation that can append."""
        return not self._membership.is_over

    @property
    def is_full(self) -> bool:
        """Whether etcd's quota was used up when last asked."""
        return self._translator.full

    @property
    def record(self) -> TreeRecord | None:
        """The tree's record as last seen."""
        return self._stream.record

    @property
    def position(self) -> int:
        """The position (mod_revision) of the last entry applied."""
        return self._applier.position

    @property
    def backlog(self) -> int:
        """Items that wait to be applied."""
        return self._applier.backlog

    @property
    def age(self) -> float:
        """How many seconds old what we show may be."""
        return self._staleness.age

    @property
    def window(self) -> int:
        """How many Txns may be in flight."""
        return self._appender.window

    @property
    def in_flight(self) -> int:
        """How many Txns are on their way."""
        return self._translator.unanswered

    @property
    def clock_skew(self) -> float:
        """Seconds; the largest difference between our clock and those of other proxies' entries lately."""
        return self._applier.skew.worst

    @property
    def lags(self) -> Lags:
        """How far the other proxies had come at their last entries."""
        return self._applier.lags

    @property
    def replayed(self) -> tuple[int, int]:
        """Bytes and requests of the log that the last load replayed, on top of its snapshot."""
        return self._stream.replayed

    @property
    def fell_back(self) -> bool:
        """Whether the last load could not use the current snapshot."""
        return self._stream.fell_back

    def distrust(self) -> None:
        """Serve nobody until the tree is loaded anew, since what was made of the log so far is wrong."""
        self._wrong = True
        self._listener.stopped_serving("this proxy's state is not what the log says: loading the tree anew")
        self._stream.distrust()

    # -- life ----------------------------------------------------------------------------------------------

    async def load(self, progress: Callable[[int], None] | None = None) -> None:
        """Load the state; retried until etcd answers.

        Raises TreeNotServable, and EtcdRefused where etcd denies access.
        """
        loaded = await load(
            self._etcd, self._keys, levels=self._settings.levels, progress=progress, wait=True
        )
        self.machine.become(loaded.machine)
        self.machine.session_changes.clear()
        self._applier.feed(await self._stream.begin(loaded))
        if loaded.cluster_id != self.machine.cluster_id:
            log.warning("this tree was restored into another etcd cluster; zxids continue in a new epoch")
            self._new_epoch(loaded.cluster_id, self.machine.zxid)

    async def start(self) -> None:
        """Follow the log and register; returns when the state is caught up with etcd as of now."""
        for work, what in (
            (self._stream.run(), "follow the log"),
            (self._staleness.run(), "ask etcd what is newest"),
            (self._membership.keep_alive(), "keep this proxy's lease alive"),
            (self._live(), "be a member of the cluster"),
        ):
            self._running.append(self._tasks.start(work, what, reported=(TreeNotServable, EtcdError)))
        waits = [self._tasks.start(event.wait(), "wait") for event in (self._ready, self._caught_up)]
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

    async def failed(self) -> BaseException:
        """Wait for a fault that the proxy cannot go on with.

        The caller reports it: TreeNotServable and EtcdError are not in the log.
        """
        ended, _ = await asyncio.wait((*self._running, self._failure), return_when=asyncio.FIRST_COMPLETED)
        task = ended.pop()
        return task.exception() or RuntimeError(f"{task} ended")

    async def drain(self, timeout: float) -> bool:
        """Wait until every request has its outcome; False if that took too long."""
        deadline = self._loop.time() + timeout
        while self.outstanding:
            if self._loop.time() >= deadline:
                return False
            await asyncio.sleep(_DRAIN_INTERVAL)
        return True

    async def stop(self) -> None:
        """Stop appending and following; take the proxy key away if no session needs it.

        Others take a key that goes for a lease that ran out: they would end our sessions before their time.
        So the key of a proxy with sessions goes with its lease.
        """
        self._appender.stop()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        if self._failure.done() and not self._failure.cancelled():
            self._failure.exception()  # seen
        own = self._membership.incarnation
        if all(session.incarnation != own for session in self.machine.sessions.values()):
            await self._membership.retire()

    # -- incarnations --------------------------------------------------------------------------------------

    async def _live(self) -> None:
        """One incarnation after the other, for ever."""
        membership = self._membership
        while True:
            self._gone_names.clear()
            await membership.register()
            incarnation = membership.incarnation
            self._gone.clear()
            self.stats.incarnations += 1
            if incarnation in self._gone_names:
                self._gone.set()
                membership.end(incarnation, "its key went at once")
            else:
                self._follower.expect(incarnation, membership.revision)
                self._applier.own = incarnation
                self._listener.registered(incarnation)
                self._appender.start(incarnation, membership.revision)
            self._ready.set()
            await membership.ended()
            self._appender.stop()
            await membership.revoke()
            await self._gone.wait()
            self._carry_over(incarnation)

    def _carry_over(self, old: str) -> None:
        """Before anything else the next incarnation takes over the sessions, then what did not count."""
        again = self._translator.ended(self._translator.applied_number)
        log.warning("carrying sessions over from %s; %d requests are sent again", old, len(again))
        carry = CallbackRequest(Kind.CARRY_OVER, 0, 0, (), encode_carry_over(old), self._carried)
        self._translator.queue.extendleft(reversed((carry, *again)))

    def _carried(self, pending: Pending, _zxid: int, error: int, _body: bytes) -> None:
        if error:
            log.error("sessions were not carried over (error %d); trying again", error)
            # What waits is of these sessions: before them it would be answered with SESSIONMOVED.
            self._appender.submit_first(pending)

    def _no_space_to_register(self) -> None:
        self._appender.no_space()
        self._ready.set()

    def _new_epoch(self, cluster_id: int, zxid: int) -> None:
        """After a restore zxids go on above all that clients may have seen."""

        def done(pending: Pending, _zxid: int, error: int, _body: bytes) -> None:
            if error:
                log.error("cannot begin a new epoch of zxids (error %d); trying again", error)
                self.submit(pending)

        self.submit(CallbackRequest(Kind.EPOCH, 0, 0, (), encode_epoch(cluster_id, zxid), done))

    # -- the stream's consumer -----------------------------------------------------------------------------

    def deliver(self, items: list[Item]) -> None:
        """Apply items of the log."""
        applier = self._applier
        applier.feed(items)
        # While entries wait to be applied, the follower is ahead of the state.
        if applier.idle and len(self._follower.numbers) > len(self.machine.applied):
            for incarnation in [name for name in self._follower.numbers if name not in self.machine.applied]:
                self._follower.forget(incarnation)

    async def replace(self, machine: Machine, *, restored: bool) -> None:
        """Go on with a state that was loaded anew."""
        await self._applier.drained()
        zxid = self.machine.zxid
        await self._applier.become(machine, lambda: self._replaced(zxid, restored=restored))

    def _replaced(self, zxid: int, *, restored: bool) -> None:
        """The state is another one. `zxid`: what clients have seen of the former one."""
        machine = self.machine
        own = self._applier.own
        log.info("the state was loaded anew: zxid 0x%x in place of 0x%x", machine.zxid, zxid)
        self._wrong = False
        if restored or (own not in machine.applied and not self._follower.knows(own)):
            # Nobody can tell which of our requests count: the state has forgotten this incarnation, or is of
            # another history.
            self._appender.stop()
            for pending, error in self._translator.skipped(_EVERYTHING):
                self._applier.answer(pending, machine.zxid, error)
            self._membership.end(own, "the state was loaded anew, and does not know it")
            self._gone.set()
            self._applier.own = ""
        if restored:
            self._new_epoch(self._stream.cluster_id, zxid)
        self._listener.reloaded()

    async def _load_anew(self) -> Loaded:
        return await load(self._etcd, self._keys, levels=self._settings.levels, make=False)

    # -- the applier's effects -----------------------------------------------------------------------------

    def session_changed(self, change: SessionChange) -> None:
        """A session began, came to another proxy, or ended."""
        self._listener.session_changed(change)

    def proxies_changed(self, item: MembershipItem) -> None:
        """A proxy came or went, or the tree's record changed, which the stream looks after."""
        if isinstance(item, ProxyCame):
            try:
                value = decode_proxy(item.value)
            except BadValue as error:
                log.error("proxy %s: %s", item.incarnation, error)
                value = ProxyValue((), "")
            self.members.came(Member(item.incarnation, item.revision, value.levels, value.version))
            self._listener.proxy_came(item.incarnation)
        elif isinstance(item, ProxyGone):
            self.members.gone(item.incarnation)
            self._applier.skew.forget(item.incarnation)
            self._applier.lags.forget(item.incarnation)
            self._gone_names.add(item.incarnation)
            if item.incarnation == self._membership.incarnation:
                self._gone.set()
                self._membership.end(item.incarnation, "its key is gone")
            self._listener.proxy_gone(item.incarnation)

    def disagreed(self, disagreement: Disagreement) -> None:
        """Another proxy's digest differs from ours: one of the two is wrong."""
        if disagreement == self._disagreement:
            return  # each of its entries says so, until its next checkpoint
        self._disagreement = disagreement
        log.error(
            "proxy %s says that after %d entries its digest was %016x; ours was %016x",
            disagreement.incarnation,
            disagreement.checkpoint,
            disagreement.theirs,
            disagreement.ours,
        )
        if self.on_disagreement is not None:
            self.on_disagreement(disagreement)

    def over_quota(self, path: str, what: str) -> None:
        """A request exceeds a soft quota: ZooKeeper warns, and lets it pass."""
        throttled_log = self._over_quota.get(path)
        if throttled_log is None:
            throttled_log = self._over_quota[path] = ThrottledLog(log)
        throttled_log.warn("quota exceeded at %s: %s", path, what)

    def appended(self) -> None:
        """An entry of our own was applied."""
        self._appender.applied()

    def failed_to_apply(self, error: Exception) -> None:
        """Applying cannot go on, and nor can this proxy."""
        if isinstance(error, UnknownLevel):
            words = unknown_level(self._keys.prefix.decode(), error.level, self._settings.levels)
            error = TreeNotServable(words)
        if not self._failure.done():
            self._failure.set_exception(error)

    def _serving_changed(self, serving: bool) -> None:
        if serving:
            self._caught_up.set()
        else:
            self._caught_up.clear()
            self._listener.stopped_serving("etcd has entries that this proxy has not applied in time")
