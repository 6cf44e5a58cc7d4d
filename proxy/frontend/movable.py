"""A connection that moves to another process: it stops, says what it consists of, and is made again there."""

import asyncio
from typing import Any, cast

from codec.packets import ConnectRequest
from proxy.frontend.connection_facts import ConnectionFacts
from proxy.frontend.moved import Moved
from proxy.frontend.services import Services
from proxy.frontend.sessions import Session
from proxy.frontend.wire import WIRES
from schema.entry import Identity


class Movable(ConnectionFacts):
    """The part of a connection that concerns moving. `Connection` makes the attributes."""

    _services: Services[Any]
    _loop: asyncio.AbstractEventLoop

    def freeze(self) -> None:
        """Take no more requests, and answer those taken, until `thaw`."""
        self._outbound.pause_reading()
        self._outbound.frozen = True

    def thaw(self) -> None:
        """Continue."""
        self._outbound.frozen = False
        if self.session is not None:
            self.session.heard = self._loop.time()  # what it has sent meanwhile is read next
        self._wait()

    def _wait(self) -> None:
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

    def packed(self) -> Moved:
        """All that the other process needs besides the socket, from which nothing is read any more."""
        inbound, session = self._inbound, self.session
        self._outbound.pause_reading()  # it may be newer than the last `freeze`
        return Moved(
            0 if session is None else session.id,
            self.address,
            self.port,
            [(each.scheme, each.id) for each in self.identities] if session is not None else [],
            WIRES.index(self._order.replies.wire),
            self.knows_keeper,
            self.since,
            inbound.count,
            self._outbound.sent,
            inbound.unhandled(),
            self._services.reading.watches.paths_of(cast(Any, self)),
        )

    def unpack(self, packed: Moved, session: Session | None) -> None:
        """Continue what another process began; called after `connection_made`."""
        inbound = self._inbound
        self.knows_keeper, self.since = packed.knows_keeper, packed.since
        inbound.count, self._outbound.sent = packed.received, packed.sent
        if session is not None:
            self._opening.stop_timer()
            self._opening.request = ConnectRequest(0, 0, session.timeout_ms, session.id, b"", read_only=None)
            self._order.replies.wire = WIRES[packed.wire]
            inbound.continued(self._services.traces, WIRES[packed.wire], self._services.max_frame)
            self.identity.session_id = session.id
            self.identities = tuple(Identity(*each) for each in packed.identities)
            session.connection = cast(Any, self)
            session.heard = self._loop.time()  # as in `thaw`
            self.session = session
            self._services.reading.watches.put(cast(Any, self), packed.watches)
        if packed.unhandled:
            inbound.parked.append((packed.unhandled, self._services.environment.clock.perf_counter_ns()))
            self._outbound.pause_reading()
            self._wait()
