"""The data of a connection that commands for operators, connection limits and sessions read."""

import math

from codec.constants import ProtocolVersion
from proxy.frontend.client_identity import ClientIdentity
from proxy.frontend.inbound import Inbound
from proxy.frontend.opening import Opening
from proxy.frontend.order import Order
from proxy.frontend.outbound import Outbound
from proxy.frontend.sessions import Session
from proxy.frontend.waiting import Waiting
from proxy.state.auth.scheme import Identities


class ConnectionFacts:
    """The part of a connection that only answers questions. `Connection` makes the attributes."""

    identity: ClientIdentity
    session: Session | None
    _opening: Opening
    _inbound: Inbound
    _outbound: Outbound
    _order: Order

    @property
    def address(self) -> str:
        """The client's address."""
        return self.identity.address

    @property
    def port(self) -> int:
        """The port on the client's side."""
        return self.identity.port

    @property
    def session_id(self) -> int:
        """The session; 0 while there is none."""
        return self.identity.session_id

    @property
    def identities(self) -> Identities:
        """The identities that the client has proved. The console sets those of its user."""
        return self.identity.identities

    @identities.setter
    def identities(self, identities: Identities) -> None:
        self.identity.identities = identities

    @property
    def due(self) -> float:
        """The loop's time at which the connection is closed if the client is silent, or gets no session."""
        session = self.session
        return self._opening.due if session is None else session.heard + session.timeout_ms / 1000

    @property
    def is_keepers(self) -> bool:
        """Whether the handshake was one of Keeper's, which only ClickHouse sends."""
        return self._order.replies.wire.version != ProtocolVersion.ZOOKEEPER

    @property
    def is_closed(self) -> bool:
        """Whether the connection is closed or about to be."""
        return self._order.ready.close

    @property
    def wants_session(self) -> bool:
        """Whether the client still waits for its session."""
        return self.session is None and not self._order.ready.close

    @property
    def _awaits_session(self) -> bool:
        """Whether nothing may be handled before the session exists."""
        return self.session is None and self._opening.request is not None

    @property
    def _may_take_more(self) -> bool:
        """Whether reading is paused, and there is room for more requests."""
        outbound = self._outbound
        has_room = outbound.reading_paused and self._order.queue.has_room
        return has_room and not (self._awaits_session or outbound.frozen)

    @property
    def wants_slow_read(self) -> bool:
        """Whether a slow read is still to be answered."""
        return self._order.wants_slow_read

    @property
    def _has_unhandled(self) -> bool:
        """Whether some of the bytes received are not handled yet."""
        return bool(self._inbound.parked or self._opening.frames)

    def silence(self) -> float:
        """Seconds for which the client has been silent while it was not read from; inf if it is read from.

        While its requests wait for this server, it is not silent. While it does not read its replies, it has
        to send something, or to take some of them.
        """
        outbound = self._outbound
        if not (outbound.reading_paused or outbound.frozen):
            return math.inf
        return outbound.silence() if self._order.replies.is_paused and not outbound.frozen else 0.0

    @property
    def received(self) -> int:
        """Packets from the client."""
        return self._inbound.count

    @received.setter
    def received(self, count: int) -> None:
        self._inbound.count = count

    @property
    def sent(self) -> int:
        """Packets sent to the client."""
        return self._outbound.sent

    @sent.setter
    def sent(self, count: int) -> None:
        self._outbound.sent = count

    @property
    def outstanding(self) -> int:
        """Requests that are not answered yet."""
        return self._order.queue.count

    def waiting(self, most: int) -> list[Waiting]:
        """The first of the requests without an answer, for operators."""
        return self._order.waiting(most)
