"""One client's connection: the connect request, the session, watch events, and the transport's callbacks.

Its parts are in files of their own: `order` keeps the order of requests and replies, `outbound` sends.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from time import perf_counter_ns, time
from typing import cast

from codec.constants import ErrorCode, KeeperState, OpCode, Perms, ProtocolVersion
from codec.errors import FrameTooLong, MalformedPacket
from codec.framing import Framer
from codec.jute import INT, OPEN_TO_ALL, Acl, Reader
from codec.keeper import OpeningFramer, decode_traced_connect, decode_wide_connect
from codec.packets import ConnectRequest, decode_connect, encode_connect_response
from codec.trace_context import TracedFramer
from proxy.frontend.negotiation import Negotiation
from proxy.frontend.order import Order
from proxy.frontend.outbound import Outbound
from proxy.frontend.proxy_protocol import Source
from proxy.frontend.services import Services
from proxy.frontend.sessions import PASSWORD_BYTES, Session
from proxy.frontend.traced import SamplingFramer, TracedOrder
from proxy.frontend.waiting import SaslAnswer, Waiting
from proxy.frontend.wire import NARROW, TRACED_NARROW, TRACED_WIDE, WIDE
from proxy.state.acl import permits
from proxy.state.auth.ip import java_address
from proxy.state.auth.sasl import sasl_identities
from proxy.state.auth.scheme import Identities, Peer
from proxy.state.auth.x509 import subject_name
from proxy.state.ops import reads_alone
from proxy.state.sessions import session_text
from proxy.support.latency import ConnectionLatency
from proxy.support.slices import SLICE

log = logging.getLogger(__name__)

# Watches of a connection that is gone, which are removed in one turn of the loop: some milliseconds.
_DROPPED = 4096
_LINES = 256  # of such an answer between two looks at the clock
# Seconds until a connection without a session is closed: zookeeper.nio.sessionlessCnxnTimeout's default.
_SESSIONLESS_TIMEOUT = 10
# Versions of the handshake that ask for another form of packets than ZooKeeper's.
_FORMS_OF_KEEPER = (ProtocolVersion.COMPRESSION, ProtocolVersion.WIDE_XIDS, ProtocolVersion.TRACING)


class Connection(asyncio.Protocol):
    """One TCP connection of one client."""

    def __init__(self, services: "Services[Connection]", loop: asyncio.AbstractEventLoop) -> None:
        self._services = services
        self._loop = loop
        self._framer: Framer | OpeningFramer | TracedFramer | SamplingFramer = (
            OpeningFramer(services.max_frame) if services.operations.extended else Framer(services.max_frame)
        )
        self._wire = NARROW
        self._early: list[bytes] = []  # frames that came before the session was there
        self._request: ConnectRequest | None = None
        self._requested = 0  # perf_counter_ns of the connect request
        self._load = services.load
        self._weight = (0, 0)  # requests and bytes by which the server's load counts this connection
        self.session: Session | None = None
        self.session_id = 0  # 0 while there is no session
        self.address = ""
        self.port = 0
        self.source: Source | None = None  # the client, where the listener knows it: from a PROXY header, say
        self.admitted = False  # whether it was counted by the limits on connections
        self._peer = Peer("")
        self.identities: Identities = ()
        self.knows_keeper = False  # the client has read which of Keeper's extensions there are
        self.received = 0
        self.since = time()  # when it came, in seconds since 1970
        logs = services.request_logs
        self.latency = (
            ConnectionLatency(services.latency) if logs is None else logs.latency(self, services.latency)
        )
        make_order = Order if services.traces is None else partial(TracedOrder, services.traces)
        self._order = make_order(
            self,
            services.machine,
            services.reading,
            services.operations,
            self.latency,
            perf_counter_ns,
            partial(services.flush_queue.add, self),
            self._begin_long_read,
            None if logs is None else partial(logs.outcome, self),
        )
        self._outbound = Outbound(loop, self._order.out)
        self._advance_scheduled = False
        self._is_saying = False  # the answer to a four-letter word is being made
        # What came while a write was applied in part: frames, what is wrong behind them, and when they came.
        self._kept: deque[tuple[list[bytes], FrameTooLong | None, int]] = deque()
        self._waits_for_whole_state = False
        self._negotiation: Negotiation | None = None
        if services.enforced_schemes:
            self._order.require_authentication(self._is_authenticated)

    # -- asyncio's side ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        # uvloop's transports are asyncio.Transport in all but their base class
        self._outbound.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if self.source is not None:
            self.address, self.port = self.source
        elif peer is not None:
            self.address, self.port = java_address(peer[0]), peer[1]
        try:
            self._peer = Peer(self.address, _subject(transport))
        except ValueError as error:
            log.warning("closing %s: its certificate: %s", self.address, error)
            peer = None
        self.identities = self._services.auth.identities(self._peer)
        self._opened = self._loop.time()
        self._patience = self._loop.call_later(_SESSIONLESS_TIMEOUT, self._give_up)
        if (
            not self._services.opened(self) or peer is None
        ):  # None: the client has reset the connection already
            self._end()

    def data_received(self, data: bytes) -> None:
        """Handle all complete packets of a chunk; their replies leave in one write."""
        outbound = self._outbound
        if outbound.ended:
            return
        session = self.session
        if session is not None:
            session.heard = self._loop.time()
        try:
            frames = self._framer.feed(data)
            broken = None
        except FrameTooLong as error:
            frames, broken = error.frames, error
        received = perf_counter_ns()
        if self._kept or (self._services.machine.midway and not self._goes_on_beside(frames)):
            self._kept.append((frames, broken, received))
            outbound.pause_reading()
            self._wait_for_whole_state()
            return
        order = self._order
        if session is None or broken is not None:
            self._take(frames, broken, received)
        else:
            # As `_take`, without a call.
            self.received += len(frames)
            order.receive(frames, received)
            if order.count:
                self._weigh()
                if order.wants_pause or self._load.is_too_much:
                    outbound.pause_reading()
        self._push()

    def _take(self, frames: list[bytes], broken: FrameTooLong | None, received: int) -> None:
        """Handle the packets of a chunk that came at `received`; something may be wrong behind them."""
        order = self._order
        if self.session is not None:
            self.received += len(frames)
            order.receive(frames, received)
        else:
            self._receive_early(frames, broken)
        if broken is not None and not order.ended and not self._is_saying:
            if self.session is not None:
                log.info("closing %s: %s", self.address, broken)
            else:
                self._services.throttled_log.warn("closing %s: %s", self.address, broken)
            order.ended = True
        if order.count:
            self._weigh()
            if order.wants_pause or self._load.is_too_much:
                self._outbound.pause_reading()  # until all is answered, or less waits in all

    def _goes_on_beside(self, frames: list[bytes]) -> bool:
        changing = self._services.machine.changing
        return self.session is not None and self._order.goes_on_beside(frames, changing)

    def _wait_for_whole_state(self) -> None:
        if not self._waits_for_whole_state:
            self._waits_for_whole_state = True
            self._services.whole_state_queue.add(self)

    def state_is_whole(self) -> None:
        """The write is applied that this connection has waited for."""
        self._waits_for_whole_state = False
        if self._outbound.ended:
            self._kept.clear()
            return
        if self._order.writing_paused and not self._outbound.writing_paused:
            self._order.writing_resumed()
        while self._kept and not self._outbound.ended:
            self._take(*self._kept.popleft())
        self._advance()

    def _begin_long_read(self, now: bool) -> None:
        self._services.long_reads.begin(self._order, now=now)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; writes that ZooKeeper would have in its pipeline go on."""
        self._outbound.lost()
        self._patience.cancel()
        self._kept.clear()
        self._order.stop()
        self._append()
        self._drop_watches()
        if self.session is not None and self.session.connection is self:
            self.session.connection = None
        self._weigh()
        self._services.gone(self)
        self._order.let_go()
        self._negotiation = None

    def _drop_watches(self) -> None:
        if not self._services.reading.watches.drop(self, _DROPPED):
            self._loop.call_soon(self._drop_watches)

    def pause_writing(self) -> None:
        """The client does not read its replies: do not read from it either."""
        self._order.writing_paused = self._outbound.writing_paused = True
        self._outbound.pause_reading()
        self._weigh()

    def resume_writing(self) -> None:
        """The client reads its replies again."""
        self._outbound.writing_paused = False
        if self._services.machine.midway:
            self._wait_for_whole_state()
            return
        self._order.writing_resumed()
        self._weigh()
        self._resume()
        self._push()

    # -- what the order wants --------------------------------------------------------------------------------

    def _push(self) -> None:
        """Append and send what the order has ready."""
        order = self._order
        outbound = self._outbound
        if order.to_append:
            self._append()
        if order.ended and not outbound.ended:
            outbound.end()
        outbound.flush()
        if order.wants_advance and not self._advance_scheduled:
            self._advance_scheduled = True
            self._loop.call_soon(self._advance)

    def _append(self) -> None:
        to_append = self._order.to_append
        writes = to_append[:]
        to_append.clear()
        submit = self._services.submit
        for write in writes:
            submit(write)

    def _advance(self) -> None:
        """Go on with what has taken too long at a stretch, or was too much to send at once."""
        self._advance_scheduled = False
        if self._services.machine.midway:
            self._wait_for_whole_state()
            return
        self._order.advance()
        self.flush()

    def flush(self) -> None:
        """Once in a turn of the loop in which something was applied: send it, and read if there is room."""
        order = self._order
        outbound = self._outbound
        order.before_flush()
        self._weigh()
        if outbound.reading_paused and order.has_room:
            self._resume()
        if outbound.draining and not order.count and not self._kept:
            order.ended = True
        self._push()

    def _resume(self) -> None:
        """Read from the client again, unless too much waits."""
        order = self._order
        if self._kept:
            return
        if not order.wants_pause and not (order.count and self._load.is_too_much):
            self._outbound.resume_reading()

    def _weigh(self) -> None:
        """Let the server's load count what waits here; not for a client that does not read its replies."""
        requests, size = self._weight
        order = self._order
        self._weight = now = (0 if order.writing_paused else order.count), order.size
        self._load.requests += now[0] - requests
        self._load.size += now[1] - size

    def _end(self) -> None:
        """Close once everything in `out` is sent; hear nothing more."""
        self._order.ended = True
        self._outbound.end()
        self._outbound.flush()

    # -- the session's side --------------------------------------------------------------------------------

    def established(self, session: Session, password: bytes, *, read_only: bool = False) -> None:
        """The session is there: tell the client, and take its requests.

        A session that is `read_only` is this server's own: its writes are refused.
        """
        assert self._request is not None
        order = self._order
        if read_only:
            order.use_operations(reads_alone(self._services.operations))
        session.connection = self
        session.heard = self._loop.time()
        self.session = session
        self.session_id = session.id
        self._patience.cancel()
        self._resume()
        log.info(
            "session %s: %s by %s:%d, timeout %d ms%s",
            session_text(session.id),
            "continued" if self._request.session_id else "opened",
            self.address,
            self.port,
            session.timeout_ms,
            ", read-only" if read_only else "",
        )
        if self._request.session_id == 0:
            zxid = self._services.machine.zxid
            self.latency.note(OpCode.CREATE_SESSION, 1, 0, zxid, self._requested, perf_counter_ns())
        order.out.append(
            encode_connect_response(
                session.timeout_ms,
                session.id,
                password,
                self._read_only_byte(read_only=read_only),
                self._wire.version,
            )
        )
        early, self._early = self._early, []
        if early and self._services.machine.midway:
            self._kept.append((early, None, perf_counter_ns()))
            self._wait_for_whole_state()
        else:
            self._take(early, None, perf_counter_ns())
        self._weigh()
        self._push()

    def refuse(self) -> None:
        """There is no such session (any more): the client has to start anew."""
        if self._request is not None and self._request.session_id:
            log.info(
                "session %s: refused to %s:%d: it has ended, or the password is wrong",
                session_text(self._request.session_id),
                self.address,
                self.port,
            )
        self._order.out.append(
            encode_connect_response(
                0, 0, bytes(PASSWORD_BYTES), self._read_only_byte(read_only=False), self._wire.version
            )
        )
        self._end()

    def send_elsewhere(self) -> None:
        """Send the client to another server: by Keeper's answer for that, or by closing the connection."""
        log.info("closing %s: this server is out of touch with etcd", self.address)
        if self.is_keepers:
            response = encode_connect_response(0, 0, bytes(PASSWORD_BYTES), False, ProtocolVersion.REJECTED)
            self._order.out.append(response)
        self.close()

    def close(self) -> None:
        """Close after what is to be sent; the session lives on, and its writes go to the log at once.

        Later they might come behind those of a newer connection: a dead client's transport closes late.
        """
        self._order.stop()
        self._append()
        self._weigh()
        self._end()

    def drain(self) -> None:
        """The server stops: take no more requests, but answer those that are here."""
        self._outbound.pause_reading()
        self._outbound.draining = True
        if not self._order.count and not self._kept:
            self.close()

    @property
    def due(self) -> float:
        """The loop's time when it is closed if nothing more is heard of the client."""
        session = self.session
        if session is None:
            return self._opened + _SESSIONLESS_TIMEOUT
        return session.heard + session.timeout_ms / 1000

    @property
    def is_keepers(self) -> bool:
        """Whether the handshake was one of Keeper's: only a ClickHouse can have sent it."""
        return self._wire.version != ProtocolVersion.ZOOKEEPER

    @property
    def is_closed(self) -> bool:
        """Whether the connection is closed or about to be."""
        return self._outbound.ended

    @property
    def wants_session(self) -> bool:
        """Whether the client still waits for its session."""
        return self.session is None and not self._outbound.ended

    @property
    def is_held_up(self) -> bool:
        """Whether nothing is read from the client because of what it has already asked for."""
        return self._outbound.reading_paused and not self._outbound.writing_paused

    @property
    def sent(self) -> int:
        """Packets sent to the client."""
        return self._outbound.sent

    @sent.setter
    def sent(self, count: int) -> None:
        self._outbound.sent = count

    @property
    def outstanding(self) -> int:
        """Requests without an answer so far."""
        return self._order.count

    def waiting(self, most: int) -> list[Waiting]:
        """The first of the requests without an answer, for operators."""
        return self._order.waiting(most)

    def local_session_closed(self) -> None:
        """The client has closed a session that is this server's own."""
        self._order.ended = True

    def notify(self, kind: int, path: str, zxid: int, acl: Sequence[Acl]) -> None:
        """Send one watch event, unless the ACL withholds the node (NIOServerCnxn.process)."""
        if acl is OPEN_TO_ALL or permits(acl, Perms.READ, self.identities):
            self._services.counters.notifications += 1
            order = self._order
            order.event(self._wire.event(kind, KeeperState.SYNC_CONNECTED, path, zxid))
            if not order.in_flush_queue:
                order.in_flush_queue = True
                self._services.flush_queue.add(self)

    def prove(self, packet: bytes) -> bool | None:
        """Take the identities that an auth packet proves; False if it proves none, None if cut short."""
        try:
            reader = Reader(packet, self._wire.body)
            reader.int()  # the type, always 0
            scheme = reader.string()
            proven = self._services.auth.authenticate(scheme, reader.buffer(), self._peer)
        except MalformedPacket as error:
            self._refused("", "", f"its packet is {error}")
            return None
        if not proven:
            self._refused(scheme or "", "", "")
            return False
        self._add(proven)
        return True

    def negotiate(self, token: bytes) -> SaslAnswer | None:
        """Answer a token of SASL; None if the answer comes later.

        Without a login as ZooKeeper without one: success and no token (ZooKeeperServer.processSasl).
        """
        login = self._services.login
        if login is None:
            return SaslAnswer(ErrorCode.OK, None)
        if self._negotiation is None:
            self._negotiation = Negotiation(
                login,
                self._loop,
                self._authenticated,
                partial(self._refused, "sasl"),
                self._negotiated,
            )
        return self._negotiation.step(token)

    def _negotiated(self, answer: SaslAnswer) -> None:
        if not self._outbound.ended:
            self._order.negotiated(answer)
            self.flush()

    def _authenticated(self, name: str) -> None:
        """The client has proved by SASL who it is."""
        login = self._services.login
        assert login is not None
        log.info(
            "session %s: %s:%d is SASL user %r",
            session_text(self.session_id),
            self.address,
            self.port,
            name,
        )
        self._add(sasl_identities(name, is_super=name in login.super_users))

    def _refused(self, scheme: str, name: str, reason: str) -> None:
        """The client has not proved who it is. `name`: whom it claims to be, as far as is known."""
        self._services.counters.auth_failed += 1
        log.warning(
            "session %s: authentication of %s:%d refused, scheme %r%s%s",
            session_text(self.session_id),
            self.address,
            self.port,
            scheme,
            f", user {name!r}" if name else "",
            f": {reason}" if reason else "",
        )
        if self._services.request_logs is not None:
            self._services.request_logs.refused(self, scheme, name)

    def _add(self, proven: Identities) -> None:
        self.identities = tuple(dict.fromkeys((*self.identities, *proven)))

    def _is_authenticated(self) -> bool:
        """Whether the client has an identity of a scheme that is enforced."""
        enforced = self._services.enforced_schemes
        return any(identity.scheme in enforced for identity in self.identities)

    # -- the connect request ---------------------------------------------------------------------------------

    def _receive_early(self, frames: list[bytes], broken: FrameTooLong | None) -> None:
        """Packets before the session is there: the connect request, or a four-letter word."""
        if self._request is None:
            if not frames:
                if broken is not None:
                    self.received += 1  # before the answer, which may tell of this very connection
                    answer = self._services.four_letter_word(INT.pack(broken.length), broken.rest)
                    if answer is not None:
                        self._say(answer, [])
                return
            if isinstance(self._framer, OpeningFramer):
                self._framer = self._framer.rest
            early = frames[1:]
            traces = self._services.traces
            if traces is not None:
                self._framer = SamplingFramer(self._framer, traces)
                traces.sample(early)
            try:
                request, understood = self._understand(frames[0])
            except MalformedPacket as error:
                self._services.throttled_log.warn("closing %s: connect request %s", self.address, error)
                self._order.ended = True
                return
            self._request = request
            self._requested = perf_counter_ns()
            self.received += 1
            self._services.counters.connect_requests += 1
            if not understood:
                self.refuse()
                return
            # As ZooKeeper does, read no more until the session is there.
            self._outbound.pause_reading()
            self._early += early
            self._services.attach(self, request)
        else:
            self._early += frames

    def _say(self, lines: Iterator[str], said: list[str]) -> None:
        """Send the answer to a four-letter word and close. A long one is made in slices."""
        deadline = perf_counter_ns() + int(SLICE * 1e9)
        while not self._outbound.ended:
            some = list(islice(lines, _LINES))
            if not some:
                self._order.out.append("".join(said).encode())
                self._end()
                return
            said += some
            if perf_counter_ns() >= deadline:
                self._is_saying = True
                self._outbound.pause_reading()
                self._loop.call_soon(partial(self._say, lines, said))
                return

    def _understand(self, packet: bytes) -> tuple[ConnectRequest, bool]:
        """Read the connect request, and say whether the form of packets that it asks for is offered.

        A ClickHouse that wanted compression connects again without it; others log what is wrong.
        """
        version = INT.unpack_from(packet)[0] if len(packet) >= INT.size else ProtocolVersion.ZOOKEEPER
        if version not in _FORMS_OF_KEEPER or not self._services.operations.extended:
            return decode_connect(packet), True  # ZooKeeper takes any version for its own
        if version == ProtocolVersion.COMPRESSION:
            request, compressed = ConnectRequest(version, 0, 0, 0, None, read_only=False), True
        else:
            traced = version == ProtocolVersion.TRACING
            decode = decode_traced_connect if traced else decode_wide_connect
            request, wide, compressed = decode(packet)
            if not compressed:
                if traced:
                    self._wire = TRACED_WIDE if wide else TRACED_NARROW
                else:
                    self._wire = WIDE
                self._order.use_wire(self._wire)
                return request, True
        log.info("%s asks for compressed packets (protocol version %d): not offered", self.address, version)
        return request, False

    def _give_up(self) -> None:
        """The client has sent no connect request in time."""
        if self._request is None:
            self._services.counters.sessionless_expired += 1
            # ZooKeeper says nothing of it either (NIOServerCnxnFactory.ConnectionExpirerThread).
            log.debug("closing %s: no connect request in %d s", self.address, _SESSIONLESS_TIMEOUT)
            self._end()

    def _read_only_byte(self, *, read_only: bool) -> bool | None:
        assert self._request is not None
        return None if self._request.read_only is None else read_only


def _subject(transport: asyncio.BaseTransport) -> str | None:
    """The subject of the client's TLS certificate; None without one."""
    tls = transport.get_extra_info("ssl_object")
    certificate = None if tls is None else tls.getpeercert(binary_form=True)
    return None if certificate is None else subject_name(certificate)
