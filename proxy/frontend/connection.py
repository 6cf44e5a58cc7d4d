"""One client's connection: the transport's callbacks, the session, and watch events.

`Connections` are those of all clients of a server.

Bytes from the client come in by `data_received`. They are cut into packets (`transport`), and those go to
the connection's `Order`. What has to be done comes out of it as a `Ready`, which `Connection._act` does.
Outcomes of writes come in by `take_outcome`, watch events by `notify`.

The rules:

1. The first packet is the connect request, or the bytes are a four-letter word (`opening`). Until the session
   exists nothing else is handled.
2. Bytes are taken only while there is time in this turn of the loop, and requests only while the state is
   whole and recent (`turns`). Bytes that come meanwhile are parked, and taken piece by piece.
3. What was applied in a slice is sent at its end, in one write. Only a slow read is begun at once.
4. Whether the client is read from is decided in one place (`_may_read`).
5. The connection is in one state (`life`). Closed is closed: nothing is handled and sent after the last
   packet. Writes of a lost connection continue.
6. An exception here ends this connection, and no work of its caller (`_broken`). The transport's callbacks
   leave it to the loop's handler (`support.last_resort`). Only one of `connection_lost` ends the process.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Concatenate, NamedTuple, ParamSpec, cast

from codec.constants import OpCode, ProtocolVersion
from codec.errors import FrameTooLong, MalformedPacket
from codec.longs import hex64
from codec.packets import ConnectRequest
from proxy.frontend.admission import ConnectionLimits
from proxy.frontend.authentication import Authentication, SaslAnswer
from proxy.frontend.identity import ClientIdentity
from proxy.frontend.life import Life, LifeEvent
from proxy.frontend.limits import EarlyBytes, Load, too_far_behind
from proxy.frontend.observer import Answer, Observer
from proxy.frontend.opening import (
    ELSEWHERE,
    SESSIONLESS_TIMEOUT,
    AnswerWord,
    LongWords,
    Opening,
    WordAnswer,
    read_opening,
    word_answer,
)
from proxy.frontend.order import NOTHING, Order, OrderContext
from proxy.frontend.request_logs import RequestLogs
from proxy.frontend.requests import Write
from proxy.frontend.sampling import Sampling
from proxy.frontend.sessions import PASSWORD_BYTES, ServedSession
from proxy.frontend.slow_reads import ReadSlices
from proxy.frontend.traced import Traces
from proxy.frontend.transport import PIECE, Inbound, Outbound
from proxy.frontend.turns import FlushQueue, Gate, StateGate
from proxy.log.append.pending import Pending
from proxy.sasl.login import Login
from proxy.state.auth.scheme import Identities
from proxy.state.auth.schemes import AuthSchemes
from proxy.state.notifications import Notifications
from proxy.state.ops import for_read_only_session
from proxy.support.counters import Counters
from proxy.support.environment import HOST, Environment
from proxy.support.last_resort import contained
from proxy.support.latency import ConnectionLatency, Latency
from proxy.support.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

# Watches of a closed connection that are removed at once, and in each later turn of the loop.
_DROPPED_AT_ONCE = 64
_DROPPED = 1024
# Bytes, and chunks of them, that are read from a client before its session exists.
_PARKED = 64 << 10
_PARKED_PIECES = 100

# Plain names: looking up an enum's member costs more than the comparison.
_OPENING, _ANSWERING, _WAITING = Life.OPENING, Life.ANSWERING, Life.WAITING
_SERVING, _CLOSED = Life.SERVING, Life.CLOSED


@dataclass(frozen=True, slots=True)
class Services:
    """The parts and settings that all connections of one server share."""

    context: OrderContext
    auth: AuthSchemes
    max_frame: int  # bytes
    latency: Latency
    counters: Counters
    load: Load
    flush_queue: FlushQueue
    state_gate: StateGate
    #: Takes requests for the log, in this order.
    submit: Callable[[Sequence[Pending]], None]
    #: Gives a connection its session (handshake.Handshake.begin).
    begin_handshake: Callable[["Connection", ConnectRequest], None]
    answer_word: AnswerWord
    connections: "Connections"
    sampling: Sampling
    #: The audit log and the log of slow requests; None for neither.
    request_logs: RequestLogs | None = None
    #: Traces some of the requests; None for none.
    traces: Traces | None = None
    #: Authenticates clients by SASL; None if SASL is not offered.
    login: Login | None = None
    #: Four-letter words whose answers are long.
    long_words: LongWords = field(default_factory=LongWords)
    #: What clients without a session have sent.
    early: EarlyBytes = field(default_factory=EarlyBytes)
    #: Clocks and randomness.
    environment: Environment = HOST
    #: Logs connections that do not send what a ZooKeeper client does, such as port scanners.
    throttled_log: ThrottledLog = field(default_factory=lambda: ThrottledLog(log))


class ConnectionFacts(NamedTuple):
    """A connection as operators see it."""

    address: str
    port: int  # on the client's side
    session_id: int  # 0 while there is none
    timeout_ms: int  # of the session; 0 without one
    identities: Identities
    since: float  # when it was opened, in seconds since 1970
    due: float  # the loop's time at which it is closed if the client is silent, or gets no session
    received: int  # packets
    sent: int
    outstanding: int  # requests that are not answered
    is_closed: bool  # or is about to be


_Arguments = ParamSpec("_Arguments")


def _contained(
    method: "Callable[Concatenate[Connection, _Arguments], None]",
) -> "Callable[Concatenate[Connection, _Arguments], None]":
    """A method of a connection that others call: what it raises ends the connection."""

    def run(self: "Connection", /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - `_broken` logs it
            self._broken(error)

    return run


class Connection(asyncio.Protocol):
    """One TCP connection of one client."""

    def __init__(self, services: Services, loop: asyncio.AbstractEventLoop) -> None:
        self.services = services
        self._clock = services.environment.clock
        self._loop = loop
        self._opening = Opening(loop)
        self.inbound = Inbound(services.max_frame, keeper=services.context.operations.keeper)
        self.inbound.unsampled = services.sampling.skip()
        self.outbound = Outbound(loop, services.counters)
        self.identity = identity = ClientIdentity(
            services.auth, services.login, services.counters, services.request_logs, loop, self.negotiated
        )
        self.session: ServedSession | None = None
        self.admitted = False  # whether it was counted by the limits on connections
        self.knows_keeper = False  # the client has read which of Keeper's extensions this server has
        self.since = self._clock.time()  # when it was opened, in seconds since 1970
        self.latency = ConnectionLatency(services.latency)
        self._observer = Observer(
            identity,
            self.latency,
            services.context.machine,
            self._clock.perf_counter_ns,
            services.request_logs,
            services.traces,
        )
        authentication = Authentication(identity.prove, identity.negotiate)
        self.order = Order(
            self, identity, authentication, self.take_outcome, services.context, self._observer
        )
        self._requests = self._size = 0  # requests and bytes of this client in the server's load
        self.resets = 0  # of its counts
        self._early = 0  # bytes received before the session exists
        self._is_in_flush_queue = False
        self._connections = services.connections

    # -- the transport's callbacks ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        # uvloop's transports are asyncio.Transport in all but their base class
        self.outbound.open(cast(asyncio.Transport, transport))
        is_usable = self.identity.connected(transport)
        give_up = None if self._connections.are_frozen else self._give_up  # `thaw` sets the timer
        self._opening.wait(SESSIONLESS_TIMEOUT, give_up)
        if not self._connections.opened(self) or not is_usable:
            self.close()

    def data_received(self, data: bytes) -> None:
        """Handle the packets of a chunk, as far as there is time; their replies leave in one write."""
        life, session = self.order.life, self.session
        gate: Gate = self.services.state_gate
        if life is _SERVING and session is not None:
            session.heard = self._loop.time()
        elif life is _CLOSED or life is _ANSWERING or not self._count_early(len(data)):
            return
        else:
            gate = self.services.state_gate.openings
        inbound = self.inbound
        received = self._clock.perf_counter_ns()
        waits = inbound.parked or inbound.with_connect or life is _WAITING or self._connections.are_frozen
        is_next = not waits and gate.admits(received)
        if is_next and len(data) <= PIECE:
            self._take(data, received)
            return
        inbound.parked.append((data, received))
        self.regulate()
        if life is not _WAITING:  # at most the first piece now, the rest in other turns of the loop
            self._park()
            if is_next:
                self._take(*inbound.take())

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed; writes that ZooKeeper would have in its pipeline continue."""
        self.outbound.lost()
        self._opening.stop_timer()
        self.inbound.parked.clear()
        self.order.stop()
        self._act()
        self.drop_watches(_DROPPED_AT_ONCE)
        self._release_early()
        session = self.session
        if session is not None and session.connection is self:
            if self.outbound.reading_paused:  # what it sent since is lost, so its time begins here
                session.heard = self._loop.time()
            session.connection = None
        self._weigh()
        self.services.connections.gone(self)
        self.order.release()
        self.identity.lost()

    @_contained
    def drop_watches(self, most: int = _DROPPED) -> None:
        """Remove the watches of this closed connection; all but the first in later turns of the loop."""
        if not self.services.context.reading.watches.drop(self, most):
            self.services.state_gate.park(self.drop_watches)

    def pause_writing(self) -> None:
        """The client does not read its replies, so do not read from it either."""
        self.order.replies.is_paused = True
        self.outbound.measure_silence()  # what it takes from here on counts
        self.services.connections.behind[self] = None
        self.regulate()
        self._weigh()

    def resume_writing(self) -> None:
        """The client reads its replies again."""
        self.services.connections.behind.pop(self, None)
        self.order.replies.resume()
        self._park()

    # -- requests go to the order ----------------------------------------------------------------------------

    def _take(self, data: bytes, received: int) -> None:
        """Handle the packets that some bytes, received then, complete."""
        try:
            frames, broken = self.inbound.framer.feed(data), None
        except FrameTooLong as error:
            frames, broken = error.frames, error
            self.inbound.parked.clear()
        if self.session is None:
            self._take_opening(frames, broken)
        else:
            self._take_requests(frames, received)
        if broken is not None and self.order.life not in (_CLOSED, _ANSWERING):
            warn = self.services.throttled_log.warn if self.session is None else log.info
            warn("closing %s: %s", self.identity.address, broken)
            self.close()

    def _take_requests(self, frames: list[bytes], received: int) -> None:
        count = len(frames)
        inbound = self.inbound
        inbound.count += count
        self.services.counters.received += count
        inbound.unsampled = beyond = inbound.unsampled - count
        if beyond < 0:
            wire = self.order.replies.wire
            inbound.unsampled = self.services.sampling.look(self.identity, wire, frames, beyond + count)
        order = self.order
        order.receive(frames, received)
        queue = order.queue
        if queue.count:
            self._weigh()
            if queue.is_long or self.services.load.is_too_much:
                self.regulate()
        self._act()

    def _park(self) -> None:
        """Continue in another turn of the loop, when it is this connection's, and the state may be read."""
        gate = self.services.state_gate
        if self.order.life is _OPENING:
            gate.openings.park(self.take_opening)
        else:
            gate.park(self.take_turn)

    def take_opening(self) -> None:
        """As `take_turn`, while there is no session: afterwards the state may not be read here."""
        if self.order.life is _OPENING:
            self.take_turn()

    @_contained
    def take_turn(self) -> None:
        """Handle a piece of what has waited. A long queue becomes shorter first, see `_send_and_go_on`."""
        order, parked = self.order, self.inbound.parked
        must_wait = False
        if not order.is_closed:
            order.advance()
            must_wait = self._act()
        if order.is_closed:
            parked.clear()
        elif self._may_take and not (must_wait or order.queue.is_long):
            if self.inbound.with_connect:
                self._take_requests(self.inbound.take_with_connect(), self._clock.perf_counter_ns())
            elif parked:
                self._take(*self.inbound.take())
                if parked:
                    self._park()
        self._send_and_go_on()

    def take_outcome(self, write: Write, zxid: int, err: int, body: bytes) -> None:
        """The outcome of a write is known: make the reply now, and send it at the end of this slice."""
        # A wrapper would cost each write a call, and each event below.
        try:
            if self.order.answer_write(write, zxid, err, body):
                self._act()
            if not self._is_in_flush_queue:
                self._flush_soon()
            if self._observer.is_needed:
                self._observer.answered(write, Answer(err, body))
        except Exception as error:  # noqa: BLE001 - `_broken` logs it
            self._broken(error)

    def notify(self, notifications: Notifications) -> None:
        """Send watch events at the end of this slice, if the ACL shows the nodes (NIOServerCnxn.process)."""
        try:
            if notifications.are_for(self.identity.identities):
                packets = notifications.packets(self.order.replies.wire.event)
                self.services.counters.notifications += self.order.add_events(packets)
                if not self._is_in_flush_queue:
                    self._flush_soon()
        except Exception as error:  # noqa: BLE001 - `_broken` logs it
            self._broken(error)

    @_contained
    def negotiated(self, answer: SaslAnswer) -> None:
        """Process the answer to a token of SASL, which was not made at once."""
        if not self.order.is_closed:
            self.order.negotiated(answer)
            self._send_and_go_on()

    @_contained
    def answer_slow_read(self, pause: ReadSlices) -> None:
        """Answer the read, in slices."""
        try:
            self.order.answer_slow_read(pause)
            if pause.is_refused:
                self.services.throttled_log.warn(
                    "a read of %s is refused: it takes more than %d steps, and the log would wait for it",
                    self.identity.address,
                    pause.limit.steps,
                )
        finally:
            self._send_and_go_on()

    # -- what the order has ready ----------------------------------------------------------------------------

    def _act(self) -> bool:
        """Do what is ready. Nothing else appends requests, sends packets or closes the transport, but aborts.

        Returns whether the order continues in another turn of the loop, which is requested.
        """
        ready = self.order.take_ready()
        if ready is NOTHING:
            return False
        if ready.requests:
            self.services.submit(ready.requests)
        if ready.slow_read is not None:
            self.services.state_gate.read_slowly(
                ready.slow_read, self.identity, self.answer_slow_read, lambda: self.order.wants_slow_read
            )
        closing = ready.close
        if closing is not None and closing.why and self.outbound.is_open:
            write = log.warning if closing.is_warned else log.info
            write("closing %s: %s", self.identity.address, closing.why)
        self.outbound.send(ready.packets, closing is not None)
        if ready.again:
            self._park()
        return ready.again

    def _flush_soon(self) -> None:
        """Request a call of `flush` at the end of this slice."""
        self._is_in_flush_queue = True
        self.services.flush_queue.add(self.flush)

    @_contained
    def flush(self) -> None:
        """Send replies and events, once at the end of a slice; and go on."""
        self._is_in_flush_queue = False
        self._send_and_go_on()

    def _send_and_go_on(self) -> None:
        """Send what is ready, and request the next turn, or read again, if few enough requests wait.

        A draining connection is closed when nothing waits any more.
        """
        outbound, queue = self.outbound, self.order.queue
        self._act()
        if queue.count != self._requests or queue.size != self._size:
            self._weigh()
        if outbound.reading_paused and queue.has_room and self._may_take:
            if self.has_unhandled:
                self._park()
            else:
                self.regulate()
        if self._connections.are_draining and not (queue.count or self.has_unhandled):
            self.close()

    # -- how much is read from the client --------------------------------------------------------------------

    def regulate(self) -> None:
        """Read from the client, or do not: something has changed on which that depends."""
        if not self._may_read:
            self.outbound.pause_reading()
        elif self.outbound.reading_paused:
            if self.session is not None:
                self.session.heard = self._loop.time()  # what it has sent meanwhile is read next
            self.outbound.resume_reading()

    @property
    def _may_read(self) -> bool:
        order, queue, parked = self.order, self.order.queue, self.inbound.parked
        if self._connections.are_frozen or self._connections.are_draining or order.replies.is_paused:
            return False
        if order.life is _WAITING:  # up to a limit, since only reading shows that a client has gone
            return len(parked) <= _PARKED_PIECES and sum(len(data) for data, _ in parked) <= _PARKED
        if self.has_unhandled or not self._may_take:
            return False
        # A client that was not read from because of a long queue has to wait until half of it is answered.
        is_short = queue.has_room if self.outbound.reading_paused else not queue.is_long
        return is_short and not (queue.count and self.services.load.is_too_much)

    @property
    def _may_take(self) -> bool:
        """Whether bytes that were received may be handled."""
        return not self._connections.are_frozen and self.order.life in (_OPENING, _SERVING)

    @property
    def has_unhandled(self) -> bool:
        """Whether some of the bytes received are not handled yet."""
        return bool(self.inbound.parked or self.inbound.with_connect)

    def _count_early(self, size: int) -> bool:
        """Count bytes received before the session exists; False if they are too many: it is closed."""
        services = self.services
        self._early += size
        if services.early.keep(self.identity.address, size):
            return True
        services.counters.rejected += 1
        services.throttled_log.warn(
            "closing %s: clients without a session have sent too much: %d bytes in all, %d of them this one",
            self.identity.address,
            services.early.in_all,
            self._early,
        )
        self.close()
        return False

    def _release_early(self) -> None:
        """The session exists, or the connection is closed."""
        if self._early:
            self.services.early.release(self.identity.address, self._early)
            self._early = 0

    def _weigh(self) -> None:
        """Count this client's waiting requests in the load, unless it does not read its replies."""
        queue, load = self.order.queue, self.services.load
        requests = 0 if self.order.replies.is_paused else queue.count
        load.requests += requests - self._requests
        load.size += queue.size - self._size
        self._requests = requests
        self._size = queue.size

    # -- the session begins ----------------------------------------------------------------------------------

    def _take_opening(self, frames: list[bytes], broken: FrameTooLong | None) -> None:
        """Handle packets before the session exists: the connect request, or a four-letter word."""
        if frames:
            self._request_session(frames)
        elif broken is not None:
            # Before the answer is made, which may include this connection.
            self.inbound.count += 1
            self.services.counters.received += 1
            word = word_answer(self.services.answer_word, broken, self._clock)
            if word is not None:
                self.order.live_through(LifeEvent.WORD)
                self._opening.stop_timer()
                self._answer_word(word)

    def _request_session(self, frames: list[bytes]) -> None:
        """Handle the first packets."""
        services = self.services
        self.inbound.opened(services.traces, frames[1:])
        try:
            request, wire = read_opening(frames[0], keeper=services.context.operations.keeper)
        except MalformedPacket as error:
            services.throttled_log.warn("closing %s: connect request %s", self.identity.address, error)
            self.close()
            return
        self._opening.take(request, self._clock.perf_counter_ns())
        self.order.live_through(LifeEvent.REQUEST)
        self.inbound.count += 1
        services.counters.received += 1
        services.counters.connect_requests += 1
        if wire is None:
            version = request.protocol_version
            words = "%s asks for compressed packets (protocol version %d): not offered"
            services.throttled_log.info(words, self.identity.address, version)
            self.refuse()
            return
        self.order.replies.wire = wire
        services.begin_handshake(self, request)
        if self.wants_session:
            self.regulate()

    @_contained
    def _answer_word(self, word: WordAnswer, *, is_first: bool = True) -> None:
        if self.order.is_closed:
            word.cancel()
            return
        for part in word.make():
            self.order.add_packet(part)
        if word.is_over:
            self.close()
            return
        self._act()
        self.regulate()
        if is_first:
            self.services.long_words.add(self._loop, word, partial(self._answer_word, word, is_first=False))

    def limit_wait(self, seconds: float) -> None:
        """Close the connection after so many seconds, unless it has its session by then."""
        self._opening.wait(seconds, self._give_up)

    @_contained
    def _give_up(self) -> None:
        """The client has not sent a connect request in time, or has not got its session in time."""
        if self.wants_session:
            self.services.throttled_log.info(
                "closing %s: it got no session in its timeout", self.identity.address
            )
        else:
            self.services.counters.sessionless_expired += 1
            # ZooKeeper does not log it either (NIOServerCnxnFactory.ConnectionExpirerThread).
            log.debug("closing %s: no connect request in %d s", self.identity.address, SESSIONLESS_TIMEOUT)
        self.close()

    @_contained
    def established(self, session: ServedSession, password: bytes, *, read_only: bool = False) -> None:
        """The session exists: answer the connect request, and handle the client's requests.

        A `read_only` session exists only at this server: its writes are refused.
        """
        opening = self._opening
        order = self.order
        if read_only:
            order.use_operations(for_read_only_session(self.services.context.operations))
        session.heard = self._loop.time()
        self._attach(session)
        opening.stop_timer()
        log.info(
            "session %s: %s by %s:%d, timeout %d ms%s",
            hex64(session.id),
            "continued" if opening.continues else "opened",
            self.identity.address,
            self.identity.port,
            session.timeout_ms,
            ", read-only" if read_only else "",
        )
        if not opening.continues:
            zxid, now = self.services.context.machine.zxid, self._clock.perf_counter_ns()
            self.latency.note(OpCode.CREATE_SESSION, 1, 0, zxid, opening.requested, now)
        wire = order.replies.wire
        order.add_packet(
            opening.response(wire, session.timeout_ms, session.id, password, read_only=read_only)
        )
        if self.has_unhandled:
            self._park()
        self.regulate()
        self._act()

    def _attach(self, session: ServedSession) -> None:
        self.order.live_through(LifeEvent.SESSION)
        self._release_early()
        session.connection = self
        self.session = session
        self.identity.session_id = session.id

    @_contained
    def refuse(self) -> None:
        """The session does not exist (any more): the client has to open a new one."""
        if session_id := self._opening.continues:
            self.services.throttled_log.info(
                "session %s: refused to %s:%d: it has ended, or the password is wrong",
                hex64(session_id),
                self.identity.address,
                self.identity.port,
            )
        self.order.add_packet(self._opening.response(self.order.replies.wire, 0, 0, bytes(PASSWORD_BYTES)))
        self.close()

    def send_elsewhere(self) -> None:
        """Send the client to another server: by Keeper's answer for that, or by closing the connection."""
        if self.is_keepers:
            self.order.add_packet(ELSEWHERE)
        self.close()

    # -- the end ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close after sending what is ready; the session lives on, and its writes go to the log at once.

        Later they might be applied after those of a newer connection: a dead client's transport closes late.
        """
        if self.session is not None:
            self.session.hear_unread(self, self._loop.time())
        self.order.stop()
        self._act()
        self._weigh()

    def _broken(self, error: Exception) -> None:
        """Something of this connection has raised: close it at once. `connection_lost` does the rest."""
        contained(error, f"closing the connection of {self.identity.address}:{self.identity.port}")
        self.order.end()
        self.outbound.abort()

    def drain(self) -> None:
        """The server stops: read no more requests, but answer those received."""
        self.regulate()
        if not self.order.queue.count and not self.has_unhandled:
            self.close()

    def local_session_closed(self) -> None:
        """The client has closed a session that only this server knows: close after the reply."""
        if self.session is not None:
            self.session.closed = True
        self.order.end()

    # -- another process takes over (proxy.handover) ---------------------------------------------------------

    def thaw(self) -> None:
        """Continue: the server's connections are not frozen any more."""
        if self.order.life is _OPENING and not self._opening.is_timed:
            self._opening.wait(SESSIONLESS_TIMEOUT, self._give_up)
        self.regulate()
        if self.has_unhandled:
            self._park()

    @property
    def is_quiet(self) -> bool:
        """Whether all requests that were taken are answered, and the socket has the replies."""
        return self.order.is_idle and not self.outbound.unsent

    @property
    def can_move(self) -> bool:
        """Whether another process can continue this connection."""
        life, session = self.order.life, self.session
        if life is _SERVING and session is not None:
            # Requests that came with the connect request are no bytes any more, and only those move.
            is_busy = self.identity.negotiates or self.inbound.with_connect
            may_move = session.connection is self and not is_busy
        else:
            may_move = life is _OPENING
        return may_move and self.outbound.fd >= 0

    def continued(self, session: ServedSession | None, unhandled: bytes) -> None:
        """Continue where another process has stopped; called before `thaw`."""
        if session is not None:
            self._attach(session)
        if unhandled:
            self.inbound.parked.append((unhandled, self._clock.perf_counter_ns()))

    # -- facts, for operators and sessions -------------------------------------------------------------------

    def facts(self) -> ConnectionFacts:
        """The connection as operators see it."""
        session, identity = self.session, self.identity
        return ConnectionFacts(
            address=identity.address,
            port=identity.port,
            session_id=identity.session_id,
            timeout_ms=0 if session is None else session.timeout_ms,
            identities=identity.identities,
            since=self.since,
            due=self._opening.due if session is None else session.due,
            received=self.inbound.count,
            sent=self.outbound.sent,
            outstanding=self.order.queue.count,
            is_closed=self.order.is_closed,
        )

    @property
    def session_id(self) -> int:
        """The session; 0 while there is none."""
        return self.identity.session_id

    @property
    def identities(self) -> Identities:
        """The identities that the client has proved."""
        return self.identity.identities

    @property
    def is_keepers(self) -> bool:
        """Whether the handshake was one of Keeper's, which only ClickHouse sends."""
        return self.order.replies.wire.version != ProtocolVersion.ZOOKEEPER

    @property
    def wants_session(self) -> bool:
        """Whether the client still waits for its session."""
        return self.order.life is _WAITING

    def measure_silence(self) -> float:
        """Seconds for which the client has been silent while it was not read from; inf if it is read from.

        While its requests wait for this server, it is not silent. While it does not read its replies, it has
        to send something, or to take some of them.
        """
        outbound, are_frozen = self.outbound, self._connections.are_frozen
        if not (outbound.reading_paused or are_frozen):
            return math.inf
        return outbound.measure_silence() if self.order.replies.is_paused and not are_frozen else 0.0


