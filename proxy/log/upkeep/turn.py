"""While etcd is nearly full, the trees that lie in it write their snapshots one after the other.

All of them see in the same second that there is room for one more snapshot: six trees that took it together
filled their etcd. None has to be able to read the keys of another, but all users of an etcd share the ids of
its leases, and it grants an id once at a time. So the proxy whose turn it is has the lease of a fixed id.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from proxy.etcd.model import EtcdError, EtcdNoSpace
from proxy.log.context import Context
from proxy.support.tasks import Tasks
from proxy.support.throttled_log import ThrottledLog
from schema.keys import SNAPSHOT_LEASE

log = logging.getLogger(__name__)

_TIMEOUT = 2.0  # seconds for one request
_LEASE = 15  # seconds that others wait if this proxy ends amid its turn
_KEEP_ALIVE = 5.0  # seconds between two requests to keep it alive
_LONG = 120.0  # seconds of waiting, after which a warning says so


class Turn:
    """One proxy's claim to write a snapshot alone."""

    def __init__(self, context: Context) -> None:
        self._etcd = context.etcd
        self._now = context.environment.clock.monotonic
        self._throttled_log = ThrottledLog(log, context.environment.clock)
        self._ask_for_time = context.etcd.lease_keeper(self._kept)
        self._asked: float | None = None  # when the keep-alive was sent that has no answer
        self._until = -math.inf  # when the lease runs out, and may be that of another proxy

    @asynccontextmanager
    async def taken(self, waited: float) -> AsyncIterator[bool]:
        """Whether it is this proxy's turn, which ends with the block. `waited`: seconds, for a warning.

        Always in a full etcd, which grants no leases.
        """
        asked = self._now()
        try:
            granted = await self._etcd.lease_grant(SNAPSHOT_LEASE, _LEASE, _TIMEOUT)
        except EtcdNoSpace:
            yield True
            return
        except EtcdError as error:
            (self._throttled_log.warn if waited > _LONG else log.debug)(
                "a snapshot has been due for %d s, and waits for its turn: trees in a nearly full etcd write"
                " theirs one after the other, by the lease %x: %s",
                *(waited, SNAPSHOT_LEASE, error),
            )
            yield False
            return
        self._asked, self._until = None, asked + granted
        keeping = Tasks()
        keeping.start(self._keep(), "keep the turn of a snapshot")
        try:
            yield True
        finally:
            await keeping.close()
            await self._end()

    async def _keep(self) -> None:
        while self._now() < self._until:
            if self._asked is None:
                self._asked = self._now()
                self._ask_for_time(SNAPSHOT_LEASE)
            await asyncio.sleep(_KEEP_ALIVE)

    def _kept(self, _lease: int, ttl: int) -> None:
        if self._asked is not None:
            self._until, self._asked = self._asked + ttl, None

    async def _end(self) -> None:
        """Let others write."""
        if self._now() >= self._until:
            return
        try:
            await self._etcd.lease_revoke(SNAPSHOT_LEASE, _TIMEOUT)
        except EtcdError as error:
            log.debug("the lease of this proxy's turn is not revoked, and runs out: %s", error)
