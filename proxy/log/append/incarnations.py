"""Runs the incarnations of a proxy, one after the other: register, append, and carry over at the end.

When an incarnation is over, the proxy waits until the stream has passed the deletion of its key. Then the
state shows which of its entries took effect, unless etcd's watch has left out one of them: so etcd is asked.
The next incarnation carries the sessions over, and then sends the other requests again.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from proxy.etcd.model import EtcdError, EtcdNoSpace, EtcdRefused, RefusalKind
from proxy.log.append.appender import Appender
from proxy.log.append.head_reader import HeadReader
from proxy.log.append.outbox import Outbox
from proxy.log.append.pending import CallbackRequest, Pending
from proxy.log.append.registration import Registration
from proxy.log.combine.combining import Combining
from proxy.log.context import Context, SessionKeeper
from proxy.log.follow.catch_up import took_effect
from proxy.log.follow.log_follower import LogFollower
from proxy.log.reads import MonotonicReads
from schema.entry import Kind, encode_carry_over

log = logging.getLogger(__name__)

_PAUSE = 0.1  # seconds before etcd is asked again for an entry that the state may lack


class _Former(NamedTuple):
    """An incarnation that has ended, while the log attaches sessions to it. Monotonic seconds."""

    keep_alive_sent: float
    ended_at: float


class Incarnations:
    """The incarnations of one proxy, one after the other."""

    def __init__(
        self,
        context: Context,
        outbox: Outbox,
        head: HeadReader,
        follower: LogFollower,
        combining: Combining,
        sessions: SessionKeeper,
        stopped: Callable[[str], None],
    ) -> None:
        """`stopped(reason)`: clients have to go to another proxy."""
        self._context = context
        self._outbox = outbox
        self._follower = follower
        self._order = follower.order
        self._sessions = sessions
        self._stopped = stopped
        self.registration = Registration(context, self._not_registered, lambda: follower.record.revision)
        self.appender = Appender(context, outbox, head, follower.watch_guard, combining, self._refused)
        self._former: list[_Former] = []
        self._stopped_by_refusal = False  # since the last registration
        #: Set once the first incarnation is registered, or etcd is too full to register one.
        self.ready = asyncio.Event()

    @property
    def keep_alive_sent(self) -> float:
        """When the last answered keep-alive was sent of the incarnation that the sessions are attached to.

        By that incarnation other proxies end them until they are carried over.
        """
        formers = [former.keep_alive_sent for former in self._former]
        return min([*formers, self.registration.current.keep_alive_sent])

    @property
    def ended_at(self) -> float:
        """When that incarnation ended; infinity if it has not."""
        return min((former.ended_at for former in self._former), default=math.inf)

    async def run(self) -> None:
        """Run one incarnation after the other, for ever."""
        while True:
            incarnation = await self.registration.register()
            self._stopped_by_refusal = False
            self._context.stats.incarnations += 1
            if not incarnation.is_over:
                self._order.expect(incarnation.name, incarnation.revision)
                self._sessions.registered(incarnation.name)
                self.appender.start(incarnation)
            self.ready.set()
            await incarnation.until_over()
            former = _Former(incarnation.keep_alive_sent, self._context.environment.clock.monotonic())
            self._former.append(former)
            self.appender.stop()
            await self.registration.revoke()
            await incarnation.gone()
            await self._until_fate_is_known(incarnation.name)
            self._carry_over(incarnation.name, former)

    async def retire(self) -> None:
        """Send nothing more. Delete the proxy key if no session needs it.

        Other proxies cannot distinguish a key that was deleted from one whose lease ran out: they would end
        the sessions too early. So the key of a proxy with sessions stays until its lease has run out.
        """
        self.appender.stop()
        own = self.registration.current.name
        if all(session.incarnation != own for session in self._context.machine.sessions.values()):
            await self.registration.retire()

    @contextmanager
    def without_sessions(self, keep_alive_sent: float) -> Iterator[None]:
        """Until the block ends, the sessions may be attached to another process of this host.

        Other proxies do not end them before their timeout has passed since they went there.
        `keep_alive_sent`: as of this incarnation then.
        """
        former = _Former(keep_alive_sent, math.inf)
        self._former.append(former)
        try:
            yield
        finally:
            self._former.remove(former)

    def check_known(self, *, restored: bool) -> None:
        """A state was loaded: end the incarnation if it is unknown which of its requests took effect.

        That is the case if the state has forgotten the incarnation, or etcd was restored from a backup. It
        ends as well if an entry that had taken effect is missing, since somebody has deleted it from etcd:
        those behind it would wait for it for ever (rule 1.3).
        """
        machine, own = self._context.machine, self._outbox.incarnation
        if restored or not (own in machine.applied or self._order.knows(own)):
            self._abandon()
            self.registration.key_gone(own, "the state was loaded anew, and does not know it")
        elif missing := self._outbox.missing(machine.applied.get(own, 0)):
            self._abandon()
            self.registration.current.end(f"its entry {missing} is missing from the log")

    def taken(self, number: int) -> None:
        """Another process has written an entry of this incarnation, under its next number: end it.

        What this proxy sends under that number would get no outcome, and neither would what comes behind it.
        """
        self._abandon()
        self.registration.current.end(f"another process has written its entry {number}")

    def _abandon(self) -> None:
        """The requests that were sent get no outcome any more."""
        self.appender.stop()
        for pending, error in self._outbox.abandon():
            pending.answer(self._context.machine.zxid, error)

    async def _until_fate_is_known(self, old: str) -> None:
        """Wait until the state has all entries that count of this incarnation, whose key is gone.

        etcd's watch may have left one out (its issue 17529). Sent again, its requests would be in the log
        twice. The stream has passed the key's deletion, so what a read does not find cannot follow.
        """
        keys, follower = self._context.keys, self._follower
        while number := self._outbox.first_sent:
            left_out = False
            if follower.staleness.right:  # else the state is being loaded
                reads = MonotonicReads(self._context.etcd, self._order.revision)
                try:
                    if not (left_out := await took_effect(reads, keys, old, number)):
                        return
                except EtcdError as error:
                    log.warning("cannot ask etcd which entries of %s took effect: %s", old, error)
            if left_out and follower.staleness.right and number == self._outbox.first_sent:
                log.error("etcd's watch has left out entry %d of %s", number, old)
                follower.distrust()
            await asyncio.sleep(_PAUSE)

    def _carry_over(self, old: str, former: _Former) -> None:
        """The next incarnation takes over the sessions, then sends again the requests without effect."""
        again = self._outbox.end_incarnation(self._context.machine.applied.get(old, 0))
        log.warning("carrying sessions over from %s; %d requests are sent again", old, len(again))
        done = partial(self._carried, old, former)
        carry = CallbackRequest(Kind.CARRY_OVER, encode_carry_over(old), done)
        self._outbox.submit_first([carry, *again])

    def _carried(
        self, old: str, former: _Former, pending: Pending, _zxid: int, error: int, _body: bytes
    ) -> None:
        if not error:
            self._former.remove(former)
            self._sessions.carried_over(old)
        else:
            log.error("sessions were not carried over (error %d); trying again", error)
            # The waiting requests are of these sessions: sent before this request, they would get
            # SESSION_MOVED.
            self._outbox.submit_first([pending])

    def _refused(self, seconds: float, error: EtcdError) -> bool:
        """etcd refuses an entry, and has for so long; whether other proxies have to take over."""
        if seconds <= self._context.settings.max_staleness:
            return False
        if not self._stopped_by_refusal:
            self._stopped_by_refusal = True
            self._stopped(f"etcd refuses entries: {error}")
        return True

    def _not_registered(self, error: EtcdError) -> None:
        """An attempt to register an incarnation has failed."""
        if isinstance(error, EtcdNoSpace):
            self.appender.no_space()
            self.ready.set()
        elif isinstance(error, EtcdRefused) and error.kind is RefusalKind.PERMISSION and self._former:
            # etcd 3.4.42, 3.5.28, 3.6.9 and newer refuse keep-alives too if this proxy may not write its key:
            # the incarnation was over before an entry was refused for long. Before the first one there is no
            # client.
            since = self.registration.current.keep_alive_sent
            self._refused(self._context.environment.clock.monotonic() - since, error)