class Connections:
    """The open connections of one server."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._open: dict[Connection, None] = {}  # a dict keeps the order in which they were opened
        self.behind: dict[Connection, None] = {}  # their clients do not read
        self.are_frozen = False  # while another process takes over: nothing is read, and nothing taken
        self.are_draining = False  # the server stops: nothing is read
        self._all_gone = asyncio.Event()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._open))

    def opened(self, connection: Connection) -> bool:
        """Add a new connection; False if it must be closed: a limit is reached, or the server stops."""
        self._open[connection] = None
        connection.admitted = connection.admitted or self.limits.admit(connection.identity.address)
        return connection.admitted and not self.are_draining

    def gone(self, connection: Connection) -> None:
        """A connection is closed."""
        self._open.pop(connection, None)
        self.behind.pop(connection, None)
        if connection.admitted:
            self.limits.release(connection.identity.address)
        if self.are_draining and not self._open:
            self._all_gone.set()

    def check(self) -> None:
        """Close clients that are too far behind in reading."""
        closed = too_far_behind({each: (each.identity.address, each.outbound.unread) for each in self.behind})
        for connection in closed:
            connection.close()
            connection.outbound.abort()
        if closed:
            closed[0].services.throttled_log.warn(
                "closing %s, and %d more: too many bytes wait for clients that do not read",
                closed[0].identity.address,
                len(closed) - 1,
            )

    def freeze(self) -> None:
        """Take no more requests from any client, until `thaw`."""
        self.are_frozen = True
        for connection in self:
            connection.regulate()

    def thaw(self) -> None:
        """Continue."""
        self.are_frozen = False
        for connection in self:
            connection.thaw()

    def drain(self) -> None:
        """Accept no more connections and read no more requests; answer the requests received."""
        self.are_draining = True
        for connection in self:
            connection.drain()

    def abort(self) -> None:
        """Close all connections at once, without what is not sent yet."""
        for connection in self:
            connection.outbound.abort()

    async def close(self, timeout: float) -> None:
        """Close all connections; wait `timeout` seconds for clients to read their last replies."""
        for connection in self:
            connection.close()
        if self._open:
            try:
                await asyncio.wait_for(self._all_gone.wait(), timeout)
            except TimeoutError:
                log.info("%d clients did not take their last replies in time", len(self._open))
