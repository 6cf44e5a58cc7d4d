"""This proxy as a member of the cluster: its incarnation, and the lease and the key that show that it lives.

An incarnation is a random name, one lease, and one key with that lease, which is put once. If it is doubtful
whether the key still exists, the incarnation ends: that is always safe, and clients do not notice it.
"""

import asyncio
import logging
from collections.abc import Callable

from proxy.etcd.interface import Etcd
from proxy.etcd.model import (
    Compare,
    Delete,
    EtcdError,
    EtcdNoSpace,
    EtcdRefused,
    Get,
    Put,
    RangeResult,
    RefusalKind,
    Txn,
)
from proxy.log.contact import keep_alive_interval
from proxy.support.environment import Environment
from proxy.support.throttled_log import ThrottledLog
from schema.keys import Keyspace

log = logging.getLogger(__name__)

_TIMEOUT = 2.0  # seconds for one request
_PAUSE = 0.2  # seconds before a request that failed is sent again
_FULL_PAUSE = 1.0  # seconds, while etcd has no space for a lease


class Membership:
    """Registers this proxy under one incarnation at a time, and keeps its lease alive."""

    def __init__(
        self,
        etcd: Etcd,
        keys: Keyspace,
        lease_seconds: int,
        value: bytes,
        on_no_space: Callable[[], None],
        environment: Environment,
    ) -> None:
        """`value`: the value of the proxy key. `on_no_space`: etcd is too full to let this proxy register."""
        self._etcd = etcd
        self._keys = keys
        self._lease_seconds = lease_seconds
        self._value = value
        self._on_no_space = on_no_space
        self._environment = environment
        self._lease = 0
        self._asked: float | None = None  # when the keep-alive was sent that has no answer yet
        self._over = asyncio.Event()
        self._over.set()
        self._gone = asyncio.Event()
        self._throttled_log = ThrottledLog(log, environment.clock)
        # A stream that does not answer is replaced while the lease still has two thirds of its time.
        self._keeper = etcd.lease_keeper(self._kept_alive, keep_alive_interval(lease_seconds))
        #: The name under which this proxy appends, did so last, or is about to; "" at first.
        self.incarnation = ""
        #: The create_revision of the proxy key.
        self.revision = 0
        #: The time of the lease in seconds, as etcd has granted it.
        self.granted = lease_seconds
        #: Monotonic seconds at which the last answered keep-alive, or the request for the lease, was sent.
        self.keep_alive_sent = 0.0

    @property
    def is_over(self) -> bool:
        """Whether there is no incarnation that could append."""
        return self._over.is_set()

    async def register(self) -> None:
        """Take a new incarnation; returns when its key was put. Retries until that succeeds.

        The incarnation is over at once if the stream has shown the deletion of the key already.
        """
        while not await self._try():
            pass

    def end(self, incarnation: str, why: str) -> None:
        """End the incarnation: it is over, or may be."""
        if incarnation == self.incarnation and not self._over.is_set():
            log.warning("incarnation %s is over: %s", incarnation, why)
            self._over.set()

    async def ended(self) -> None:
        """Wait until the incarnation is over."""
        await self._over.wait()

    def key_gone(self, incarnation: str, why: str = "its key is gone") -> None:
        """The stream has passed the deletion of a proxy's key, so no more entries of it take effect."""
        if incarnation == self.incarnation:
            self._gone.set()
            self.end(incarnation, why)

    async def gone(self) -> None:
        """Wait until no more entries of the incarnation can take effect."""
        await self._gone.wait()

    async def revoke(self) -> None:
        """Delete the proxy key, so that no Txn that is still in flight can append."""
        self._over.set()
        while True:
            if await self._revoked(self._lease):
                break
            await asyncio.sleep(_PAUSE)
        self._lease = 0

    async def retire(self) -> None:
        """Delete the proxy key when this proxy stops, if etcd answers."""
        self._over.set()
        if self._lease:
            await self._revoked(self._lease)

    async def keep_alive(self, is_cut_off: Callable[[], bool]) -> None:
        """Keep the lease alive, for ever. While etcd answers nothing else, other proxies are to take over."""
        while True:
            if not self._over.is_set() and self._asked is None and not is_cut_off():
                self._asked = self._environment.clock.monotonic()
                self._keeper.send(self._lease)
            await asyncio.sleep(keep_alive_interval(self.granted))

    # -- how -----------------------------------------------------------------------------------------------

    async def _try(self) -> bool:
        """Try to register one new incarnation; returns whether that succeeded."""
        randomness = self._environment.randomness
        incarnation = self.incarnation = randomness.token_hex(8)
        self._gone.clear()
        lease = randomness.randbits(62) + 1
        asked = self._environment.clock.monotonic()
        # Not sent to a second member early, as appends are: a copy that a member executes late could make a
        # lease again that has ended, and its keep-alives would keep connections open.
        try:
            granted = await self._etcd.lease_grant(lease, self._lease_seconds, _TIMEOUT)
        except EtcdError as error:
            # If etcd has granted the lease, it expires without effect: no key has it.
            await self._failed("cannot get a lease", error)
            return False
        key = self._keys.proxy(incarnation)
        # etcd does not check the permission for a put in an inner Txn (3.4.23), and proxies may not serve
        # without it. It checks that for this deletion, of a key that never exists.
        may_write = Delete(key + b"\0")
        txn = Txn(
            (Compare(key, 0),),
            (Txn((), (Put(key, self._value, lease),)),),
            (Get(key, keys_only=True), may_write),
        )
        answer = None
        while answer is None:
            try:
                answer = await self._etcd.txn(txn, _TIMEOUT)
            except EtcdError as error:
                await self._failed("cannot register this proxy", error)
                if isinstance(error, EtcdRefused) and error.kind is RefusalKind.LEASE_NOT_FOUND:
                    return False
        self.revision = answer.revision
        if not answer.succeeded:
            found = answer.responses[0]
            assert isinstance(found, RangeResult)
            self.revision = found.kvs[0].create_revision  # an earlier try of this Txn
        self.granted = granted
        self.keep_alive_sent = asked
        self._asked = None
        self._lease = lease
        log.info("registered as %s", incarnation)
        if self._gone.is_set():
            log.warning("incarnation %s is over: its key went at once", incarnation)
        else:
            self._over.clear()
        return True

    async def _failed(self, what: str, error: EtcdError) -> None:
        self._throttled_log.warn("%s: %s", what, error)
        if isinstance(error, EtcdNoSpace):
            self._on_no_space()
            await asyncio.sleep(_FULL_PAUSE)
        else:
            await asyncio.sleep(_PAUSE)

    async def _revoked(self, lease: int) -> bool:
        try:
            await self._etcd.lease_revoke(lease, _TIMEOUT)
        except EtcdRefused as error:
            if error.kind is not RefusalKind.LEASE_NOT_FOUND:
                self._throttled_log.warn("cannot revoke lease %x: %s", lease, error)
                return False
        except EtcdError as error:
            self._throttled_log.warn("cannot revoke lease %x: %s", lease, error)
            return False
        return True

    def _kept_alive(self, lease: int, ttl: int) -> None:
        """etcd's answer to a keep-alive."""
        if lease != self._lease:
            return
        asked, self._asked = self._asked, None
        if ttl <= 0:
            self.end(self.incarnation, "its lease has run out")
        elif asked is not None:
            # At most one keep-alive is in flight, so this answers the one that was sent then, or later.
            self.keep_alive_sent = asked
            self.granted = ttl
