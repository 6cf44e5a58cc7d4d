"""While etcd is nearly full, the trees that lie in it write their snapshots one after the other.

All of them see in the same second that there is room for one more snapshot: six trees that took it together
filled their etcd. None has to be able to read the keys of another, but all users of an etcd share the ids of
its leases, and it grants an id once at a time. So the proxy whose turn it is has the lease of a fixed id.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from proxy.etcd.leases import LeaseHolder
from proxy.etcd.model import EtcdError, EtcdNoSpace
from proxy.log.context import Context
from proxy.support.throttled_log import ThrottledLog
from schema.keys import SNAPSHOT_LEASE

log = logging.getLogger(__name__)

_TIMEOUT = 2.0  # seconds for one request
_LEASE = 15  # seconds that others wait if this proxy ends amid its turn
_LONG = 120.0  # seconds of waiting, after which a warning says so


class Turn:
    """One proxy's claim to write a snapshot alone."""

    def __init__(self, context: Context) -> None:
        self._lease = LeaseHolder(context.etcd, context.environment.clock)
        self._throttled_log = ThrottledLog(log, context.environment.clock)

    @asynccontextmanager
    async def taken(self, waited: float) -> AsyncIterator["asyncio.Future[None] | None"]:
        """Begin this proxy's turn, which ends with the block. `waited`: seconds, for a warning.

        What it yields is done if the turn ends before, as the lease is lost; None: it is not this proxy's
        turn. It always is in a full etcd, which grants no leases.
        """
        async with AsyncExitStack() as turn:
            lost: asyncio.Future[None] | None = None
            try:
                held = self._lease.held(SNAPSHOT_LEASE, _LEASE, _TIMEOUT, is_shared=True)
                lost = await turn.enter_async_context(held)
            except EtcdNoSpace:
                lost = asyncio.get_running_loop().create_future()
            except EtcdError as error:
                (self._throttled_log.warn if waited > _LONG else log.debug)(
                    "a snapshot has been due for %d s, and waits for its turn: trees in a nearly full etcd"
                    " write theirs one after the other, by the lease %x: %s",
                    *(waited, SNAPSHOT_LEASE, error),
                )
            yield lost
