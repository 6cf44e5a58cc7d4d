"""The SASL exchange of one connection (ZooKeeperServer.processSasl)."""

import asyncio
import logging
from typing import Protocol

from codec.constants import ErrorCode
from proxy.frontend.waiting import SaslAnswer
from proxy.sasl.exchange import Exchange, Failed, Malformed, Step
from proxy.sasl.login import Login

log = logging.getLogger(__name__)


class Claimant(Protocol):
    """The client that negotiates."""

    def proven(self, name: str, *, is_super: bool) -> None:
        """The exchange has ended: this is the client's name."""

    def refused(self, scheme: str, name: str, reason: str) -> None:
        """The exchange has failed. `name`: the name that the client claims, if it is known."""

    def negotiated(self, answer: SaslAnswer) -> None:
        """Process the answer of a step that was not made at once."""


class Negotiation:
    """Steps of an exchange, one at a time: the next token is processed after the answer to the last one."""

    def __init__(self, login: Login, loop: asyncio.AbstractEventLoop, claimant: Claimant) -> None:
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
