"""Follows the log in etcd beside all proxies: the order of requests and the state that each must come to.

It reads etcd past the relays, and follows as a proxy does, by the same code: it replaces a watch that hangs,
and loads the tree anew if the watch has left something out. The state is that of `proof.simulation.oracle`.
What became of requests without an answer, and when sessions ended, is known from here.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from proof.simulation.clients import Clock
from proof.simulation.oracle import Oracle
from proof.simulation.proxies import PREFIX
from proof.torture.cluster import ROOT
from proxy.etcd.client import EtcdClient
from proxy.log.follow.catch_up import Loaded, Truncated, read_missed
from proxy.log.follow.log_follower import LogFollower
from proxy.log.follow.log_order import Apply, Item, ProxyCame, ProxyGone
from proxy.log.load.start import load_as_of
from proxy.log.record import TIMEOUT
from proxy.state.machine import Machine
from schema.keys import Keyspace

_IN_RESTORED: dict[type[Item], int] = {ProxyGone: 1, ProxyCame: 2}  # what comes first


class _Orphan(NamedTuple):
    """A session whose end was logged after that of its proxy's incarnation."""

    session: int
    holder: str
    later: frozenset[str]
    """The incarnations that had appended something after the last entry of that one."""


class Observer:
    """One follower of the log: the consumer of what is followed, and its own successor."""

    def __init__(self, clock: Clock, endpoints: Sequence[str]) -> None:
        self._clock = clock
        self._etcd = EtcdClient(endpoints, user=ROOT, password=ROOT)
        self._keys = Keyspace(PREFIX)
        self._orphans: list[_Orphan] = []
        self._last: dict[str, int] = {}  # position of the last entry, by incarnation
        #: The later incarnations of the process that had one, of all proxies. May block.
        self.successors: Callable[[str], Sequence[str]] = lambda _incarnation: ()
        #: Called with a session that ends without its client's wish.
        self.on_expiry: Callable[[int], None] = lambda _session: None
        #: A part of the log was not seen.
        self.lost = False
        #: What is wrong in the log.
        self.violations: list[str] = []
        self.oracle = Oracle(clock, 0, self._violate)
        self.oracle.listeners.expired = self.expired
        self._restored = False  # etcd was restored, and what it has is delivered next
        self._follower = LogFollower(
            self._etcd, self._keys, self.oracle.machine, consumer=self, successor=self
        )

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Load the tree as it is, and follow the log meanwhile.

        If that fails, what runs inside is cancelled, and ExceptionGroup is raised.
        """
        try:
            loaded = await load_as_of(self._etcd, self._keys)
            items = await self._follower.continue_from(loaded)
            self._continue_from(loaded.machine)
            self.deliver(items)
            async with asyncio.TaskGroup() as group:
                task = group.create_task(self._follower.run())
                yield
                task.cancel()
        finally:
            await self._etcd.close()

    def begin(self) -> None:
        """Another history begins."""
        self.oracle.forget()
        self._orphans.clear()
        self.lost = False

    def excused(self) -> set[int]:
        """Sessions that ended because their proxy's lease had: their time counts from its keep-alives.

        What a new incarnation appends first is that it takes over the sessions of the old one. Where it had
        appended anything, they were not without a proxy. Blocks: it reads the proxies' messages.
        """
        return {
            orphan.session
            for orphan in self._orphans
            if orphan.later.isdisjoint(self.successors(orphan.holder))
        }

    def expired(self, session: int, holder: str) -> None:
        """The log ends a session, which its sender expects to be held by an incarnation."""
        if holder in self.oracle.over:
            since = self._last.get(holder, 0)
            later = frozenset(name for name, at in self._last.items() if at > since)
            self._orphans.append(_Orphan(session, holder, later))
        self.on_expiry(session)

    def _violate(self, what: str) -> None:
        self._clock.trace("log", what)
        self.violations.append(what)

    # -- the consumer ----------------------------------------------------------------------------------------

    def deliver(self, items: list[Item]) -> None:
        """Let items take effect. Nothing here may block: code of a proxy calls it."""
        if self._restored:
            # All proxies count as gone; some had appended more before they noticed.
            self._restored = False
            items = sorted(items, key=lambda item: _IN_RESTORED.get(type(item), 0))
        for item in items:
            if isinstance(item, Apply):
                self._last[item.incarnation] = item.position
                self.oracle.apply(item.incarnation, item.number, item.value)
            elif isinstance(item, ProxyGone):
                self.oracle.over.add(item.incarnation)
            elif isinstance(item, ProxyCame):
                self.oracle.over.discard(item.incarnation)  # a restored etcd has its key again

    async def replace(self, machine: Machine, *, restored: bool) -> None:
        """Continue from a state that was loaded: if it is not our own, a part of the log was not seen."""
        self._restored = restored
        if machine is not self.oracle.machine:
            self.lost = True
            self._continue_from(machine)
            self._follower.staleness.trust()

    def stopped_serving(self, reason: str) -> None:
        """There are no clients here."""

    def _continue_from(self, machine: Machine) -> None:
        self.oracle.begin(machine)
        self.oracle.forget()

    async def load_anew(self, *, is_wrong: bool) -> Loaded:
        """Our own state and what it lacks, if the log has that: etcd is another one, with the same data."""
        machine = self.oracle.machine
        if not is_wrong:
            with suppress(Truncated):
                cluster_id = (await self._etcd.status(TIMEOUT)).cluster_id
                revision = self._follower.order.revision
                caught = await read_missed(self._etcd, self._keys, machine.applied, revision)
                return Loaded(machine, caught, None, False, cluster_id, 0, 0, ())
        return await load_as_of(self._etcd, self._keys)
