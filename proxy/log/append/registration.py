"""This proxy's incarnation, and the lease and the key that show that it lives.

If it is doubtful whether the key still exists, the incarnation ends: that is always safe, and clients do not
notice it.
"""

import asyncio
import logging
from collections.abc import Callable

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
    TxnResult,
)
from proxy.log.append.sent import Sent
from proxy.log.context import Context
from proxy.log.status import keep_alive_interval
from proxy.support.throttled_log import ThrottledLog
from schema.keys import Keyspace
from schema.record import ProxyValue, encode_proxy

log = logging.getLogger(__name__)

_TIMEOUT = 2.0  # seconds for one request
_PAUSE = 0.2  # seconds before a request that failed is sent again
_FULL_PAUSE = 1.0  # seconds, while etcd has no space for a lease


class Incarnation:
    """One life of a proxy: a random name, one lease, and one key with that lease, which is put once."""

    def __init__(self, keys: Keyspace, name: str, granted: float, keep_alive_sent: float = 0.0) -> None:
        """Nothing can be appended before `registered`. Until then `granted` and `keep_alive_sent` count."""
        self._keys = keys
        self._key = keys.proxy(name)
        self.name = name
        self.lease = 0  # 0: there is none yet, or it is revoked
        #: The time of the lease in seconds, as etcd has granted it last.
        self.granted = granted
        #: The revision at which the proxy key was put. That is done once, so it stays its mod_revision, which
        #: appends compare, and its create_revision, by which proxies have an order.
        self.revision = 0
        #: Monotonic seconds at which the last answered keep-alive, or the request for the lease, was sent.
        self.keep_alive_sent = keep_alive_sent
        self._asked: float | None = None  # when the keep-alive was sent that has no answer yet
        self._over = asyncio.Event()
        self._over.set()
        self._gone = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """Whether it cannot append: it is over, or its key is not put yet."""
        return self._over.is_set()

    def registered(self, revision: int, lease: int, granted: float, asked: float) -> None:
        """The key is put. It is over at once if the stream has shown the deletion of the key already.

        `revision`: at which the key was put. `granted`: seconds of the lease, requested at `asked`.
        """
        self.revision = revision
        self.lease = lease
        self.granted = granted
        self.keep_alive_sent = asked
        if self._gone.is_set():
            log.warning("incarnation %s is over: its key went at once", self.name)
        else:
            self._over.clear()

    def end(self, why: str) -> None:
        """It is over, or may be."""
        if not self._over.is_set():
            log.warning("incarnation %s is over: %s", self.name, why)
            self._over.set()

    def stop(self) -> None:
        """Append nothing more: it is revoked."""
        self._over.set()

    async def until_over(self) -> None:
        """Wait until it is over."""
        await self._over.wait()

    def key_gone(self, why: str) -> None:
        """The stream has passed the deletion of the key, so no more entries of it take effect."""
        self._gone.set()
        self.end(why)

    async def gone(self) -> None:
        """Wait until no more entries of it can take effect."""
        await self._gone.wait()

    # -- its Txns ------------------------------------------------------------------------------------------

    def txn_of(self, sent: Sent) -> Txn:
        """The Txn that appends an entry, or its replacement.

        It can be sent any number of times (rule 2.2): the first compare fails once the incarnation
        is over, the second once the number is filled.
        """
        entry_key = self._keys.entry(self.name, sent.number)
        put = Put(entry_key, sent.value)
        return Txn(
            (Compare(self._key, self.revision), Compare(entry_key, 0)),
            # etcd counts the puts of a Txn against its quota, but not those of Txns within it (server/
            # etcdserver/quota.go, costTxn).
            (Txn((), (put,)) if sent.form.is_nested else put,),
            (Get(self._key, keys_only=True),),
        )

    def is_denied_by(self, answer: TxnResult) -> bool:
        """Whether the answer to an append says that the proxy key is gone, and with it the incarnation.

        Otherwise the number is filled: by this try, an earlier one, or the entry that this one replaces.
        """
        if answer.succeeded:
            return False
        (proxy,) = answer.responses
        assert isinstance(proxy, RangeResult)
        return not proxy.kvs or proxy.kvs[0].mod_revision != self.revision

    # -- its lease -----------------------------------------------------------------------------------------

    def ask_for_time(self, now: float) -> bool:
        """Whether to send a keep-alive at the monotonic time `now`. At most one is in flight."""
        if self.is_over or self._asked is not None:
            return False
        self._asked = now
        return True

    def kept_alive(self, ttl: int) -> None:
        """etcd's answer to the keep-alive in flight: the lease has so many seconds from its request on."""
        asked, self._asked = self._asked, None
        if ttl <= 0:
            self.end("its lease has run out")
        elif asked is not None:
            self.keep_alive_sent = asked
            self.granted = ttl


