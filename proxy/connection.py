"""One client's connection: the handshake, the session, watch events. Its parts are in files of their own.

`requests` keeps the order of requests and replies, `outlet` sends and holds the transport.
"""

import asyncio
import logging
from collections.abc import Sequence
from time import perf_counter_ns, time
from typing import cast

from codec.constants import KeeperState, OpCode, Perms, ProtocolVersion
from codec.errors import FrameTooLong, MalformedPacket
from codec.framing import Framer
from codec.jute import INT, Acl, Reader
from codec.keeper import OpeningFramer, decode_wide_connect
from codec.packets import ConnectRequest, decode_connect, encode_connect_response
from proxy.acl import Caller, permits
from proxy.auth.ip import java_address
from proxy.auth.scheme import Identity, Peer
from proxy.auth.x509 import subject_name
from proxy.host import Host
from proxy.latency import ConnectionLatency
from proxy.ops import reads_alone
from proxy.outlet import Outlet
from proxy.requests import Requests
from proxy.sessions import PASSWORD_BYTES, Session
from proxy.wire import NARROW, WIDE
from schema.values import OPEN_ACL

log = logging.getLogger(__name__)

# Seconds until a connection without a session is closed: zookeeper.nio.sessionlessCnxnTimeout's default.
_SESSIONLESS_TIMEOUT = 10
# Versions of the handshake that ask for another way to talk than ZooKeeper's.
_WAYS_OF_KEEPER = (ProtocolVersion.COMPRESSION, ProtocolVersion.WIDE_XIDS, ProtocolVersion.TRACING)


