"""One client's connection: framing, order of requests and replies, watch events. Alone touches transports.

Requests of one connection are answered in the order they came. While none waits, a read is answered at once
from the tree. A write joins the committer; a read behind a write waits for it, and a write behind that read
waits for the read, so that a read sees all earlier writes of its session and no later one.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from time import perf_counter_ns, time
from typing import NamedTuple, Protocol, cast

from codec.constants import ErrorCode, KeeperOpCode, KeeperState, OpCode, Perms, ProtocolVersion, Xid
from codec.errors import FrameTooLong, MalformedPacket, NullString
from codec.framing import Framer
from codec.jute import INT, NULL, Acl, Reader
from codec.keeper import OpeningFramer, decode_wide_connect
from codec.packets import ConnectRequest, decode_connect, encode_connect_response
from proxy.acl import Caller, permits
from proxy.auth.ip import java_address
from proxy.auth.scheme import Identity, Peer
from proxy.auth.schemes import Offer
from proxy.auth.x509 import subject_name
from proxy.batch import Request
from proxy.counters import Counters
from proxy.latency import ConnectionLatency, Latency
from proxy.load import Load
from proxy.operation import Operations, Reading, ReadOperation
from proxy.ops import reads_alone
from proxy.ops.session import END
from proxy.refusal import Refusal
from proxy.sessions import PASSWORD_BYTES, Session
from proxy.wire import NARROW, WIDE
from schema.values import OPEN_ACL

log = logging.getLogger(__name__)

# A client that sends more than this many requests without waiting is not read from until half are answered.
_MAX_QUEUE = 1000
_MAX_QUEUED_BYTES = 16 << 20
# Seconds that a client has to take what was still to be sent when its connection ends.
_LAST_WAIT = 5
# Replies of more bytes are handed to the transport at once, which tells whether the client reads.
_LARGE_REPLY = 4096
# Nanoseconds that the laborious reads of one client may take before the other clients have their turn.
_AT_A_STRETCH = 10_000_000
# Seconds until a connection without a session is closed: zookeeper.nio.sessionlessCnxnTimeout's default.
_SESSIONLESS_TIMEOUT = 10
# What takes long, a single one, by what is below a node, in an ACL, in the request, or was before it.
_LABORIOUS = frozenset(
    (
        OpCode.AUTH,
        OpCode.GET_ACL,
        OpCode.MULTI_READ,
        OpCode.SET_WATCHES,
        OpCode.SET_WATCHES2,
        OpCode.GET_EPHEMERALS,
        OpCode.GET_ALL_CHILDREN_NUMBER,
        KeeperOpCode.FILTERED_LIST,
        KeeperOpCode.LIST_WITH_STAT_AND_DATA,
        KeeperOpCode.LIST_RECURSIVE,
    )
)
# PrepRequestProcessor validates these requests' paths, null or not; a null path makes it stumble elsewhere.
_PATH_CHECKED_FIRST = (OpCode.SET_DATA, OpCode.SET_ACL)


# Versions of the handshake that ask for another way to talk than ZooKeeper's.
_WAYS_OF_KEEPER = (ProtocolVersion.COMPRESSION, ProtocolVersion.WIDE_XIDS, ProtocolVersion.TRACING)


class Host(Protocol):
    """The server, as a connection sees it."""

    reading: Reading
    latency: Latency
    auth: Offer
    counters: Counters
    operations: Operations
    load: Load

    @property
    def zxid(self) -> int:
        """The zxid that the mirror has reached."""

    def submit(self, request: Request) -> None:
        """Give a write to the committer."""

    def attach(self, connection: "Connection", request: ConnectRequest) -> None:
        """Find or make the session of a connection, then call `established` or `refuse`."""

    def session_ended(self, session: Session, closer: "Connection") -> None:
        """A client has closed its session, by this connection."""

    def four_letter_word(self, word: bytes, rest: bytes) -> bytes | None:
        """The answer to a four-letter word and what came with it, None if it is none."""

    def opened(self, connection: "Connection") -> bool:
        """A connection has come; False if there are too many from its address."""

    def gone(self, connection: "Connection") -> None:
        """A connection has ended."""


class _Write(Request):
    """A write of this connection, with the committer or answered."""

    __slots__ = ("closes", "opcode", "received", "reply", "xid")

    xid: int
    opcode: int
    reply: bytes | None  # until it is this one's turn
    closes: bool  # it is a closeSession
    received: int  # perf_counter_ns of its receipt


class _Unreadable(NamedTuple):
    """A write that cannot be decoded, whose error waits for its turn."""

    xid: int
    code: ErrorCode


class _Waiting(NamedTuple):
    """A request behind a read that waits, or a read or the like behind a write."""

    xid: int
    opcode: int
    packet: bytes
    received: int  # perf_counter_ns of its receipt
    is_write: bool  # it goes to the committer


class Connection(asyncio.Protocol):
    """One TCP connection of one client."""

    def __init__(self, host: Host, loop: asyncio.AbstractEventLoop, max_frame: int) -> None:
        self._host = host
        self._loop = loop
        self._framer: Framer | OpeningFramer = (
            OpeningFramer(max_frame) if host.operations.extended else Framer(max_frame)
        )
        self._wire = NARROW
        self._frame = NARROW.frame
        self._body = NARROW.body
        self._reads = host.operations.reads
        self._writes = host.operations.writes
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._flush_scheduled = False
        self._queue: deque[_Write | _Unreadable | _Waiting] = deque()
        self._barriers = 0  # items in the queue that are no writes
        self._backlog: list[bytes] = []  # frames that came before the session was there
        self._greeting: ConnectRequest | None = None
        self._greeted = 0  # perf_counter_ns of the connect request
        self._ended = False  # close after what is to be sent; take no more requests
        self._paused = False  # nothing is read from the client
        self._deaf = False  # the client reads nothing
        self._draining = False
        self._queued = 0  # bytes of requests that wait for their answers
        self._load = host.load
        self._weight = (0, 0)  # requests and bytes by which the server's load counts this connection
        self._last_wait: asyncio.TimerHandle | None = None
        self.session: Session | None = None
        self.address = ""
        self.port = 0
        self.admitted = False  # whether it has a place, which is to be given back
        self._peer = Peer("")
        self.identities: tuple[Identity, ...] = ()
        self.knows_keeper = False  # the client has read which of Keeper's extensions there are
        self._caller = Caller(0, ())
        self.received = 0
        self.sent = 0
        self.since = time()  # when it came, in seconds since 1970
        self.latency = ConnectionLatency(host.latency)

    # -- asyncio's side ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        # uvloop's transports are asyncio.Transport in all but their base class
        self._transport = cast(asyncio.Transport, transport)
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
            self._end()
        self._opened = self._loop.time()
        self._patience = self._loop.call_later(_SESSIONLESS_TIMEOUT, self._give_up)

    def data_received(self, data: bytes) -> None:
        """Handle all complete packets of a chunk; their replies leave in one write."""
        if self._ended:
            return
        session = self.session
        if session is not None:
            session.heard = self._loop.time()
        try:
            frames = self._framer.feed(data)
            broken = None
        except FrameTooLong as error:
            frames, broken = error.frames, error
        if session is not None and not self._backlog:
            self._handle(frames)
        else:
            self._greet(frames, broken)
        if broken is not None and not self._ended:
            log.info("closing %s: %s", self.address, broken)
            self._end()
        if self._queue:
            self._weigh()
            if self._load.is_too_much:
                self._pause()  # until all is answered, or less waits in all
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; writes that ZooKeeper would have in its pipeline go on."""
        self._ended = True
        self._transport = None
        self._out.clear()
        self._patience.cancel()
        if self._last_wait is not None:
            self._last_wait.cancel()
        self._host.reading.watches.drop(self)
        if self.session is not None and self.session.connection is self:
            self.session.connection = None
        self._submit_rest()
        self._weigh()
        self._host.gone(self)

    def pause_writing(self) -> None:
        """The client does not read: do not read from it either."""
        self._deaf = True
        self._pause()
        self._weigh()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._deaf = False
        self._advance()
        self._resume()

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
            self._reads, self._writes, _ = reads_alone(self._host.operations)
        session.connection = self
        session.heard = self._loop.time()
        self.session = session
        self._patience.cancel()
        self._resume()
        self._caller = Caller(session.id, self.identities, self._host.auth.names)
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
        self._handle(backlog)
        self._flush()

    def refuse(self) -> None:
        """There is no such session (any more): the client has to start anew."""
        self._out.append(
            encode_connect_response(
                0, 0, bytes(PASSWORD_BYTES), self._read_only_byte(read_only=False), self._wire.version
            )
        )
        self._end()
        self._flush()

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
        self._submit_rest()
        self._end()
        self._flush()

    def drain(self) -> None:
        """The server stops: take no more requests, but answer those that are here."""
        self._pause()
        self._draining = True
        if not self._queue:
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
        return self._ended

    @property
    def is_held_up(self) -> bool:
        """Whether nothing is read from the client because of what it has already asked for."""
        return self._paused and not self._deaf

    @property
    def outstanding(self) -> int:
        """Requests without an answer so far."""
        return len(self._queue)

    def farewell(self) -> None:
        """The client has closed a session that is this server's own affair."""
        self._end()

    def notify(self, kind: int, path: str, zxid: int, acl: Sequence[Acl]) -> None:
        """Send one watch event, unless the ACL withholds the node (NIOServerCnxn.process)."""
        if acl is OPEN_ACL or permits(acl, Perms.READ, self.identities):
            self._host.counters.notifications += 1
            self._out.append(self._wire.event(kind, KeeperState.SYNC_CONNECTED, path, zxid))
            self._schedule_flush()

    # -- requests ------------------------------------------------------------------------------------------

    def _greet(self, frames: list[bytes], broken: FrameTooLong | None) -> None:
        """Packets before the session is there: the connect request, or a four-letter word."""
        if self._greeting is None:
            if not frames:
                if broken is not None:
                    self.received += 1  # before the answer, which may tell of this very connection
                    answer = self._host.four_letter_word(INT.pack(broken.length), broken.rest)
                    if answer is not None:
                        self._out.append(answer)
                        self._end()
                return
            if isinstance(self._framer, OpeningFramer):
                self._framer = self._framer.rest
            try:
                greeting, understood = self._understand(frames[0])
            except MalformedPacket as error:
                log.info("closing %s: connect request %s", self.address, error)
                self._end()
                return
            self._greeting = greeting
            self._greeted = perf_counter_ns()
            self.received += 1
            self._host.counters.connect_requests += 1
            if not understood:
                self.refuse()
                return
            # As ZooKeeper does, read no more until the session is there.
            self._pause()
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
                self._wire, self._frame, self._body = WIDE, WIDE.frame, WIDE.body
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
            self._end()

    def _read_only_byte(self, *, read_only: bool) -> bool | None:
        assert self._greeting is not None
        return None if self._greeting.read_only is None else read_only

    def _handle(self, frames: list[bytes]) -> None:
        out = self._out
        queue = self._queue
        header = self._wire.header
        reads = self._reads
        body = self._body
        frame_of = self._frame
        reading = self._host.reading
        zxid = self._host.zxid  # nothing moves the mirror on while these frames are handled
        started = perf_counter_ns()
        self.received += len(frames)
        # Reads mostly come in runs of one opcode: who counts runs takes next to nothing of a read's time.
        runs: list[tuple[int, int]] = []
        run = first = xid = 0
        operation: ReadOperation | None = None
        for place, packet in enumerate(frames):
            if len(packet) < body:
                log.info("closing %s: a packet without a whole header", self.address)
                self._end()
                return
            xid, opcode = header(packet)
            if opcode != run:
                if operation is not None and place > first:
                    runs.append((run, place - first))
                run = opcode
                first = place
                operation = None if opcode in _LABORIOUS else reads.get(opcode)
            if operation is not None and not queue and not self._deaf:
                try:
                    reply = frame_of(xid, zxid, 0, operation(reading, self, packet, body))
                except (Refusal, MalformedPacket) as error:
                    reply = self._refused(xid, error)
                out.append(reply)
                if len(reply) > _LARGE_REPLY:
                    self._flush()
            else:
                if operation is not None and place > first:
                    runs.append((run, place - first))
                first = place + 1
                self._take(xid, opcode, packet, started)
                if self._ended:
                    return
        count = len(frames) - first
        if count:
            now = perf_counter_ns()
            self.latency.note(run, count, xid, self._host.zxid, started, now)
            if runs:
                self.latency.note_earlier(runs, now - started)
        elif runs:
            self._note_runs(runs, started)

    def _note_runs(self, runs: list[tuple[int, int]], started: int) -> None:
        """Note the reads of a chunk that ends with something else."""
        now = perf_counter_ns()
        opcode, count = runs.pop()
        self.latency.note(opcode, count, -1, self._host.zxid, started, now)
        self.latency.note_earlier(runs, now - started)

    def _read(self, xid: int, operation: ReadOperation, packet: bytes) -> bytes:
        host = self._host
        try:
            return self._frame(xid, host.zxid, 0, operation(host.reading, self, packet, self._body))
        except (Refusal, MalformedPacket) as error:
            return self._refused(xid, error)

    def _refused(self, xid: int, error: Refusal | MalformedPacket) -> bytes:
        zxid = self._host.zxid
        if isinstance(error, Refusal):
            return self._frame(xid, zxid, error.code, error.body)
        return self._frame(xid, zxid, ErrorCode.MARSHALLING_ERROR)

    def _take(self, xid: int, opcode: int, packet: bytes, received: int) -> None:
        """A write, or anything that waits for one."""
        queue = self._queue
        self._queued += len(packet)
        operation = self._writes.get(opcode)
        # To a session that may only read, even its end is no write.
        if operation is not None or (opcode == OpCode.CLOSE_SESSION and opcode not in self._reads):
            if self._barriers:
                queue.append(_Waiting(xid, opcode, packet, received, is_write=True))
            else:
                item = self._submit(xid, opcode, packet, received)
                queue.append(item)
                if isinstance(item, _Unreadable):
                    self._queued -= len(packet)
                    if len(queue) == 1:
                        self._advance()
        elif queue or self._deaf or perf_counter_ns() - received > _AT_A_STRETCH:
            if not queue:
                self._loop.call_soon(self._advance)
            queue.append(_Waiting(xid, opcode, packet, received, is_write=False))
            self._barriers += 1
        else:
            self._queued -= len(packet)
            self._reply(xid, opcode, packet, received)
            return
        if len(queue) >= _MAX_QUEUE or self._queued >= _MAX_QUEUED_BYTES:
            self._pause()

    def _submit(self, xid: int, opcode: int, packet: bytes, received: int) -> _Write | _Unreadable:
        """Give a write to the committer, unless it cannot be read."""
        operation = self._writes.get(opcode)
        fields = None
        if operation is None:
            if self.session is not None:
                self.session.ending = True
            operation = END
        else:
            try:
                fields, _ = operation.decode(packet, self._body)
            except MalformedPacket as error:
                checked = isinstance(error, NullString) and opcode in _PATH_CHECKED_FIRST
                return _Unreadable(xid, ErrorCode.BAD_ARGUMENTS if checked else ErrorCode.MARSHALLING_ERROR)
        write = _Write(operation, fields, self._caller, len(packet), self._done)
        write.xid = xid
        write.opcode = opcode
        write.closes = operation is END
        write.reply = None
        write.received = received
        self._host.submit(write)
        return write

    def _done(self, write: Request, zxid: int) -> None:
        """The committer has the answer to a write."""
        assert isinstance(write, _Write)
        now = self._host.zxid
        self.latency.note(write.opcode, 1, write.xid, now, write.received, perf_counter_ns())
        if write.refusal is not None:
            write.reply = self._frame(write.xid, now, write.refusal)
            if write.refusal in _FATAL:
                self._end()
        else:
            write.reply = self._frame(write.xid, now, 0, write.operation.reply(write.result, zxid))
        if write.closes and self.session is not None:
            if write.refusal is None:
                self._host.session_ended(self.session, self)
            else:
                self.session.ending = False  # it has moved, or nobody can tell: its time goes on
        if self._queue and self._queue[0] is write:
            self._advance()

    def _advance(self) -> None:
        """Answer from the head of the queue as far as the client reads, then let the next writes go."""
        queue = self._queue
        began = 0  # perf_counter_ns of the first laborious read
        while queue and not self._deaf:
            item = queue[0]
            if isinstance(item, _Write):
                if item.reply is None:
                    break  # the answer will call again
                self._out.append(item.reply)
                queue.popleft()
                self._queued -= item.size
                if item.closes:  # its reply is the last thing that ZooKeeper sends
                    queue.clear()
                    self._end()
                    return
            elif isinstance(item, _Unreadable):
                self._out.append(self._frame(item.xid, self._host.zxid, item.code))
                queue.popleft()
            elif item.is_write:
                self._submit_run()
            else:
                xid, opcode, packet, received, _ = item
                if opcode in _LABORIOUS:
                    now = perf_counter_ns()
                    began = began or now
                    if now - began > _AT_A_STRETCH:
                        self._loop.call_soon(self._advance)
                        break
                queue.popleft()
                self._queued -= len(packet)
                self._barriers -= 1
                self._reply(xid, opcode, packet, received)
                if self._ended:  # what follows a failed auth or an unknown request is not heard
                    queue.clear()
                    return
        self._weigh()
        if self._paused and len(queue) <= _MAX_QUEUE // 2:
            self._resume()
        if self._draining and not queue:
            self._end()
        self._schedule_flush()

    def _submit_run(self) -> None:
        """Submit the writes at the head of the queue, up to the next request that is none."""
        queue = self._queue
        for place in range(len(queue)):
            item = queue[place]
            if isinstance(item, _Waiting):
                if not item.is_write:
                    return
                queue[place] = submitted = self._submit(*item[:4])
                if isinstance(submitted, _Unreadable):
                    self._queued -= len(item.packet)

    def _submit_rest(self) -> None:
        """Submit the writes that wait. Nobody waits for reads any more, whose watches would stay for ever."""
        left = [item for item in self._queue if isinstance(item, _Waiting)]
        self._queue.clear()
        self._barriers = self._queued = 0
        for item in left:
            if item.is_write:
                self._submit(*item[:4])
            elif item.opcode == OpCode.AUTH:
                if not self._prove(item.packet):
                    return  # what follows a failed auth is not heard
            elif item.opcode == OpCode.SASL:
                if _sasl_token(item.packet, self._body) is None:
                    return
            elif item.opcode not in self._reads and item.opcode != OpCode.PING:
                return  # nor what follows an unknown request

    def _reply(self, xid: int, opcode: int, packet: bytes, received: int) -> None:
        """Answer a read, or what concerns the connection alone, whose turn it is."""
        operation = self._reads.get(opcode)
        if operation is not None:
            reply = self._read(xid, operation, packet)
            self.latency.note(opcode, 1, xid, self._host.zxid, received, perf_counter_ns())
        else:
            reply = self._answer(xid, opcode, packet)
        self._out.append(reply)
        if len(reply) > _LARGE_REPLY:
            self._flush()

    def _answer(self, xid: int, opcode: int, packet: bytes) -> bytes:
        """Requests that concern the connection alone."""
        if opcode == OpCode.PING:
            now = perf_counter_ns()
            self.latency.note(opcode, 1, Xid.PING, self._host.zxid, now, now)
            return self._frame(Xid.PING, self._host.zxid, 0)
        if opcode == OpCode.AUTH:
            return self._authenticate(xid, packet)
        if opcode == OpCode.SASL:
            return self._sasl(xid, packet)
        self._end()
        return self._frame(xid, -1, ErrorCode.UNIMPLEMENTED)  # ZooKeeper's request has no zxid yet

    def _sasl(self, xid: int, packet: bytes) -> bytes:
        """What ZooKeeper without a SASL login answers: success and no token (ZooKeeperServer.processSasl)."""
        if _sasl_token(packet, self._body) is None:
            self._end()
            return b""
        return self._frame(xid, 0, ErrorCode.OK, NULL)

    def _authenticate(self, xid: int, packet: bytes) -> bytes:
        proven = self._prove(packet)
        if not proven:
            self._host.counters.auth_failed += 1
            self._end()
            return b"" if proven is None else self._frame(xid, 0, ErrorCode.AUTH_FAILED)
        return self._frame(xid, 0, ErrorCode.OK)

    def _prove(self, packet: bytes) -> bool | None:
        """Take the identities that an auth packet proves; False if it proves none, None if cut short."""
        try:
            reader = Reader(packet, self._body)
            reader.int()  # the type, always 0
            proven = self._host.auth.authenticate(reader.string(), reader.buffer(), self._peer)
        except MalformedPacket:
            return None
        if not proven:
            return False
        self.identities = tuple(dict.fromkeys((*self.identities, *proven)))
        self._caller = Caller(self.session_id, self.identities, self._host.auth.names)
        return True

    # -- sending -------------------------------------------------------------------------------------------

    def _schedule_flush(self) -> None:
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        transport = self._transport
        if transport is None:
            return
        if self._out:
            self.sent += len(self._out)
            transport.write(b"".join(self._out))
            self._out.clear()
        if self._ended:
            transport.close()

    def _end(self) -> None:
        """Take no more requests; close once what is to be sent is sent."""
        self._ended = True
        if self._last_wait is None and self._transport is not None:
            # A client that takes nothing would keep its connection, and all that is to be sent, for ever.
            self._last_wait = self._loop.call_later(_LAST_WAIT, self._transport.abort)
        self._schedule_flush()

    def _pause(self) -> None:
        if not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if not self._paused or self._transport is None or self._ended or self._draining:
            return
        if self._deaf or len(self._queue) >= _MAX_QUEUE or self._queued >= _MAX_QUEUED_BYTES:
            return
        if self._queue and self._load.is_too_much:
            return
        self._paused = False
        self._transport.resume_reading()

    def _weigh(self) -> None:
        """Let the server's load count what waits here; not for a client that does not take its answers."""
        requests, size = self._weight
        self._weight = now = (0 if self._deaf else len(self._queue)), self._queued
        self._load.requests += now[0] - requests
        self._load.size += now[1] - size


def _subject(transport: asyncio.BaseTransport) -> str | None:
    """Whom the client's TLS certificate names; None without one."""
    tls = transport.get_extra_info("ssl_object")
    certificate = None if tls is None else tls.getpeercert(binary_form=True)
    return None if certificate is None else subject_name(certificate)


def _sasl_token(packet: bytes, body: int) -> bytes | None:
    """The token of a sasl packet; None if it is null or cut short, at which ZooKeeper closes."""
    try:
        return Reader(packet, body).buffer()
    except MalformedPacket:
        return None


# Answers after which the connection has no session: the client reconnects and learns the rest.
_FATAL = frozenset((ErrorCode.SESSION_EXPIRED, ErrorCode.SESSION_MOVED, ErrorCode.CONNECTION_LOSS))