class Registration:
    """Registers this proxy under one incarnation at a time, and keeps its lease alive."""

    def __init__(
        self, context: Context, on_failure: Callable[[EtcdError], None], record_revision: Callable[[], int]
    ) -> None:
        """`on_failure`: an attempt to register has failed. `record_revision`: as `SeenRecord.revision`."""
        settings = context.settings
        self._etcd = context.etcd
        self._keys = context.keys
        self._lease_seconds = settings.lease_seconds
        self._value = ProxyValue(
            tuple(sorted(settings.levels)),
            settings.version,
            settings.archives,
            settings.home,
            settings.peer_port,
        )
        self._on_failure = on_failure
        self._record_revision = record_revision
        self._environment = context.environment
        self._throttled_log = ThrottledLog(log, context.environment.clock)
        # A stream that does not answer is replaced while the lease still has two thirds of its time.
        self._ask_for_time = context.etcd.lease_keeper(
            self._kept_alive, keep_alive_interval(self._lease_seconds)
        )
        #: The incarnation under which this proxy appends, did so last, or is about to; nameless at first.
        self.current = Incarnation(context.keys, "", settings.lease_seconds)

    async def register(self) -> Incarnation:
        """Take a new incarnation; returns when its key was put. Retries until that succeeds."""
        while not await self._try():
            pass
        return self.current

    def key_gone(self, name: str, why: str = "its key is gone") -> None:
        """The stream has passed the deletion of a proxy's key, so no more entries of it take effect."""
        if name == self.current.name:
            self.current.key_gone(why)

    async def revoke(self) -> None:
        """Delete the proxy key, so that no Txn that is still in flight can append."""
        self.current.stop()
        while True:
            if await self._revoked(self.current.lease):
                break
            await asyncio.sleep(_PAUSE)
        self.current.lease = 0

    async def retire(self) -> None:
        """Delete the proxy key when this proxy stops, if etcd answers."""
        self.current.stop()
        if self.current.lease:
            await self._revoked(self.current.lease)

    async def keep_alive(self, is_cut_off: Callable[[], bool]) -> None:
        """Keep the lease alive, for ever. While etcd answers nothing else, other proxies are to take over."""
        while True:
            if not is_cut_off() and self.current.ask_for_time(self._environment.clock.monotonic()):
                self._ask_for_time(self.current.lease)
            await asyncio.sleep(keep_alive_interval(self.current.granted))

    # -- how -----------------------------------------------------------------------------------------------

    async def _try(self) -> bool:
        """Try to register one new incarnation; returns whether that succeeded."""
        randomness = self._environment.randomness
        name = randomness.token_hex(8)
        lease = randomness.randbits(62) + 1
        former = self.current
        incarnation = Incarnation(self._keys, name, former.granted, former.keep_alive_sent)
        self.current = incarnation
        asked = self._environment.clock.monotonic()
        # Not sent to a second member of etcd early, as appends are: a copy that it executes late could make
        # a lease again that has ended, and its keep-alives would keep connections open.
        try:
            granted = await self._etcd.lease_grant(lease, self._lease_seconds, _TIMEOUT)
        except EtcdError as error:
            # If etcd has granted the lease, it expires without effect: no key has it.
            await self._failed("cannot get a lease", error)
            return False
        key = self._keys.proxy(name)
        # Before 3.4.42, 3.5.28 and 3.6.9 etcd does not check the permission for a put in an inner Txn, and
        # proxies may not serve without it. It checks that for this deletion, of a key that never exists.
        may_write = Delete(key + b"\0")
        value = encode_proxy(self._value._replace(lease=granted))
        revision = 0
        while not revision:
            # Another record may have a seal (rule 1.6).
            known = Compare(self._keys.tree, self._record_revision())
            txn = Txn(
                (Compare(key, 0), known),
                (Txn((), (Put(key, value, lease),)),),
                (Get(key, keys_only=True), may_write),
            )
            try:
                answer = await self._etcd.txn(txn, _TIMEOUT)
            except EtcdError as error:
                await self._failed("cannot register this proxy", error)
                if isinstance(error, EtcdRefused) and error.kind is RefusalKind.LEASE_NOT_FOUND:
                    return False
                continue
            revision = answer.revision
            if not answer.succeeded:
                found = answer.responses[0]
                assert isinstance(found, RangeResult)
                if found.kvs:  # an earlier try of this Txn
                    revision = found.kvs[0].create_revision
                else:
                    revision = 0
                    await asyncio.sleep(_PAUSE)
        log.info("registered as %s", name)
        incarnation.registered(revision, lease, granted, asked)
        return True

    async def _failed(self, what: str, error: EtcdError) -> None:
        self._throttled_log.warn("%s: %s", what, error)
        self._on_failure(error)
        await asyncio.sleep(_FULL_PAUSE if isinstance(error, EtcdNoSpace) else _PAUSE)

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
        if lease == self.current.lease:  # else it is about an earlier incarnation
            self.current.kept_alive(ttl)
