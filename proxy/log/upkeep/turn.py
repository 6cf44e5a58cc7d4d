"""While etcd is nearly full, the trees that lie in it write their snapshots one after the other.

All of them see in the same second that there is room for one more snapshot: six trees that took it together
filled their etcd. None has to be able to read the keys of another, but all users of an etcd share the ids of
its leases, and it grants an id once at a time. So the proxy whose turn it is has the lease of a fixed id.
"""

import logging
import math

from proxy.etcd.model import EtcdError, EtcdNoSpace
from proxy.log.context import Context
from schema.keys import SNAPSHOT_LEASE

log = logging.getLogger(__name__)

_TIMEOUT = 2.0  # seconds for one request


class Turn:
    """One proxy's claim to write a snapshot alone."""

    def __init__(self, context: Context) -> None:
        self._etcd = context.etcd
        self._now = context.environment.clock.monotonic
        self._until = -math.inf  # when the lease runs out, and may be that of another proxy

    async def begin(self, seconds: float) -> bool:
        """Whether it is this proxy's turn: until `end`, and if that does not come, for so many seconds.

        Always in a full etcd, which grants no leases.
        """
        asked = self._now()
        try:
            granted = await self._etcd.lease_grant(SNAPSHOT_LEASE, math.ceil(seconds), _TIMEOUT)
        except EtcdNoSpace:
            return True
        except EtcdError as error:
            log.debug("this proxy writes no snapshot now: %s", error)
            return False
        self._until = asked + granted
        return True

    async def end(self) -> None:
        """Let others write."""
        is_ours, self._until = self._now() < self._until, -math.inf
        if not is_ours:
            return
        try:
            await self._etcd.lease_revoke(SNAPSHOT_LEASE, _TIMEOUT)
        except EtcdError as error:
            log.warning("other trees in this etcd wait until a lease of this proxy runs out: %s", error)
