"""A connection that moves to another process.

The old process stops it and sends its state, and the new process rebuilds it from that.
"""

import asyncio
from typing import Any, cast

from codec.packets import ConnectRequest
from proxy.frontend.connection_facts import ConnectionFacts
from proxy.frontend.moved import Moved
from proxy.frontend.opening import SESSIONLESS_TIMEOUT
from proxy.frontend.services import Services
from proxy.frontend.sessions import Session
from proxy.frontend.throttle import Throttle
from proxy.frontend.wire import WIRES
from schema.entry import Identity


class Movable(ConnectionFacts):
    """The part of a connection that concerns moving. `Connection` makes the attributes."""

    _services: Services[Any]
    _loop: asyncio.AbstractEventLoop
    _throttle: Throttle

    def freeze(self) -> None:
        """Take no more requests until `thaw`; those that were taken are answered."""
        self._outbound.pause_reading()
        self._outbound.frozen = True

    def thaw(self) -> None:
        """Continue."""
        self._outbound.frozen = False
        if self.session is not None:
            self.session.heard = self._loop.time()  # what it has sent meanwhile is read next
        if self.wants_session and self._opening.request is None and self._opening.timer is None:
            self._opening.wait(self._loop, SESSIONLESS_TIMEOUT, self._give_up)
        if self._awaits_session:
            self._throttle.read_early()
        elif self._may_take_more and not self._has_unhandled:
            self._throttle.resume()
        else:
            self._wait()

    def _wait(self) -> None:
        """See `Connection`."""

    def _give_up(self) -> None:
        """See `Connection`."""

    @property
    def fd(self) -> int:
        """The socket."""
        return self._outbound.fd

    @property
    def unsent(self) -> int:
        """Bytes that the socket has not taken."""
        return self._outbound.unsent

    @property
    def is_quiet(self) -> bool:
        """Whether all requests that were taken are answered, and the socket has the replies."""
        order = self._order
        return not (order.queue.count or order.ready.packets or order.ready.again or self._outbound.unsent)

    @property
    def can_move(self) -> bool:
        """Whether another process can continue this connection."""
        session, opening = self.session, self._opening
        if self.is_closed or opening.word is not None or self._outbound.fd < 0:
            return False
        if session is None:
            return opening.request is None
        return cast(object, session.connection) is self and not self.identity.negotiates

    @property
    def mark(self) -> object:
        """A value that changes whenever the result of `packed` changes; None if that cannot be known."""
        session = self.session
        if session is None or self._has_unhandled:
            return None
        watches = self._services.reading.watches.count_of(cast(Any, self))
        return session.heard, self._inbound.count, self._outbound.sent, watches

    def packed(self) -> Moved:
        """All that the other process needs besides the socket and the client's address."""
        inbound, session = self._inbound, self.session
        return Moved(
            0 if session is None else session.id,
            [(each.scheme, each.id) for each in self.identities] if session is not None else [],
            WIRES.index(self._order.replies.wire),
            self.knows_keeper,
            self.since,
            inbound.count,
            self._outbound.sent,
            inbound.unhandled(),
            self._services.reading.watches.paths_of(cast(Any, self)),
        )

    def unpack(self, packed: Moved) -> None:
        """Become what another process has packed; called after `connection_made`, before `take_over`."""
        inbound = self._inbound
        self.knows_keeper, self.since = packed.knows_keeper, packed.since
        inbound.count, self._outbound.sent = packed.received, packed.sent
        if packed.session_id:
            wire = self._order.replies.wire = WIRES[packed.wire]
            inbound.continued(self._services.traces, wire, self._services.max_frame)
            self.identities = tuple(Identity(*each) for each in packed.identities)

    def take_over(self, packed: Moved, session: Session | None) -> None:
        """Continue where the other process has stopped; called before `thaw`."""
        if session is not None:
            self._opening.request = ConnectRequest(0, 0, session.timeout_ms, session.id, b"", read_only=None)
            self.identity.session_id = session.id
            session.connection = cast(Any, self)
            self.session = session
            self._services.reading.watches.put(cast(Any, self), packed.watches)
        if packed.unhandled:
            received = self._services.environment.clock.perf_counter_ns()
            self._inbound.parked.append((packed.unhandled, received))
