"""The identity of one connection's client: its address, its session, and the identities it has proved."""

import asyncio
import logging
import weakref
from collections.abc import Callable

from codec.constants import ErrorCode
from codec.errors import MalformedPacket
from codec.jute import Reader
from codec.longs import hex64
from proxy.frontend.authentication import SaslAnswer
from proxy.frontend.client_info import ClientInfo
from proxy.frontend.request_logs import RequestLogs
from proxy.sasl.exchange import Exchange, Failed, Malformed, Step
from proxy.sasl.login import Login
from proxy.state.auth.ip import java_address
from proxy.state.auth.listing import listed
from proxy.state.auth.sasl import sasl_identities
from proxy.state.auth.scheme import Identities, Remote
from proxy.state.auth.schemes import AuthSchemes
from proxy.state.auth.x509 import subject_name
from proxy.support.counters import Counters

log = logging.getLogger("proxy.frontend.connection")  # the documents name this logger

# Characters of the identities that one connection may prove by auth packets, since every write carries them
# all into the log: about two hundred users. ZooKeeper has no such limit.
_MOST = 8 << 10
# Characters of what failed, for the logs: a client may send a megabyte.
_LONGEST_SCHEME = 100
_LONGEST_NAME = 256


class ClientIdentity(ClientInfo):
    """The identity of one client, and how it proves more of it."""

    __slots__ = (
        "__weakref__",
        "_auth",
        "_counters",
        "_login",
        "_loop",
        "_negotiated",
        "_negotiation",
        "_remote",
        "_request_logs",
    )

    def __init__(
        self,
        auth: AuthSchemes,
        login: Login | None,
        counters: Counters,
        request_logs: RequestLogs | None,
        loop: asyncio.AbstractEventLoop,
        negotiated: Callable[[SaslAnswer], None],
    ) -> None:
        """`negotiated`: a method of the connection; it gets answers to tokens that are not made at once."""
        super().__init__()
        self._auth = auth
        self._login = login
        self._counters = counters
        self._request_logs = request_logs
        self._negotiated = weakref.WeakMethod(negotiated)  # this object is a part of the connection
        self._loop = loop
        self._negotiation: Negotiation | None = None
        self._remote = Remote("")

    def connected(self, transport: asyncio.BaseTransport) -> bool:
        """Read the address, unless the listener knows it, and the certificate; whether both are valid."""
        peername = transport.get_extra_info("peername")
        is_usable = True
        if self.address:
            is_usable = peername is not None
        elif peername is not None:
            self.address, self.port = java_address(peername[0]), peername[1]
        else:
            is_usable = False  # the client has reset the connection already
        try:
            self._remote = Remote(self.address, _subject(transport))
        except ValueError as error:
            log.warning("closing %s: its certificate: %s", self.address, error)
            is_usable = False
        self._add(self._auth.identities(self._remote))
        return is_usable

    # -- auth packets --------------------------------------------------------------------------------------

    def prove(self, packet: bytes, position: int) -> bool | None:
        """Add the identities that an auth packet proves; False if it proves none, None if it is cut."""
        try:
            reader = Reader(packet, position)
            reader.int()  # the type, always 0
            scheme = reader.string()
            proven = self._auth.authenticate(scheme, reader.buffer(), self._remote)
        except MalformedPacket as error:
            self.refused("", "", f"its packet is {error}")
            return None
        if not proven:
            self.refused(scheme or "", "", "")
            return False
        if all(identity in self.identities for identity in proven):
            return True
        if sum(len(scheme) + len(name) for scheme, name in (*self.identities, *proven)) > _MOST:
            self.refused(scheme or "", "", f"its identities have more than {_MOST} characters in all")
            return False
        self._add(proven)
        return True

    # -- SASL ----------------------------------------------------------------------------------------------

    def negotiate(self, token: bytes) -> SaslAnswer | None:
        """Answer a token of SASL; None if the connection gets the answer later.

        Without a login, as ZooKeeper without one: success and no token (ZooKeeperServer.processSasl).
        """
        login = self._login
        if login is None:
            return SaslAnswer(ErrorCode.OK, None)
        if self._negotiation is None:
            self._negotiation = Negotiation(login, self._loop, self)
        return self._negotiation.step(token)

    @property
    def negotiates(self) -> bool:
        """Whether an exchange has begun that is not over."""
        return self._negotiation is not None and not self._negotiation.is_over

    def proven(self, name: str, *, is_super: bool) -> None:
        """The client has proved by SASL that this is its name."""
        log.info("session %s: %s:%d is SASL user %r", hex64(self.session_id), self.address, self.port, name)
        self._add(sasl_identities(name, is_super=is_super))

    def negotiated(self, answer: SaslAnswer) -> None:
        """The answer to a token is ready, which was not made at once."""
        negotiated = self._negotiated()
        if negotiated is not None:
            negotiated(answer)

    def refused(self, scheme: str, name: str, reason: str) -> None:
        """An authentication has failed. `name`: the name that the client claims, if it is known."""
        scheme, name = scheme[:_LONGEST_SCHEME], name[:_LONGEST_NAME]
        self._counters.auth_failed += 1
        log.warning(
            "session %s: authentication of %s:%d refused, scheme %r%s%s",
            hex64(self.session_id),
            self.address,
            self.port,
            scheme,
            f", user {name!r}" if name else "",
            f": {reason}" if reason else "",
        )
        if self._request_logs is not None:
            self._request_logs.refused(self, scheme, name)

    def lost(self) -> None:
        """The connection is closed: an exchange ends with its current step."""
        self._negotiation = None

    def _add(self, proven: Identities) -> None:
        self.identities = listed((*self.identities, *proven))


