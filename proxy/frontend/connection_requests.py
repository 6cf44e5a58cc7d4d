"""The requests that concern only the connection: ping, auth, sasl, and unsupported ones. Pure."""

import logging
from typing import Protocol

from codec.constants import ErrorCode, OpCode, Xid
from codec.errors import MalformedPacket
from codec.jute import Reader, pack_buffer
from proxy.frontend.ready import Ready
from proxy.frontend.replies import Replies
from proxy.frontend.request_times import RequestTimes
from proxy.frontend.traced import Sampled
from proxy.frontend.waiting import Author, SaslAnswer, Single

log = logging.getLogger("proxy.frontend.order")

_PING = int(OpCode.PING)  # a plain number: looking up an enum's member costs more than the comparison


class AuthenticatingClient(Author, Protocol):
    """The client of the requests, which may prove identities."""

    def prove(self, packet: bytes, position: int) -> bool | None:
        """Add the identities that an auth packet proves; False if it proves none, None if it is cut."""

    def negotiate(self, token: bytes) -> SaslAnswer | None:
        """Answer a token of SASL; None if `Order.negotiated` gets the answer later."""


class ConnectionRequests:
    """Answers these requests of one client."""

    __slots__ = ("_identity", "_ready", "_replies", "_times")

    def __init__(
        self, identity: AuthenticatingClient, replies: Replies, ready: Ready, times: RequestTimes
    ) -> None:
        self._identity = identity
        self._replies = replies
        self._ready = ready
        self._times = times

    def answer(self, request: Single) -> bool:
        """Answer a request; False if the answer is made by a thread, and `answer_sasl` is called with it."""
        xid, opcode, packet, *_ = request
        replies = self._replies
        if opcode == _PING:
            self._times.note_ping()
            replies.add(Xid.PING, ErrorCode.OK)
            return True
        is_answered = True
        if opcode == OpCode.AUTH:
            is_proven = self._identity.prove(packet, replies.wire.body)
            if is_proven is not None:
                replies.add_at(0, xid, ErrorCode.OK if is_proven else ErrorCode.AUTH_FAILED)
            if not is_proven:
                self._ready.close = True
        elif opcode == OpCode.SASL:
            is_answered = self._answer_token(xid, packet)
        else:
            log.info("closing %s: operation %d is not offered", self._identity.address, opcode)
            self._ready.close = True
            # In ZooKeeper the request has no zxid yet.
            replies.add_at(-1, xid, ErrorCode.UNIMPLEMENTED)
        if type(packet) is Sampled:
            packet.answered(self._identity, xid, opcode, ErrorCode.OK)
        return is_answered

    def _answer_token(self, xid: int, packet: bytes) -> bool:
        token = self._token(packet)
        if token is None:
            log.info("closing %s: a SASL packet without a token", self._identity.address)
            self._ready.close = True
            return True
        answer = self._identity.negotiate(token)
        if answer is not None:
            self.answer_sasl(xid, answer)
        return answer is not None

    def answer_sasl(self, xid: int, answer: SaslAnswer) -> None:
        """Answer as ZooKeeperServer.processSasl, which closes the connection after a failure."""
        if answer.is_sent:
            self._replies.add_at(0, xid, answer.err, pack_buffer(answer.token))
        if answer.err:
            self._ready.close = True

    def lets_pass(self, request: Single) -> bool:
        """Whether writes after this request take effect if the connection is closed before it is answered.

        ZooKeeper closes after a failed authentication and an unknown request, and ignores all later requests.
        """
        if request.opcode == OpCode.AUTH:
            return bool(self._identity.prove(request.packet, self._replies.wire.body))
        if request.opcode == OpCode.SASL:
            token = self._token(request.packet)
            answer = None if token is None else self._identity.negotiate(token)
            return answer is not None and not answer.err
        return request.opcode == _PING

    def _token(self, packet: bytes) -> bytes | None:
        """The token of a sasl packet; None if it is null or cut: then ZooKeeper closes the connection."""
        try:
            return Reader(packet, self._replies.wire.body).buffer()
        except MalformedPacket:
            return None
