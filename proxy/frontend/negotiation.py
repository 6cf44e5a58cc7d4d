"""The SASL exchange of one connection (ZooKeeperServer.processSasl)."""

import asyncio
import logging
from collections.abc import Callable

from codec.constants import ErrorCode
from proxy.frontend.waiting import SaslAnswer
from proxy.sasl.exchange import Exchange, Failed, Malformed, Step
from proxy.sasl.login import Login

log = logging.getLogger(__name__)


class Negotiation:
    """Steps of an exchange, one at a time: the next token comes only after the answer to the last one."""

    def __init__(
        self,
        login: Login,
        loop: asyncio.AbstractEventLoop,
        proven: Callable[[str], None],
        refused: Callable[[str, str], None],
        later: Callable[[SaslAnswer], None],
    ) -> None:
        """`proven(name)` or `refused(name, reason)` is called when the exchange ends.

        `later(answer)` gets the answer of a step that had to wait.
        """
        self._login = login
        self._loop = loop
        self._proven = proven
        self._refused = refused
        self._later = later
        self._exchange: Exchange | None = None
        self._step: asyncio.Future[Step] | None = None

    def step(self, token: bytes) -> SaslAnswer | None:
        """Answer the client's next token; None if the answer comes later."""
        try:
            exchange = self._exchange
            if exchange is None:
                exchange = self._exchange = self._login.begin(token)
            if not exchange.blocks:
                return self._taken(exchange.step(token))
        except Failed as failure:
            return self._failed(failure)
        self._step = self._loop.run_in_executor(self._login.threads, exchange.step, token)
        self._step.add_done_callback(self._stepped)
        return None

    def _stepped(self, done: asyncio.Future[Step]) -> None:
        self._step = None
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            self._later(self._taken(done.result()))
            return
        if not isinstance(error, Failed):
            log.error("a step of a SASL exchange failed", exc_info=error)
            error = Failed(repr(error))
        self._later(self._failed(error))

    def _taken(self, step: Step) -> SaslAnswer:
        if step.name is not None:
            self._proven(step.name)
        return SaslAnswer(ErrorCode.OK, step.token)

    def _failed(self, failure: Failed) -> SaslAnswer:
        self._refused(failure.name, str(failure))
        login = self._login
        if isinstance(failure, Malformed):
            return SaslAnswer(ErrorCode.AUTH_FAILED, None, is_sent=False)
        if login.is_demanded:
            return SaslAnswer(ErrorCode.SESSION_CLOSED_REQUIRE_SASL_AUTH, None)
        return SaslAnswer(ErrorCode.OK if login.allows_failed else ErrorCode.AUTH_FAILED, None)
