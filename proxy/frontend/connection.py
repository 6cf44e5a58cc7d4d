"""One client's connection: the transport's callbacks, the session, and watch events.

It passes the client's packets to its `Order`, and does what the order has ready: it appends requests, sends
packets, closes. Other parts are in separate files: `inbound` cuts packets, `opening` reads the connect
request, `client_identity` authenticates the client, `outbound` sends.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import cast

from codec.constants import OpCode, Perms
from codec.errors import FrameTooLong, MalformedPacket
from codec.jute import OPEN_TO_ALL, Acl
from proxy.frontend.client_identity import ClientIdentity
from proxy.frontend.inbound import PIECE, Inbound
from proxy.frontend.movable import Movable
from proxy.frontend.opening import ELSEWHERE, SESSIONLESS_TIMEOUT, Opening, read_opening
from proxy.frontend.order import Order
from proxy.frontend.outbound import Outbound
from proxy.frontend.services import Services
from proxy.frontend.sessions import Session
from proxy.frontend.throttle import Throttle
from proxy.frontend.waiting import SaslAnswer, Write
from proxy.frontend.word_answer import WordAnswer, word_answer
from proxy.state.acl import permits
from proxy.state.ops import reads_alone
from proxy.state.pause import Pause

log = logging.getLogger(__name__)

# Watches of a closed connection that are removed at once, and in each later turn of the loop.
_DROPPED_AT_ONCE = 64
_DROPPED = 1024


class Connection(Movable, asyncio.Protocol):
    """One TCP connection of one client."""

    def __init__(self, services: "Services[Connection]", loop: asyncio.AbstractEventLoop) -> None:
        self._services = services
        self._clock = services.environment.clock
        self._loop = loop
        self._opening = Opening()
        self._inbound = Inbound(services.max_frame, extended=services.operations.extended)
        self._outbound = Outbound(loop)
        self.identity = ClientIdentity(self, services, loop)
        self.session: Session | None = None
        self.admitted = False  # whether it was counted by the limits on connections
        self.knows_keeper = False  # the client has read which of Keeper's extensions this server has
        self.since = self._clock.time()  # when it was opened, in seconds since 1970
        self.latency = services.latency_of(self)
        self._order = Order(
            self,
            self.identity,
            services.machine,
            services.reading,
            services.operations,
            self.latency,
            self._clock,
            services.enforced_schemes,
            services.limits,
        )
        self._throttle = Throttle(services.load, self._order, self._inbound, self._outbound)
        self._is_in_flush_queue = False
        self._waits = False  # in the state gate's queue

    # -- the transport's callbacks ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        # uvloop's transports are asyncio.Transport in all but their base class
        self._outbound.open(cast(asyncio.Transport, transport))
        is_usable = self.identity.connected(transport)
        connections = self._services.connections
        if not connections.are_frozen:
            self._opening.wait(self._loop, SESSIONLESS_TIMEOUT, self._give_up)
        if not connections.opened(self) or not is_usable:
            self._end()
        elif connections.are_frozen:
            self._opening.due = self._loop.time() + SESSIONLESS_TIMEOUT  # about: the timer is set by `thaw`
            self._outbound.frozen = True  # uvloop's transport begins to read after this call all the same

    def data_received(self, data: bytes) -> None:
        """Handle the packets of a chunk, as far as there is time; their replies leave in one write."""
        if self._order.ready.close:
            return
        session = self.session
        if session is not None:
            session.heard = self._loop.time()
        inbound = self._inbound
        received = self._clock.perf_counter_ns()
        waits = self._has_unhandled or self._outbound.frozen
        is_next = not waits and self._services.state_gate.admits(received)
        if session is None and self._awaits_session:
            inbound.parked.append((data, received))
            self._throttle.read_early()
        elif is_next and len(data) <= PIECE:
            self._take(data, received)
        else:  # at most the first piece now, the rest in other turns of the loop
            inbound.parked.append((data, received))
            self._outbound.pause_reading()
            self._wait()
            if is_next:
                self._take(*inbound.take())
        self._perform()

    def _take(self, data: bytes, received: int) -> None:
        """Handle the packets that some bytes, received then, complete."""
        try:
            frames, broken = self._inbound.framer.feed(data), None
        except FrameTooLong as error:
            frames, broken = error.frames, error
            self._inbound.parked.clear()
        if self.session is None:
            self._take_opening(frames, broken)
        else:
            self._inbound.count += len(frames)
            self._order.receive(frames, received)
            if self._order.queue.count:
                self._throttle.taken()
        if broken is not None:
            self._end_broken(broken)

    def _end_broken(self, broken: FrameTooLong) -> None:
        """The bytes after the last packet are not a packet; they may be a four-letter word."""
        if self._order.ready.close or self._opening.word is not None:
            return
        warn = self._services.throttled_log.warn if self.session is None else log.info
        warn("closing %s: %s", self.address, broken)
        self._order.end()

    def _wait(self) -> None:
        """Continue in another turn of the loop, when the state is whole and it is this connection's turn."""
        if not self._waits:
            self._waits = True
            self._services.state_gate.park(self.take_turn)

    def take_turn(self) -> None:
        """Handle a piece of what has waited. A long queue becomes shorter first, see `_settle`."""
        self._waits = False
        order, parked = self._order, self._inbound.parked
        if not order.ready.close:
            order.advance()
        if order.ready.close:
            parked.clear()
        elif not (order.ready.again or order.queue.is_long or self._awaits_session or self._outbound.frozen):
            if self._opening.frames:
                early = self._opening.take_frames()
                self._inbound.count += len(early)
                order.receive(early, self._clock.perf_counter_ns())
                self._throttle.taken()
            elif parked:
                self._take(*self._inbound.take())
                if parked:
                    self._wait()
        self._settle()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed; writes that ZooKeeper would have in its pipeline continue."""
        self._outbound.lost()
        self._opening.stop_timer()
        self._inbound.parked.clear()
        self._order.stop()
        self._append()
        self._drop_watches(_DROPPED_AT_ONCE)
        session = self.session
        if session is not None and session.connection is self:
            if self._outbound.reading_paused:  # what it sent since is lost, so its time begins here
                session.heard = self._loop.time()
            session.connection = None
        self._throttle.weigh()
        self._services.connections.gone(self)
        self._order.release_owner()
        self.identity.lost()

    def _drop_watches(self, most: int = _DROPPED) -> None:
        if not self._services.reading.watches.drop(self, most):
            self._services.state_gate.park(self._drop_watches)

    def pause_writing(self) -> None:
        """The client does not read its replies, so do not read from it either."""
        self._order.replies.pause()
        self._outbound.pause_reading()
        self._throttle.weigh()

    def resume_writing(self) -> None:
        """The client reads its replies again."""
        self._order.replies.resume()
        self._wait()

    # -- what the order has ready ----------------------------------------------------------------------------

    def applied(self, write: Write, zxid: int, err: int, body: bytes) -> None:
        """The log has applied a write: make the reply now, send it at the end of this turn of the loop."""
        self._order.applied(write, zxid, err, body)
        if self._order.ready.slow_read is not None:
            self._begin_slow_read()
        if not self._is_in_flush_queue:
            self._flush_soon()
        if self._services.request_logs is not None:
            self._services.request_logs.outcome(self, write, err, body)

    def _flush_soon(self) -> None:
        """Request a call of `flush` at the end of this turn of the loop."""
        self._is_in_flush_queue = True
        self._services.flush_queue.add(self)

    def flush(self) -> None:
        """Send replies; called once in a turn in which writes were applied. Then take more if few wait."""
        self._is_in_flush_queue = False
        self._settle()

    def _settle(self) -> None:
        """Send what is ready, and take more from the client if few enough requests wait."""
        order = self._order
        order.before_flush()
        self._throttle.weigh()
        if self._may_take_more:
            if self._has_unhandled:
                self._wait()
            else:
                self._throttle.resume()
        if self._outbound.draining and not (order.queue.count or self._has_unhandled):
            order.end()
        self._perform()

    def _perform(self) -> None:
        """Do what the order has ready."""
        ready = self._order.ready
        if ready.requests:
            self._append()
        if ready.slow_read is not None:
            self._begin_slow_read()
        self._outbound.send(ready.packets, ready.close)
        if ready.again:
            self._wait()

    def _append(self) -> None:
        requests = self._order.ready.take_requests()
        if requests:
            self._services.outbox.submit_all(requests)

    def _begin_slow_read(self) -> None:
        self._services.state_gate.read_slowly(self, now=self._order.ready.take_slow_read().now)

    def answer_slow_read(self, pause: Pause) -> None:
        """Answer the read, in slices."""
        try:
            self._order.answer_slow_read(pause)
        finally:
            self._settle()

    def _end(self) -> None:
        """Close after sending everything that is ready; handle no more packets."""
        self._order.end()
        self._outbound.send(self._order.ready.packets, self._order.ready.close)

    # -- the session -----------------------------------------------------------------------------------------

    def _take_opening(self, frames: list[bytes], broken: FrameTooLong | None) -> None:
        """Handle packets before the session exists: the connect request, or a four-letter word."""
        opening = self._opening
        if frames:
            self._request_session(frames)
        elif broken is not None:
            self._inbound.count += 1  # before the answer is made, which may include this connection
            opening.word = word_answer(self._services.words, broken, self._clock)
            if opening.word is not None:
                self._answer_word(opening.word)

    def _request_session(self, frames: list[bytes]) -> None:
        """Handle the first packets."""
        services = self._services
        opening = self._opening
        self._inbound.opened(services.traces)
        early = frames[1:]
        if services.traces is not None:
            services.traces.sample(early)
        try:
            request, wire = read_opening(frames[0], extended=services.operations.extended)
        except MalformedPacket as error:
            services.throttled_log.warn("closing %s: connect request %s", self.address, error)
            self._order.end()
            return
        opening.stop_timer()
        opening.request = request
        opening.requested = self._clock.perf_counter_ns()
        self._inbound.count += 1
        services.counters.connect_requests += 1
        if wire is None:
            opening.log_not_offered(self.identity)
            self.refuse()
            return
        self._order.replies.wire = wire
        opening.frames = early
        services.handshake.attach(self, request)
        if self._awaits_session:
            self._throttle.read_early()

    def _answer_word(self, word: WordAnswer) -> None:
        if self._order.ready.close:
            word.cancel()
            return
        answer = word.make()
        if answer is None:
            self._outbound.pause_reading()
            self._loop.call_soon(lambda: self._answer_word(word))
        else:
            self._order.replies.send(answer)
            self._end()

    def limit_wait(self, seconds: float) -> None:
        """Close the connection after so many seconds, unless it has its session by then."""
        self._opening.wait(self._loop, seconds, self._give_up)

    def _give_up(self) -> None:
        """The client has not sent a connect request in time, or has not got its session in time."""
        if self._opening.request is not None:
            log.info("closing %s: it got no session in its timeout", self.address)
        else:
            self._services.counters.sessionless_expired += 1
            # ZooKeeper does not log it either (NIOServerCnxnFactory.ConnectionExpirerThread).
            log.debug("closing %s: no connect request in %d s", self.address, SESSIONLESS_TIMEOUT)
        self._end()

    def established(self, session: Session, password: bytes, *, read_only: bool = False) -> None:
        """The session exists: answer the connect request, and handle the client's requests.

        A `read_only` session exists only at this server: its writes are refused.
        """
        opening = self._opening
        order = self._order
        assert opening.request is not None
        if read_only:
            order.use_operations(reads_alone(self._services.operations))
        session.connection = self
        session.heard = self._loop.time()
        self.session = session
        self.identity.session_id = session.id
        opening.stop_timer()
        opening.log_granted(self.identity, session, read_only=read_only)
        if opening.request.session_id == 0:
            zxid, now = self._services.machine.zxid, self._clock.perf_counter_ns()
            self.latency.note(OpCode.CREATE_SESSION, 1, 0, zxid, opening.requested, now)
        order.replies.send(opening.response(order.replies.wire, session, password, read_only=read_only))
        if self._has_unhandled:
            self._outbound.pause_reading()
            self._wait()
        else:
            self._throttle.resume()
        self._perform()

    def refuse(self) -> None:
        """The session does not exist (any more): the client has to open a new one."""
        self._opening.log_refused(self.identity)
        self._order.replies.send(self._opening.refusal(self._order.replies.wire))
        self._end()

    def send_elsewhere(self) -> None:
        """Send the client to another server: by Keeper's answer for that, or by closing the connection."""
        if self.is_keepers:
            self._order.replies.send(ELSEWHERE)
        self.close()

    def close(self) -> None:
        """Close after sending what is ready; the session lives on, and its writes go to the log at once.

        Later they might be applied after those of a newer connection: a dead client's transport closes late.
        """
        if self.session is not None:
            self.session.hear_unread(self, self._loop.time())
        self._order.stop()
        self._append()
        self._throttle.weigh()
        self._end()

    def drain(self) -> None:
        """The server stops: read no more requests, but answer those received."""
        self._outbound.pause_reading()
        self._outbound.draining = True
        if not self._order.queue.count and not self._has_unhandled:
            self.close()

    def local_session_closed(self) -> None:
        """The client has closed a session that only this server knows."""
        self._order.end()

    def notify(self, kind: int, path: str, zxid: int, acl: Sequence[Acl]) -> None:
        """Send one watch event, unless the ACL withholds the node (NIOServerCnxn.process)."""
        if acl is OPEN_TO_ALL or permits(acl, Perms.READ, self.identity.identities):
            self._services.counters.notifications += 1
            self._order.event(kind, path, zxid)
            if not self._is_in_flush_queue:
                self._flush_soon()

    def negotiated(self, answer: SaslAnswer) -> None:
        """Process the answer to a token of SASL, which was not made at once."""
        if not self._order.ready.close:
            self._order.negotiated(answer)
            self._settle()