class Negotiation:
    """A SASL exchange (ZooKeeperServer.processSasl).

    It has one step at a time: the next token is processed after the answer to the last one.
    """

    def __init__(self, login: Login, loop: asyncio.AbstractEventLoop, claimant: "ClientIdentity") -> None:
        self._login = login
        self._loop = loop
        self._claimant = claimant
        self._exchange: Exchange | None = None
        self.is_over = False  # the client has proved its name, or failed

    def step(self, token: bytes) -> SaslAnswer | None:
        """Answer the client's next token; None if the claimant gets the answer later."""
        try:
            exchange = self._exchange
            if exchange is None:
                exchange = self._exchange = self._login.begin(token)
            if not exchange.blocks:
                return self._taken(exchange.step(token))
        except Failed as failure:
            return self._failed(failure)
        step = self._loop.run_in_executor(self._login.threads, exchange.step, token)
        step.add_done_callback(self._stepped)
        return None

    def _stepped(self, done: asyncio.Future[Step]) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            self._claimant.negotiated(self._taken(done.result()))
            return
        if not isinstance(error, Failed):
            log.error("a step of a SASL exchange failed", exc_info=error)
            error = Failed(repr(error))
        self._claimant.negotiated(self._failed(error))

    def _taken(self, step: Step) -> SaslAnswer:
        if step.name is not None:
            self.is_over = True
            self._claimant.proven(step.name, is_super=step.name in self._login.super_users)
        return SaslAnswer(ErrorCode.OK, step.token)

    def _failed(self, failure: Failed) -> SaslAnswer:
        self.is_over = True
        self._claimant.refused("sasl", failure.name, str(failure))
        login = self._login
        if isinstance(failure, Malformed):
            return SaslAnswer(ErrorCode.AUTH_FAILED, None, is_sent=False)
        if login.is_demanded:
            return SaslAnswer(ErrorCode.SESSION_CLOSED_REQUIRE_SASL_AUTH, None)
        return SaslAnswer(ErrorCode.OK if login.allows_failed else ErrorCode.AUTH_FAILED, None)


def _subject(transport: asyncio.BaseTransport) -> str | None:
    """The subject of the client's TLS certificate; None without one."""
    tls = transport.get_extra_info("ssl_object")
    certificate = None if tls is None else tls.getpeercert(binary_form=True)
    return None if certificate is None else subject_name(certificate)
