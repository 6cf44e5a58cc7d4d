"""Another zketcd's log in etcd as the source of a copy: one watch, and nothing is written.

It is followed as a proxy follows it. After a break of the watch, what was missed is read. Whatever else
happens (truncation, a restore, more entries than are taken), the reader ends, and another one begins where
the copy is.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from typing_extensions import override

from pipeline.follow.source import Again, NotThere, Reading, check_cluster, check_prefix
from pipeline.follow.target import Origin
from pipeline.follow.vouching import vouch
from proxy.etcd.interface import Etcd
from proxy.log.follow.catch_up import Loaded, Truncated, read_missed
from proxy.log.follow.log_follower import LogFollower, NotContinued
from proxy.log.follow.log_order import Apply, Item
from proxy.log.load.start import NotInLog, Wanted, load_as_of
from proxy.log.reads import MonotonicReads, OldAnswers
from proxy.log.record import TIMEOUT, TreeSealed, look, servable
from proxy.log.seal import seal
from proxy.state.level import KNOWN
from proxy.support.environment import HOST
from schema.followed import Sign
from schema.keys import Keyspace
from schema.record import Seal

log = logging.getLogger(__name__)


class InEtcd:
    """A tree in etcd."""

    can_seal = True

    def __init__(self, name: str, etcd: Etcd, keys: Keyspace) -> None:
        """`etcd`: a client that tries again until etcd answers."""
        self.name = name
        self._etcd = etcd
        self._keys = keys

    async def open(self, entries: int | None, origin: Origin | None) -> Reading:
        """As `Source.open`."""
        # Before its log: what cannot be served is no source, whatever the log has.
        await self._check(origin)
        try:
            loaded = await load_as_of(
                self._etcd, self._keys, Wanted(entries=entries), even_sealed=origin is not None
            )
        except NotInLog as error:
            raise NotThere(str(error)) from error
        return _Following(self._etcd, self._keys, loaded)

    async def _check(self, origin: Origin | None) -> None:
        """Raises OtherSource, TreeNotServable, EtcdError."""
        # A copy of what was sealed for it may be completed.
        there = await look(self._etcd, self._keys)
        servable(there, self._keys, KNOWN, even_sealed=origin is not None)
        if origin is not None:
            check_prefix(self.name, origin, self._keys.prefix.decode(), "it is another tree")
            then = "it was restored from a backup, or it is another tree. Start over with --overwrite"
            check_cluster(self.name, origin, (await self._etcd.status(TIMEOUT)).cluster_id, then)

    async def vouch(self, origin: Origin, sign: Sign, hold: Callable[[], Awaitable[None]]) -> None:
        """As `Source.vouch`."""
        await self._check(origin)
        await vouch(self._etcd, self._keys, sign, hold)

    async def seal(self, where: Seal) -> None:
        """As `Source.seal`."""
        await seal(self._etcd, self._keys, where)


class _Full(Exception):
    """More has arrived than is taken: the watch pauses."""


class _Following(Reading):
    """What is followed arrives here: `proxy.log.follow.log_follower.Consumer`."""

    def __init__(self, etcd: Etcd, keys: Keyspace, loaded: Loaded) -> None:
        super().__init__(loaded.machine, loaded.cluster_id, keys.prefix.decode())
        self._etcd = etcd
        self._keys = keys
        self._loaded = loaded
        self._began = HOST.clock.monotonic()
        self._follower = LogFollower(etcd, keys, loaded.machine, consumer=self)

    @override
    async def run(self) -> None:
        while True:
            try:
                self.deliver(await self._follower.continue_from(self._loaded))
                caught = self._loaded.caught
                self._loaded = self._loaded._replace(caught=caught._replace(entries=[]))
                await self._follower.run()
            except _Full:
                await self._wait_until_taken()
            except NotContinued as error:
                raise Again(f"at the source, {error}") from error
            except TreeSealed as error:
                self.sealed = error
                self.arrived.set()
                await asyncio.Event().wait()  # until the reader is cancelled

    async def _wait_until_taken(self) -> None:
        """Read on, as after a break, once all that has arrived is applied."""
        await self.taken.wait()
        revision = self._follower.order.revision
        reads = MonotonicReads(self._etcd, revision)
        try:
            caught = await read_missed(reads, self._keys, self.machine.applied, revision)
        except (Truncated, OldAnswers) as error:
            raise Again(f"the source's log cannot be read on: {error}") from error
        self._loaded = self._loaded._replace(caught=caught)
        self._follower = LogFollower(self._etcd, self._keys, self.machine, consumer=self)

    @override
    def level_at(self) -> float | None:
        caught_up_at = self._follower.staleness.caught_up_at
        if caught_up_at < self._began:
            return None
        return time.time() - (HOST.clock.monotonic() - caught_up_at)

    def deliver(self, items: list[Item]) -> None:
        """Entries have taken effect."""
        if not self.has_more:
            self._follower.order.retain(self.machine.applied, items)
        for item in items:
            if isinstance(item, Apply):
                self._arrive(item)
        if self.is_full:
            raise _Full

    def stopped_serving(self, reason: str) -> None:
        """The copy may be old."""
        if not self._follower.staleness.is_over:  # whoever reads is told
            log.warning("the source is not read in time: %s", reason)
