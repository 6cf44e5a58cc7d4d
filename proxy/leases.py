"""The clock of the sessions: ends silent ones on time, keeps leases of living ones, tells when etcd is gone.

The asynchronous shell around `sessions`.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable

from proxy.etcd.interface import Etcd
from proxy.etcd.model import Delete, EtcdError, EtcdNoSpace, EtcdRefused, Put, RefusalKind, Txn
from proxy.mirror import Mirror
from proxy.sessions import Session, Sessions
from proxy.tasks import Tasks
from schema.keys import Keyspace

log = logging.getLogger(__name__)

_TIMEOUT = 5.0
_PROXY_TTL = 15  # seconds until a proxy that is silent counts as dead
OUTAGE = 3.0  # seconds of silence after which etcd counts as out of reach, and no session's time runs
_PROXY_RENEWAL = 1.0  # seconds; also how soon an etcd out of reach is noticed


class Leases:
    """Watches over the sessions of one proxy, and over the proxy's own key."""

    def __init__(
        self,
        etcd: Etcd,
        keys: Keyspace,
        mirror: Mirror,
        sessions: Sessions,
        incarnation: str,
        tick_ms: int,
        expire: Callable[[Session], None],
        tasks: Tasks,
    ) -> None:
        """`expire` ends a session whose client was silent for its timeout."""
        self._etcd = etcd
        self._keys = keys
        self._mirror = mirror
        self._sessions = sessions
        self._incarnation = incarnation
        self._interval = min(tick_ms / 4000, 0.5)
        self._expire = expire
        self._tasks = tasks
        self._keeper = etcd.lease_keeper(self._renewed)
        self._proxy_lease = 0
        self._renewed_at = 0.0
        self._outage = False

    async def register(self) -> None:
        """Make this proxy known, and sweep the markers of those that died."""
        lease = secrets.randbits(62) + 1
        await self._etcd.lease_grant(lease, _PROXY_TTL, _TIMEOUT)
        await self._etcd.txn(Txn((), (Put(self._keys.proxy(self._incarnation), b"", lease),)), _TIMEOUT)
        self._proxy_lease = lease

    async def register_in_time(self) -> None:
        """Make this proxy known, at once unless etcd is full: reads and endings can be served even then.

        Until there is space others may take this proxy for dead, and sweep its markers.
        """
        try:
            await self.register()
        except EtcdNoSpace as error:
            log.error("etcd has no space left: no new sessions, no writes (%s)", error)
            self._tasks.start(self._keep_registering(), "register this proxy once there is space")

    async def sweep(self) -> None:
        """Delete the markers of proxies that are gone. One that only slept loses its flying Txns, safely."""
        living = self._mirror.proxies | {self._incarnation}
        dead = [name for name in self._mirror.markers if name.partition("/")[0] not in living]
        for name in dead:
            await self._etcd.txn(Txn((), (Delete(self._keys.markers + name.encode()),)), _TIMEOUT)

    async def retire(self) -> None:
        """Take this proxy's own keys away when it stops."""
        mine = [name for name in self._mirror.markers if name.partition("/")[0] == self._incarnation]
        deletes = [Delete(self._keys.markers + name.encode()) for name in mine]
        await self._etcd.txn(Txn((), (*deletes, Delete(self._keys.proxy(self._incarnation)))), _TIMEOUT)
        await self._etcd.lease_revoke(self._proxy_lease, _TIMEOUT)

    async def run(self) -> None:
        """Look after all sessions, four times a tick, for ever."""
        loop = asyncio.get_running_loop()
        last = loop.time()
        while True:
            await asyncio.sleep(self._interval)
            now = loop.time()
            # After a pause of the whole process, what clients sent meanwhile has to be read first.
            self._look(now, stalled=now - last > 3 * self._interval)
            last = now

    def _look(self, now: float, *, stalled: bool) -> None:
        unheard = now - self._etcd.last_contact
        if unheard > OUTAGE:
            self._outage = True
        elif self._outage:
            # As after an election in ZooKeeper, every client has its whole timeout to come back.
            self._outage = False
            for session in self._sessions:
                session.heard = now
        for session in self._sessions:
            if unheard > max(OUTAGE, session.timeout_ms / 1000) and session.connection is not None:
                # We cannot know what others did meanwhile: the client has to ask another proxy.
                log.warning(
                    "etcd unheard of for %.1f s: closing session 0x%x's connection", unheard, session.id
                )
                session.connection.close()
            if session.ending:
                continue
            if session.is_due(now):
                if not stalled and not self._outage:
                    session.ending = True
                    self._expire(session)
            elif session.wants_keep_alive(now):
                session.kept_alive = now
                self._keeper.send(session.id)
        if now - self._renewed_at >= _PROXY_RENEWAL and self._proxy_lease:
            self._renewed_at = now
            self._keeper.send(self._proxy_lease)

    def _renewed(self, lease: int, ttl: int) -> None:
        """etcd's answer to a renewal. A session's loss shows in the watch stream as well."""
        session = self._sessions.get(lease)
        if session is not None and ttl > 0:
            session.lease_seconds = ttl
        if lease == self._proxy_lease and ttl <= 0:
            self._proxy_lease = 0
            self._tasks.start(self._keep_registering(), "register this proxy again")

    async def _keep_registering(self) -> None:
        while not self._proxy_lease:
            try:
                await self.register()
            except EtcdError as error:
                log.warning("cannot register this proxy: %s", error)
                await asyncio.sleep(1)


async def grant(etcd: Etcd, lease: int, ttl: int) -> bool:
    """Grant a lease of this id; False if the id is taken."""
    try:
        await etcd.lease_grant(lease, ttl, _TIMEOUT)
    except EtcdRefused as refused:
        if refused.kind is RefusalKind.LEASE_EXISTS:
            return False
        raise
    return True
