"""From a connect request to a session: a new one, or one that goes on, from this proxy or another.

ZooKeeper's rules are in ZooKeeperServer.processConnectRequest; etcd's side is one guarded Txn for each step.
"""

import logging
import secrets
from collections.abc import Callable
from typing import Protocol

from codec.constants import ErrorCode
from codec.packets import ConnectRequest
from proxy.acl import Caller
from proxy.batch import Request
from proxy.committer import Committer
from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdError
from proxy.leases import grant
from proxy.mirror import Mirror
from proxy.ops.session import OPEN, TAKE_OVER, TakeOver
from proxy.ops.sync import SYNC
from proxy.sessions import PASSWORD_BYTES, Session, Sessions, hash_of, lease_ttl
from schema.values import SessionValue

log = logging.getLogger(__name__)


class Guest(Protocol):
    """A connection that wants a session."""

    def established(self, session: Session, password: bytes) -> None:
        """Here it is."""

    def refuse(self) -> None:
        """There is no such session."""

    def close(self) -> None:
        """Not with this server, or not now."""

    @property
    def is_closed(self) -> bool:
        """Whether the client has gone meanwhile."""


class Handshake:
    """Answers connect requests."""

    def __init__(
        self,
        mirror: Mirror,
        committer: Committer,
        etcd: Etcd,
        sessions: Sessions,
        incarnation: str,
        clock: "Clock",
    ) -> None:
        self._mirror = mirror
        self._committer = committer
        self._etcd = etcd
        self._sessions = sessions
        self._incarnation = incarnation
        self._clock = clock

    async def greet(self, guest: Guest, request: ConnectRequest) -> None:
        """Give a connection its session, or close it: also when the client will have given up by now."""
        patience = self._clock.call_later(self._sessions.negotiate(request.timeout_ms) / 1000, guest.close)
        try:
            if request.last_zxid_seen > self._mirror.zxid and not await self._catches_up(
                request.last_zxid_seen
            ):
                log.info(
                    "a client has seen zxid 0x%x, this server only 0x%x",
                    request.last_zxid_seen,
                    self._mirror.zxid,
                )
                guest.close()
            elif request.session_id == 0:
                await self._open(guest, request)
            else:
                await self._go_on(guest, request)
        except EtcdError as error:
            log.warning("no session without etcd: %s", error)
            guest.close()
        finally:
            patience.cancel()

    async def _catches_up(self, zxid: int) -> bool:
        """Whether the mirror has reached a zxid once it is level with etcd."""
        await self._committer.commit(
            lambda done: Request(SYNC, "/", Caller(0, ()), 0, done, of_session=False)
        )
        return self._mirror.zxid >= zxid

    async def _open(self, guest: Guest, request: ConnectRequest) -> None:
        timeout = self._sessions.negotiate(request.timeout_ms)
        password = secrets.token_bytes(PASSWORD_BYTES)
        value = SessionValue(hash_of(password), timeout, self._incarnation)
        while True:
            session_id = secrets.randbits(62) + 1
            if not await grant(self._etcd, session_id, lease_ttl(timeout)):
                continue
            caller = Caller(session_id, ())
            done = await self._committer.commit(
                lambda done, caller=caller: Request(OPEN, value, caller, 100, done, of_session=False)  # type: ignore[misc]
            )
            if done.refusal is None:
                break
            log.warning("could not open a session: %s", done.refusal.name)
            guest.close()
            return
        session = Session(session_id, timeout, self._clock.time())
        self._sessions.add(session)
        if not guest.is_closed:
            guest.established(session, password)

    async def _go_on(self, guest: Guest, request: ConnectRequest) -> None:
        session_id = request.session_id
        timeout = self._sessions.negotiate(request.timeout_ms)
        password = request.password or b""
        known = self._sessions.get(session_id)
        if known is not None and known.connection is not None:
            # ZooKeeper drops the older connection even if the newer one fails to prove itself.
            known.connection.close()
        if known is not None:
            known.heard = self._clock.time()
        proof = hash_of(password)
        wish = TakeOver(proof, SessionValue(proof, timeout, self._incarnation), lambda: not guest.is_closed)
        done = await self._committer.commit(
            lambda done: Request(TAKE_OVER, wish, Caller(session_id, ()), 100, done, of_session=False)
        )
        if done.refusal in (ErrorCode.SESSION_EXPIRED, ErrorCode.SESSION_MOVED):
            guest.refuse()
            return
        if done.refusal is not None:
            guest.close()
            return
        record = self._mirror.sessions.get(session_id)
        if record is None or record.value.owner != self._incarnation:
            guest.close()  # it ended, or the client has asked another proxy, in this very moment
            return
        timeout = record.value.timeout_ms
        known = self._sessions.get(session_id)
        if known is None:
            known = Session(session_id, timeout, self._clock.time())
            self._sessions.add(known)
        known.timeout_ms = timeout
        known.heard = self._clock.time()
        known.kept_alive = 0.0  # the lease may have been close to its end: renew it at once
        if known.connection is not None:
            known.connection.close()
        if not guest.is_closed:
            guest.established(known, password)


class Clock(Protocol):
    """A monotonic clock in seconds: the event loop."""

    def time(self) -> float:
        """Now."""

    def call_later(self, delay: float, callback: Callable[[], object]) -> "Timer":
        """Call back after `delay` seconds."""


class Timer(Protocol):
    """A callback that is due."""

    def cancel(self) -> None:
        """Do not call back."""
