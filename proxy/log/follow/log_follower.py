"""Follows the log of one tree for one state, by one watch on everything under `live/`.

After any break of the watch, the entries above those delivered are read (`read_missed`). The tree is loaded
again only if the watch has left something out, that part of the log was truncated, or etcd was restored from
a backup. The old tree is served until the new one takes its place, unless it is wrong.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from proxy.etcd.interface import Etcd
from proxy.etcd.model import DELETE, EtcdError, EtcdUnknown, Event, KeyValue, WatchCompacted, WatchMessage
from proxy.log.follow.catch_up import Caught, Loaded, Truncated, read_missed, took_effect
from proxy.log.follow.log_order import Item, LogOrder, RecordChanged
from proxy.log.follow.seen_record import NewBase, SeenRecord
from proxy.log.follow.staleness import Staleness
from proxy.log.follow.standby_signs import Standby
from proxy.log.follow.watch_guard import WatchGuard
from proxy.log.reads import MonotonicReads, OldAnswers
from proxy.log.record import TIMEOUT, NoTree, TreeNotServable
from proxy.log.slices import in_slices
from proxy.options.defaults import MAX_STALENESS
from proxy.state.machine import Machine
from proxy.support.environment import HOST, Clock
from proxy.support.tasks import together
from proxy.support.throttled_log import ThrottledLog
from schema.keys import Keyspace

log = logging.getLogger(__name__)

_TRIES = 10  # of a load that finds an older state than this proxy has
# Seconds between two tries to repair a broken watch. One that lived for so long is repaired at once: clients'
# writes wait for that.
_RETRY = 0.2


class Consumer(Protocol):
    """What follows a tree: a proxy (`log.Log`), the archiver, a copy, and the observer of proof.torture."""

    def deliver(self, items: list[Item]) -> None:
        """Let items take effect, in order, now or as soon as all earlier items have taken effect.

        There may be none: then only the revision of the order is higher.
        """

    def stopped_serving(self, reason: str) -> None:
        """The state may be old or wrong: no client may see it until `Staleness.freshness` is RECENT."""


class Successor(Protocol):
    """Goes on with another state where the log does not continue."""

    async def load_anew(self, *, is_wrong: bool) -> Loaded:
        """Load the tree as it is now. `is_wrong`: since the state is not what the log says."""

    async def replace(self, machine: Machine, *, restored: bool) -> None:
        """Replace the state, and all that was delivered so far, by a state that was loaded separately.

        From then on clients may see it (`Staleness.trust`). `restored`: etcd was restored from a backup. What
        clients have seen may be undone, so a proxy has to take a new incarnation and request a new epoch
        above the zxids that it has shown.
        """


class NotContinued(Exception):
    """The log does not continue the state, and there is no successor; the message says why."""


class LastLoad(NamedTuple):
    """How the state was loaded that is followed."""

    cluster_id: int = 0  # etcd's own
    log_bytes: int = 0  # of the log, replayed on top of the snapshot
    log_requests: int = 0
    fell_back: bool = False  # the current snapshot could not be used


class LogFollower:
    """Follows the log for one state: the watch, the order, and whether the state is right and recent."""

    def __init__(
        self,
        etcd: Etcd,
        keys: Keyspace,
        machine: Machine,
        *,
        consumer: Consumer,
        successor: Successor | None = None,
        limit: float = MAX_STALENESS,
        clock: Clock = HOST.clock,
        drained: Callable[[], Awaitable[None]] | None = None,
        standby: Standby | None = None,
    ) -> None:
        """`machine`: the state that the consumer changes. `limit`: seconds after which it counts as old.

        Without a `successor`, `run` raises NotContinued where one is needed. `drained` waits until all that
        was delivered has taken effect; only for copies.
        """
        self._machine = machine
        self._drained = drained
        self._etcd = etcd
        self._keys = keys
        self._consumer = consumer
        self._successor = successor
        self._monotonic = clock.monotonic
        self._throttled_log = ThrottledLog(log, clock)
        self._watching: asyncio.Timeout | None = None  # ends the watch
        self._hangs = False  # the watch was ended because it hangs; etcd answers, so no pause is needed
        #: The effective order.
        self.order = order = LogOrder(keys)
        self.watch_guard = WatchGuard(
            order, etcd.watched_member_is_suspect, self.renew, self._left_out, limit / 2
        )
        #: Whether clients may see the state.
        self.staleness = Staleness(
            etcd, order, machine, self.watch_guard, consumer.stopped_serving, limit, clock, standby
        )
        self.last_load = LastLoad()
        #: Set while the watch is up.
        self.live = asyncio.Event()
        #: The newest record that was seen.
        self.record = SeenRecord(keys)

    async def continue_from(self, loaded: Loaded) -> list[Item]:
        """Continue from a loaded state; returns the items that follow from the load. Called before `run`."""
        self.record.take(loaded.caught.record, loaded.caught.pair.mod_revision)
        self.last_load = LastLoad(loaded.cluster_id, loaded.log_bytes, loaded.log_requests, loaded.fell_back)
        self.order.restart(loaded.machine.applied)
        return await self._items_of(loaded.caught)

    async def run(self) -> None:
        """Follow for ever. Raises NotContinued, and TreeNotServable if the tree can no longer be served.

        Then the consumer has got everything before that; it is TreeSealed if the tree has moved.
        """
        self.record.check_seal()
        await together([self._watch_and_repair(), self.staleness.run()])

    def distrust(self) -> None:
        """The state is not what the log says: let no client see it, and load the tree anew."""
        self.staleness.distrust()
        self._end_watch()

    def renew(self) -> None:
        """Start a watch at another member, since this one hangs. What it has not delivered is read."""
        if self._watching is None:
            return  # there is none: what was missed is being read
        self._etcd.leave_watched_member()
        self._hangs = True
        self._end_watch()

    # -- the watch -----------------------------------------------------------------------------------------

    async def _watch_and_repair(self) -> None:
        while True:
            began = self._monotonic()
            try:
                # The state may be distrusted before there is a watch.
                async with asyncio.timeout(None if self.staleness.right else 0) as self._watching:
                    await self._watch()
            except TimeoutError:
                hangs = self.staleness.right
                what = "it hangs, and another one begins" if hangs else "the tree is loaded again"
                log.warning("ending the watch: %s", what)
            except WatchCompacted as error:
                log.info("the watch broke: %s", error)
            except NewBase as base:
                if await self._has_passed(base):
                    continue
            except EtcdError as error:
                self._throttled_log.warn("the watch broke: %s", error)
            self._watching = None
            self.live.clear()
            is_wrong = not self.staleness.right
            at_once = is_wrong or self._hangs or self._monotonic() - began >= _RETRY
            self._hangs = repaired = False
            while not repaired:
                if not at_once:
                    await asyncio.sleep(_RETRY)
                at_once = False
                repaired = await self._repair()

    async def _watch(self) -> None:
        keys = self._keys
        # etcd before 3.4.36 and 3.5.18 omits deletions if it was compacted at the very revision that a watch
        # begins with (issues 18089, 19179). So the watch begins with a revision that was processed before.
        await self._etcd.watch(keys.live, keys.live_end, self.order.revision, self._take_message)

    def _take_message(self, message: WatchMessage) -> None:
        events = message.events
        if events:
            order = self.order
            if events[0].kv.mod_revision <= order.revision:
                events = [event for event in events if event.kv.mod_revision > order.revision]
            self._deliver(order.items_of(events))
        self.live.set()

    def _end_watch(self) -> None:
        watching, self._watching = self._watching, None
        if watching is not None and not watching.expired():
            watching.reschedule(0)

    def _left_out(self) -> None:
        """etcd contains something that the watch should have delivered long ago, so the state is wrong.

        If the watch has just broken, do nothing: the repair finds the cause. etcd may have been restored from
        a backup meanwhile.
        """
        if self.live.is_set():
            log.error("etcd's watch has left out what is in etcd")
            self.distrust()

    # -- after a break -------------------------------------------------------------------------------------

    async def _repair(self) -> bool:
        """Catch up, or load the tree anew if the state is wrong; returns whether it is right now.

        If it is distrusted during a load, it is loaded once more.
        """
        try:
            if self.staleness.right:
                await self._read_and_deliver()
            else:
                self.staleness.loads()
                await self._reload(is_wrong=True)
        except EtcdError as error:
            self._throttled_log.warn("cannot catch up with the log yet: %s", error)
            return False
        return self.staleness.right

    async def _read_and_deliver(self) -> None:
        """Read what was missed during a break. Raises EtcdError."""
        cluster_id = (await self._etcd.status(TIMEOUT)).cluster_id
        known = self.last_load.cluster_id
        if cluster_id != known:
            self._throttled_log.error("etcd's cluster id was %x, and now is %x", known, cluster_id)
            try:
                return await self._reload()
            except NoTree as error:
                # A load balancer or DNS may lead to another etcd, and back.
                raise EtcdUnknown(f"this is another etcd, and {error}") from error
        order = self.order
        reads = MonotonicReads(self._etcd, order.revision)
        try:
            # A restored etcd may have the former cluster's id, and later revisions (etcdutl's
            # --bump-revision). Entries of an incarnation that was forgotten meanwhile are gone, too:
            # `read_missed` raises Truncated then.
            last = order.last_entry
            is_lost = last is not None and not await took_effect(reads, self._keys, *last)
            caught = await read_missed(reads, self._keys, order.numbers, order.revision, self.record.copied)
        except OldAnswers as error:
            self._throttled_log.error("etcd went back: %s", error)
            return await self._reload(went_back=True)
        except Truncated as error:
            self._throttled_log.warn("this proxy has fallen behind (%s): loading the tree anew", error)
            return await self._reload()
        if last is not None and is_lost:
            self._throttled_log.error("etcd has shown an entry that it lacks now: %s, number %d", *last)
            return await self._reload(restored=True)
        if (pair := order.left_out(caught.entries)) is not None:
            log.error("etcd's watch has left out the log entry of revision %d", pair.mod_revision)
            return self.distrust()
        return self._deliver(await self._items_of(caught))

    async def _reload(
        self, *, went_back: bool = False, restored: bool = False, is_wrong: bool = False
    ) -> None:
        """Load the tree separately, and continue from there. Raises EtcdError, NotContinued.

        `went_back`: etcd was restored, most likely. `restored`: it was. `is_wrong`: the state is.
        """
        order, successor = self.order, self._successor
        if successor is None:
            raise NotContinued(
                "etcd's watch has left out an entry of the log"
                if is_wrong
                else "the log was truncated before it was read, or etcd was restored from a backup"
            )
        loaded = await successor.load_anew(is_wrong=is_wrong)
        tries = 0 if went_back else _TRIES
        while tries and self._is_older(loaded):
            tries -= 1
            await asyncio.sleep(_RETRY)
            loaded = await successor.load_anew(is_wrong=is_wrong)
        revision = loaded.caught.revision
        restored |= loaded.cluster_id != self.last_load.cluster_id or self._is_older(loaded)
        items: list[Item] = []
        if restored:
            log.error("etcd was restored from a backup, as of revision %d", revision)
            # The revisions of the proxy keys belong to another history: all living proxies count as new.
            gone = [KeyValue(self._keys.proxy(name), b"", 0, revision, 0, 0) for name in order.living]
            items += order.items_of([Event(DELETE, pair) for pair in gone])
        items += await self.continue_from(loaded)
        await successor.replace(loaded.machine, restored=restored)
        self._deliver(items)

    def _is_older(self, loaded: Loaded) -> bool:
        """Whether etcd has shown more to this proxy than is in a state that was loaded from it."""
        same_etcd = loaded.cluster_id == self.last_load.cluster_id
        return same_etcd and loaded.caught.revision < self.order.revision

    async def _items_of(self, caught: Caught) -> list[Item]:
        return await in_slices(
            lambda pause: self.order.take_read(
                caught.revision, caught.entries, caught.proxies, caught.pair, pause
            )
        )

    # -- what takes effect ---------------------------------------------------------------------------------

    def _deliver(self, items: list[Item]) -> None:
        for index, item in enumerate(items):
            if type(item) is RecordChanged:
                try:
                    self.record.changed(item)
                except (TreeNotServable, NewBase) as error:
                    self._consumer.deliver(items[:index])
                    if isinstance(error, TreeNotServable):
                        self.staleness.give_up(str(error))
                    raise
        self._consumer.deliver(items)

    async def _has_passed(self, base: NewBase) -> bool:
        """Whether the state is that of the snapshot by `zketcd follow`; else it is to be loaded.

        That writes a snapshot, and no entry, if its source has truncated what the entry would hold,
        or if the entry would be too large for etcd.
        """
        assert self._drained is not None
        await self._drained()
        machine, wanted = self._machine, base.record.current
        assert wanted is not None
        if (machine.zxid, machine.digest.settle(machine.tree.nodes)) != (wanted.zxid, wanted.digest):
            return False
        self.record.take(base.record, base.revision)
        self.order.restart(machine.applied)  # what was delivered behind the snapshot comes again
        self.order.revision = base.revision
        return True