class Connection(asyncio.Protocol):
    """One TCP connection of one client."""

    def __init__(self, host: Host, loop: asyncio.AbstractEventLoop, max_frame: int) -> None:
        self._host = host
        self._loop = loop
        self._framer: Framer | OpeningFramer = (
            OpeningFramer(max_frame) if host.operations.extended else Framer(max_frame)
        )
        self._wire = NARROW
        self._outlet = Outlet(loop)
        self._out = self._outlet.out
        self._backlog: list[bytes] = []  # frames that came before the session was there
        self._greeting: ConnectRequest | None = None
        self._greeted = 0  # perf_counter_ns of the connect request
        self._load = host.load
        self.session: Session | None = None
        self.address = ""
        self.port = 0
        self.admitted = False  # whether it has a place, which is to be given back
        self._peer = Peer("")
        self.identities: tuple[Identity, ...] = ()
        self.knows_keeper = False  # the client has read which of Keeper's extensions there are
        self.caller = Caller(0, ())  # who asks, as of the last proof
        self.received = 0
        self.since = time()  # when it came, in seconds since 1970
        self.latency = ConnectionLatency(host.latency)
        self._requests = Requests(self, host, loop, self._outlet)

    # -- asyncio's side ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        # uvloop's transports are asyncio.Transport in all but their base class
        self._outlet.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if peer is not None:
            self.address, self.port = java_address(peer[0]), peer[1]
        try:
            self._peer = Peer(self.address, _subject(transport))
        except ValueError as error:
            log.warning("closing %s: its certificate: %s", self.address, error)
            peer = None
        self.identities = self._host.auth.identities(self._peer)
        if not self._host.opened(self) or peer is None:  # None: the client has reset the connection already
            self._outlet.end()
        self._opened = self._loop.time()
        self._patience = self._loop.call_later(_SESSIONLESS_TIMEOUT, self._give_up)

    def data_received(self, data: bytes) -> None:
        """Handle all complete packets of a chunk; their replies leave in one write."""
        outlet = self._outlet
        if outlet.ended:
            return
        session = self.session
        if session is not None:
            session.heard = self._loop.time()
        try:
            frames = self._framer.feed(data)
            broken = None
        except FrameTooLong as error:
            frames, broken = error.frames, error
        requests = self._requests
        if session is not None and not self._backlog:
            self.received += len(frames)
            requests.handle(frames)
        else:
            self._greet(frames, broken)
        if broken is not None and not outlet.ended:
            log.info("closing %s: %s", self.address, broken)
            outlet.end()
        if requests.count:
            requests.weigh()
            if self._load.is_too_much:
                outlet.pause()  # until all is answered, or less waits in all
        outlet.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; writes that ZooKeeper would have in its pipeline go on."""
        self._outlet.lost()
        self._patience.cancel()
        self._host.reading.watches.drop(self)
        if self.session is not None and self.session.connection is self:
            self.session.connection = None
        self._requests.submit_rest()
        self._requests.weigh()
        self._host.gone(self)

    def pause_writing(self) -> None:
        """The client does not read: do not read from it either."""
        self._outlet.deaf = True
        self._outlet.pause()
        self._requests.weigh()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._outlet.deaf = False
        self._requests.hear_again()

    # -- the session's side --------------------------------------------------------------------------------

    @property
    def session_id(self) -> int:
        """The session's id; 0 while there is none."""
        return 0 if self.session is None else self.session.id

    def established(self, session: Session, password: bytes, *, read_only: bool = False) -> None:
        """The session is there: tell the client, and take its requests.

        A session that is `read_only` is this server's own affair: its writes are refused.
        """
        assert self._greeting is not None
        if read_only:
            reads, writes, _ = reads_alone(self._host.operations)
            self._requests.offer(reads, writes)
        session.connection = self
        session.heard = self._loop.time()
        self.session = session
        self._patience.cancel()
        self._requests.resume()
        self.caller = Caller(session.id, self.identities, self._host.auth.names)
        if self._greeting.session_id == 0:
            zxid = self._host.zxid
            self.latency.note(OpCode.CREATE_SESSION, 1, 0, zxid, self._greeted, perf_counter_ns())
        self._out.append(
            encode_connect_response(
                session.timeout_ms,
                session.id,
                password,
                self._read_only_byte(read_only=read_only),
                self._wire.version,
            )
        )
        backlog, self._backlog = self._backlog, []
        self.received += len(backlog)
        self._requests.handle(backlog)
        self._outlet.flush()

    def refuse(self) -> None:
        """There is no such session (any more): the client has to start anew."""
        self._out.append(
            encode_connect_response(
                0, 0, bytes(PASSWORD_BYTES), self._read_only_byte(read_only=False), self._wire.version
            )
        )
        self._outlet.end()
        self._outlet.flush()

    def turn_away(self) -> None:
        """Not with this server now: Keeper's clients are told to try another one, others are closed."""
        if self.is_keepers:
            response = encode_connect_response(0, 0, bytes(PASSWORD_BYTES), False, ProtocolVersion.REJECTED)
            self._out.append(response)
        self.close()

    def close(self) -> None:
        """Close after what is to be sent; the session lives on, and its writes go on at once.

        Later they might come behind those of a newer connection: a dead client's transport closes late.
        """
        self._requests.submit_rest()
        self._outlet.end()
        self._outlet.flush()

    def drain(self) -> None:
        """The server stops: take no more requests, but answer those that are here."""
        self._outlet.pause()
        self._outlet.draining = True
        if not self._requests.count:
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
        return self._wire is WIDE

    @property
    def is_closed(self) -> bool:
        """Whether the connection is closed or about to be."""
        return self._outlet.ended

    @property
    def is_held_up(self) -> bool:
        """Whether nothing is read from the client because of what it has already asked for."""
        return self._outlet.paused and not self._outlet.deaf

    @property
    def sent(self) -> int:
        """Packets sent to the client."""
        return self._outlet.sent

    @sent.setter
    def sent(self, count: int) -> None:
        self._outlet.sent = count

    @property
    def outstanding(self) -> int:
        """Requests without an answer so far."""
        return self._requests.count

    def farewell(self) -> None:
        """The client has closed a session that is this server's own affair."""
        self._outlet.end()

    def notify(self, kind: int, path: str, zxid: int, acl: Sequence[Acl]) -> None:
        """Send one watch event, unless the ACL withholds the node (NIOServerCnxn.process)."""
        if acl is OPEN_ACL or permits(acl, Perms.READ, self.identities):
            self._host.counters.notifications += 1
            self._out.append(self._wire.event(kind, KeeperState.SYNC_CONNECTED, path, zxid))
            self._outlet.schedule_flush()

    # -- the handshake ---------------------------------------------------------------------------------------

    def _greet(self, frames: list[bytes], broken: FrameTooLong | None) -> None:
        """Packets before the session is there: the connect request, or a four-letter word."""
        if self._greeting is None:
            if not frames:
                if broken is not None:
                    self.received += 1  # before the answer, which may tell of this very connection
                    answer = self._host.four_letter_word(INT.pack(broken.length), broken.rest)
                    if answer is not None:
                        self._out.append(answer)
                        self._outlet.end()
                return
            if isinstance(self._framer, OpeningFramer):
                self._framer = self._framer.rest
            try:
                greeting, understood = self._understand(frames[0])
            except MalformedPacket as error:
                log.info("closing %s: connect request %s", self.address, error)
                self._outlet.end()
                return
            self._greeting = greeting
            self._greeted = perf_counter_ns()
            self.received += 1
            self._host.counters.connect_requests += 1
            if not understood:
                self.refuse()
                return
            # As ZooKeeper does, read no more until the session is there.
            self._outlet.pause()
            self._host.attach(self, self._greeting)
            frames = frames[1:]
        self._backlog += frames

    def _understand(self, packet: bytes) -> tuple[ConnectRequest, bool]:
        """Read the connect request, and tell whether the way to talk that it asks for is offered.

        A ClickHouse that wanted compression connects again without; others say in their log what is wrong.
        """
        version = INT.unpack_from(packet)[0] if len(packet) >= INT.size else ProtocolVersion.ZOOKEEPER
        if version not in _WAYS_OF_KEEPER or not self._host.operations.extended:
            return decode_connect(packet), True  # ZooKeeper takes any version for its own
        if version == ProtocolVersion.WIDE_XIDS:
            greeting, compressed = decode_wide_connect(packet)
            if not compressed:
                self._wire = WIDE
                self._requests.talk(WIDE)
                return greeting, True
        else:
            greeting = ConnectRequest(version, 0, 0, 0, None, read_only=False)
        wish = "OpenTelemetry contexts" if version == ProtocolVersion.TRACING else "compressed packets"
        log.info("%s asks for %s (protocol version %d): not offered", self.address, wish, version)
        return greeting, False

    def _give_up(self) -> None:
        """The client has sent no connect request in time."""
        if self._greeting is None:
            self._host.counters.sessionless_expired += 1
            log.info("closing %s: no connect request in %d s", self.address, _SESSIONLESS_TIMEOUT)
            self._outlet.end()

    def _read_only_byte(self, *, read_only: bool) -> bool | None:
        assert self._greeting is not None
        return None if self._greeting.read_only is None else read_only

    def prove(self, packet: bytes) -> bool | None:
        """Take the identities that an auth packet proves; False if it proves none, None if cut short."""
        try:
            reader = Reader(packet, self._wire.body)
            reader.int()  # the type, always 0
            proven = self._host.auth.authenticate(reader.string(), reader.buffer(), self._peer)
        except MalformedPacket:
            return None
        if not proven:
            return False
        self.identities = tuple(dict.fromkeys((*self.identities, *proven)))
        self.caller = Caller(self.session_id, self.identities, self._host.auth.names)
        return True


def _subject(transport: asyncio.BaseTransport) -> str | None:
    """Whom the client's TLS certificate names; None without one."""
    tls = transport.get_extra_info("ssl_object")
    certificate = None if tls is None else tls.getpeercert(binary_form=True)
    return None if certificate is None else subject_name(certificate)
