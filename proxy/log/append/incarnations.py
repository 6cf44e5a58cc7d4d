"""Runs the incarnations of a proxy, one after the other: register, append, and carry over at the end.

When an incarnation is over, the proxy waits until the stream has passed the deletion of its key. Then the
state shows which of its entries took effect. The next incarnation carries the sessions over, and then sends
the other requests again.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdError
from proxy.log.append.appender import Appender
from proxy.log.append.membership import Membership
from proxy.log.append.outbox import Outbox
from proxy.log.append.pending import CallbackRequest, Pending
from proxy.log.applier import Applier
from proxy.log.follow.follower import Follower
from proxy.log.follow.watch_guard import WatchGuard
from proxy.log.listeners import SessionKeeper
from proxy.log.settings import LogSettings
from proxy.log.stats import Stats
from proxy.state.machine import Machine
from proxy.support.environment import Environment
from proxy.support.tasks import Tasks
from schema.entry import Kind, encode_carry_over, encode_epoch
from schema.keys import Keyspace
from schema.record import ProxyValue, encode_proxy

log = logging.getLogger(__name__)

_EVERYTHING = 1 << 62  # more than the number of any entry


class _Former(NamedTuple):
    """An incarnation that has ended, while the log attaches sessions to it. Monotonic seconds."""

    keep_alive_sent: float
    ended: float


class Incarnations:
    """The incarnations of one proxy, one after the other."""

    def __init__(
        self,
        etcd: Etcd,
        keys: Keyspace,
        tasks: Tasks,
        settings: LogSettings,
        machine: Machine,
        outbox: Outbox,
        applier: Applier,
        follower: Follower,
        sessions: SessionKeeper,
        stats: Stats,
        watch_guard: WatchGuard,
        stopped: Callable[[str], None],
        environment: Environment,
    ) -> None:
        """`stopped(reason)`: clients have to go to another proxy."""
        self._machine = machine
        self._outbox = outbox
        self._applier = applier
        self._follower = follower
        self._sessions = sessions
        self._stats = stats
        self._patience = settings.max_staleness
        self._stopped = stopped
        value = encode_proxy(
            ProxyValue(tuple(sorted(settings.levels)), settings.version, settings.archives, settings.home)
        )
        self.membership = Membership(
            etcd, keys, settings.lease_seconds, value, self._no_space_to_register, environment
        )
        self.appender = Appender(
            etcd,
            keys,
            tasks,
            outbox,
            machine,
            settings.rules,
            stats,
            watch_guard,
            self.membership.end,
            self._refused,
            environment.clock,
        )
        self._clock = environment.clock
        self._former: list[_Former] = []
        #: Set once the first incarnation is registered, or etcd is too full to register one.
        self.ready = asyncio.Event()

    @property
    def keep_alive_sent(self) -> float:
        """When the last answered keep-alive was sent of the incarnation that the sessions are attached to.

        By that incarnation other proxies end them until they are carried over.
        """
        formers = [former.keep_alive_sent for former in self._former]
        return min([*formers, self.membership.keep_alive_sent])

    @property
    def ended(self) -> float:
        """When that incarnation ended; infinity if it has not."""
        return min((former.ended for former in self._former), default=math.inf)

    async def run(self) -> None:
        """Run one incarnation after the other, for ever."""
        membership = self.membership
        while True:
            await membership.register()
            incarnation = membership.incarnation
            self._stats.incarnations += 1
            if not membership.is_over:
                self._follower.expect(incarnation, membership.revision)
                self._applier.own = incarnation
                self._sessions.registered(incarnation)
                self.appender.start(incarnation, membership.revision)
            self.ready.set()
            await membership.ended()
            former = _Former(membership.keep_alive_sent, self._clock.monotonic())
            self._former.append(former)
            self.appender.stop()
            await membership.revoke()
            await membership.gone()
            self._carry_over(incarnation, former)

    async def retire(self) -> None:
        """Send nothing more. Delete the proxy key if no session needs it.

        Other proxies cannot distinguish a key that was deleted from one whose lease ran out: they would end
        the sessions too early. So the key of a proxy with sessions stays until its lease has run out.
        """
        self.appender.stop()
        own = self.membership.incarnation
        if all(session.incarnation != own for session in self._machine.sessions.values()):
            await self.membership.retire()

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

        That is the case if the state has forgotten the incarnation, or etcd was restored from a backup.
        """
        own = self._applier.own
        if not restored and (own in self._machine.applied or self._follower.knows(own)):
            return
        self.appender.stop()
        for pending, error in self._outbox.skipped(_EVERYTHING):
            pending.answer(self._machine.zxid, error)
        self.membership.key_gone(own, "the state was loaded anew, and does not know it")
        self._applier.own = ""

    def new_epoch(self, cluster_id: int, zxid: int) -> None:
        """Request an epoch above `zxid`: after a restore, zxids have to exceed all that clients have seen."""

        def done(pending: Pending, _zxid: int, error: int, _body: bytes) -> None:
            if error:
                log.error("cannot begin a new epoch of zxids (error %d); trying again", error)
                self._outbox.submit(pending)

        body = encode_epoch(cluster_id, zxid)
        self._outbox.submit(CallbackRequest(Kind.EPOCH, 0, 0, (), body, done))

    def _carry_over(self, old: str, former: _Former) -> None:
        """The next incarnation takes over the sessions, then sends again the requests without effect."""
        again = self._outbox.ended(self._machine.applied.get(old, 0))
        log.warning("carrying sessions over from %s; %d requests are sent again", old, len(again))
        done = partial(self._carried, former)
        carry = CallbackRequest(Kind.CARRY_OVER, 0, 0, (), encode_carry_over(old), done)
        self._outbox.submit_first([carry, *again])

    def _carried(self, former: _Former, pending: Pending, _zxid: int, error: int, _body: bytes) -> None:
        if not error:
            self._former.remove(former)
        else:
            log.error("sessions were not carried over (error %d); trying again", error)
            # The waiting requests are of these sessions: sent before this request, they would get
            # SESSION_MOVED.
            self._outbox.submit_first([pending])

    def _refused(self, seconds: float, error: EtcdError) -> bool:
        """etcd refuses an entry, and has for so long; whether other proxies have to take over."""
        if seconds <= self._patience:
            return False
        if not self.membership.is_over:
            self._stopped(f"etcd refuses entries: {error}")
        return True

    def _no_space_to_register(self) -> None:
        self.appender.no_space()
        self.ready.set()
