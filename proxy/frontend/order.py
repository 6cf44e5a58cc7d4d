"""The order of one connection's requests and replies.

Pure: no event loop and no transport. Frames go in through `receive`, outcomes of writes through `applied`.
What the connection has to do afterwards stands in attributes: `out` (packets to send), `to_append` (requests
for the log), `ended`, `wants_advance`.

Requests are answered in the order in which they came. Writes go to the log at once. A read behind a write is
answered inside `applied` of that write, before the log applies the next request: it sees exactly the state
between the two writes around it. While no request waits, reads are answered at once.

What waits stands in one queue, whose head is answered next (`waiting` declares the items):

Write    in the log; waits for its outcome
Held     a write that may not go to the log before what stands before it is answered
Reads    a run of light reads of one kind
Single   a laborious read, or a request that concerns the connection alone (ping, auth, sasl)
Refused  a write that cannot be decoded; its error waits for its turn
"""

import logging
import weakref
from collections import deque
from collections.abc import Callable, Collection
from itertools import islice
from typing import Any, Protocol

from codec.constants import ErrorCode, KeeperOpCode, OpCode, Xid
from codec.errors import MalformedPacket
from codec.jute import Reader, pack_buffer
from codec.packets import decode_path_watch
from proxy.frontend.answered import Answered
from proxy.frontend.waiting import (
    UNKNOWN,
    Held,
    Reads,
    Refused,
    SaslAnswer,
    Single,
    Waiting,
    Write,
    path_of,
)
from proxy.frontend.wire import NARROW, Wire
from proxy.state.operation import Client, Operations, Reading, ReadOperation
from proxy.state.ops.unreadable import code_of, is_refused_at_once
from proxy.state.pieces import AT_ONCE_BYTES, Laborious, Work
from proxy.state.refusal import Refusal
from proxy.support.latency import ConnectionLatency
from schema.paths import ZOOKEEPER

log = logging.getLogger(__name__)

# A client that sends more than this many requests without waiting is not read from until half are answered.
_MAX_QUEUE = 1000
_MAX_QUEUED_BYTES = 16 << 20
# Replies of more bytes than this are counted, so that a client that does not read them is noticed.
_LARGE_REPLY = 4096
# Bytes of large replies after which a run of reads is interrupted, so that they are sent.
_MAX_UNSENT = 64 << 10
# Bytes of large replies that are kept for a client that does not read, because writes behind their requests
# are in the log already. Beyond that the connection is closed.
_MAX_FORCED = 64 << 20
# Nanoseconds that the laborious reads of one client may take before the other clients have their turn.
_AT_A_STRETCH = 10_000_000
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
# Reads that look at nothing but one node and its watches.
_OF_ONE_NODE = frozenset((OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2))
# Never part of a run of reads. To a session that may only read, closeSession is a read.
_ALONE = _LABORIOUS | {OpCode.CLOSE_SESSION}
# Reads between two writes are answered in one go, once the second write is in the log. So a write waits for
# the reads before it if these are too many: more than so many light ones, or a few laborious ones.
_MAX_AHEAD = 128
_LABORIOUS_WEIGHT = 32
# A write waits for what is before it, however little that is.
_BLOCKED = 1 << 30
# Outcomes that ZooKeeper does not report: it closes the connection (FinalRequestProcessor).
_CLOSED_WITHOUT_REPLY = frozenset((ErrorCode.SESSION_MOVED, ErrorCode.CONNECTION_LOSS))

# Plain numbers: looking up an enum's member costs more than the comparison.
_CLOSE_SESSION = int(OpCode.CLOSE_SESSION)
_PING = int(OpCode.PING)
_SESSION_EXPIRED = int(ErrorCode.SESSION_EXPIRED)


class Owner(Client, Protocol):
    """The connection whose requests these are."""

    @property
    def address(self) -> str:
        """The client's address, for the log file."""

    def prove(self, packet: bytes) -> bool | None:
        """Take the identities that an auth packet proves; False if it proves none, None if cut short."""

    def negotiate(self, token: bytes) -> SaslAnswer | None:
        """Answer a token of SASL; None if `Order.negotiated` gets the answer later."""


class Machine(Protocol):
    """What is needed of the state machine."""

    @property
    def zxid(self) -> int:
        """The zxid that it has reached."""


class Order:
    """The requests of one client, until they are answered."""

    def __init__(
        self,
        owner: Owner,
        machine: Machine,
        reading: Reading,
        operations: Operations,
        latency: ConnectionLatency,
        clock: Callable[[], int],
        request_flush: Callable[[], None],
        long_read: Callable[[bool], None],
        outcome: Callable[[Write, int, bytes], None] | None = None,
    ) -> None:
        """`clock` gives nanoseconds. `outcome(write, err, body)` is called behind each write, for logs.

        `request_flush` is called at the first outcome after each `before_flush`: there is something to send.
        `long_read` has `read_on` called later, until that says that it is done; with true, nothing may be
        applied meanwhile.
        """
        self.out: list[bytes] = []  # packets to send; always the same list, which the connection clears
        self.to_append: list[Write] = []  # requests for the log; always the same list
        self.ended = False  # send what is in `out`, then close
        self.wants_advance = False  # `advance` has to be called in another turn, after `out` is sent
        self.writing_paused = False  # the client does not read its replies; set by the connection
        self.in_flush_queue = False  # `request_flush` was called; also set by the connection
        self.count = 0  # requests without an answer so far
        self.size = 0  # their bytes
        self._owner = owner
        self._machine = machine
        self._reading = reading
        self._latency = latency
        self._clock = clock
        self._request_flush = request_flush
        self._begin_long_read = long_read
        self._in_long_read = False  # the head of the queue is a read that takes long: `read_on` answers it
        self._long_read: Work[bytes] | None = None  # that read, once it has begun
        self._queue: deque[Write | Reads | Refused | Held | Single] = deque()
        # Writes of the queue that are in the log. If there is one, the first in the queue is one: what is
        # behind it, up to the last one, has to be answered as these are applied.
        self._in_log = 0
        # What the requests behind the last write of the queue weigh: how much the next write would overtake.
        self._weight_ahead = 0
        self._unsent = 0  # bytes of large replies that are not sent, as far as is known
        # The xid of a token whose answer comes later. Until then nothing is answered.
        self._negotiating: int | None = None
        # Whether the client may be served (None: any client may), and what it has sent while it may not.
        self._is_authenticated: Callable[[], bool] | None = None
        self._unauthenticated: deque[bytes] = deque()
        self._answered = Answered(latency, clock)
        self._done: Any = self.applied if outcome is None else self._applied_and_logged(outcome)  # made once
        self.use_wire(NARROW)
        self.use_operations(operations)

    def use_wire(self, wire: Wire) -> None:
        """Set how requests and replies are wrapped, before the first one comes."""
        self._frame = wire.frame
        self._header = wire.header
        self._body = wire.body

    def use_operations(self, operations: Operations) -> None:
        """Set what may be asked for, before the first request comes."""
        self._reads = operations.reads
        self._writes = operations.writes
        self._long_reads = operations.long_reads
        self._light = {opcode: read for opcode, read in self._reads.items() if opcode not in _ALONE}

    def require_authentication(self, is_authenticated: Callable[[], bool]) -> None:
        """Accept only authentication until `is_authenticated` says that the client may be served."""
        self._is_authenticated = is_authenticated

    @property
    def _is_negotiating(self) -> bool:
        return self._negotiating is not None

    @property
    def wants_pause(self) -> bool:
        """Whether too much waits here to read more from the client."""
        return self.count >= _MAX_QUEUE or self.size >= _MAX_QUEUED_BYTES

    @property
    def has_room(self) -> bool:
        """Whether a client that was not read from because of `wants_pause` may be read from again."""
        return self.count <= _MAX_QUEUE // 2 and self.size < _MAX_QUEUED_BYTES

    def waiting(self, most: int) -> list[Waiting]:
        """The first requests of the queue, for operators; a run of reads counts as one."""
        found = []
        for item in islice(self._queue, most):
            if type(item) is Write:
                found.append(Waiting(item.opcode, path_of(item.fields), item.zxid == UNKNOWN, item.received))
            elif not isinstance(item, Refused):
                found.append(Waiting(item.opcode, None, False, item.received))
        return found

    # -- taking requests -----------------------------------------------------------------------------------

    def receive(self, frames: list[bytes], received: int) -> None:
        """Take the requests of a chunk that came at `received`; reads that need not wait are answered."""
        if self._is_authenticated is not None:
            self._receive_unauthenticated(frames, received)
            return
        if self._queue or self.writing_paused or self._negotiating is not None:
            self._enqueue(frames, 0, received)
            return
        out = self.out
        if not out:
            self._unsent = 0
        header = self._header
        light = self._light
        body = self._body
        frame_of = self._frame
        reading = self._reading
        owner = self._owner
        zxid = self._machine.zxid  # nothing is applied while these frames are handled
        # Reads mostly come in runs of one opcode: to count runs takes next to nothing of a read's time.
        runs: list[tuple[int, int]] = []
        run = first = xid = 0
        operation: ReadOperation | None = None
        for place, packet in enumerate(frames):
            if len(packet) < body:
                if operation is not None and place > first:
                    runs.append((run, place - first))
                first = len(frames)
                self._enqueue(frames, place, received)  # which ends the connection
                break
            xid, opcode = header(packet)
            if opcode != run:
                if operation is not None and place > first:
                    runs.append((run, place - first))
                run = opcode
                first = place
                operation = light.get(opcode)
            if operation is not None:
                try:
                    reply = frame_of(xid, zxid, 0, operation(reading, owner, packet, body))
                except (Refusal, MalformedPacket) as error:
                    reply = self._refusal(xid, error)
                except Laborious:
                    if place > first:
                        runs.append((run, place - first))
                    first = len(frames)
                    self._start_long_read(xid, opcode, packet, received)
                    self._enqueue(frames, place + 1, received)
                    break
                out.append(reply)
                if len(reply) > _LARGE_REPLY:
                    self._unsent += len(reply)
                    if self._unsent > _MAX_UNSENT and place + 1 < len(frames):
                        runs.append((run, place + 1 - first))
                        first = len(frames)
                        self.wants_advance = True
                        self._enqueue(frames, place + 1, received)
                        break
            elif opcode in self._writes:
                first = len(frames)
                self._enqueue(frames, place, received)
                break
            else:
                first = place + 1
                if self._take_single(xid, opcode, packet, received):
                    first = len(frames)
                    self._enqueue(frames, place + 1, received)
                    break
                if self.ended:
                    first = len(frames)
                    break
        count = len(frames) - first
        if count:
            now = self._clock()
            self._latency.note(run, count, xid, self._machine.zxid, received, now)
            if runs:
                self._latency.note_earlier(runs, now - received)
        elif runs:
            self._answered.note_runs(runs, received, zxid)

    def _receive_unauthenticated(self, frames: list[bytes], received: int) -> None:
        """Take what a client sends that is not authenticated yet (AuthenticationHelper)."""
        kept = self._unauthenticated
        kept += frames
        self.count += len(frames)
        self.size += sum(map(len, frames))
        while kept and not (self._queue or self.wants_advance or self.ended or self._negotiating is not None):
            if self._is_authenticated is not None and self._is_authenticated():
                self._is_authenticated = None
                rest = list(kept)
                kept.clear()
                self.count -= len(rest)
                self.size -= sum(map(len, rest))
                self.receive(rest, received)
                return
            packet = kept.popleft()
            self.count -= 1
            self.size -= len(packet)
            xid, opcode = self._header(packet) if len(packet) >= self._body else (0, 0)
            if len(packet) < self._body or opcode in (OpCode.AUTH, OpCode.SASL):
                self._enqueue([packet], 0, received)
            else:
                log.info("closing %s: it has to authenticate first", self._owner.address)
                self.out.append(self._frame(xid, 0, ErrorCode.SESSION_CLOSED_REQUIRE_SASL_AUTH))
                self.ended = True
        if self.ended:
            self._drop()

    def _enqueue(self, frames: list[bytes], place: int, received: int) -> None:
        """Take the requests from that place on: writes, and what has to wait."""
        header = self._header
        light = self._light
        writes = self._writes
        body = self._body
        queue = self._queue
        limit = 0 if self.writing_paused else _MAX_AHEAD
        run: Reads | None = None
        for packet in frames[place:] if place else frames:
            length = len(packet)
            if length < body:
                log.info("closing %s: a packet without a whole header", self._owner.address)
                self.ended = True
                break
            xid, opcode = header(packet)
            operation = light.get(opcode)
            if operation is not None:
                if run is None or run.opcode != opcode:
                    run = Reads(opcode, operation, received)
                    queue.append(run)
                run.calls.append((xid, packet))
                self._weight_ahead += 1 if self._in_log else _BLOCKED
                self.count += 1
                self.size += length
                continue
            run = None
            if opcode in writes:
                if self._weight_ahead <= limit:
                    item = self._write(xid, opcode, packet, received)
                    if type(item) is Refused and not queue:
                        self.out.append(self._frame(xid, self._machine.zxid, item.code))
                        continue
                    queue.append(item)
                else:
                    queue.append(Held(xid, opcode, packet, received))
                    self._weight_ahead = _BLOCKED
                self.count += 1
                self.size += length
            elif not self._take_single(xid, opcode, packet, received) and self.ended:
                return
        if queue and not (self._in_log or self.writing_paused or self.wants_advance or self.ended):
            self.advance()

    def _take_single(self, xid: int, opcode: int, packet: bytes, received: int) -> bool:
        """Take a laborious read or what concerns the connection; whether it has to wait."""
        queue = self._queue
        if (
            queue
            or self.writing_paused
            or self.wants_advance
            or self._negotiating is not None
            or self._clock() - received > _AT_A_STRETCH
        ):
            if not queue and not self.writing_paused and self._negotiating is None:
                self.wants_advance = True
            item = Single(xid, opcode, packet, received)
            queue.append(item)
            self._weight_ahead += self._weight(item)
            self.count += 1
            self.size += len(packet)
            return True
        self._answer_single(xid, opcode, packet, received)
        return self._in_long_read or self._negotiating is not None

    def _weight(self, item: Single) -> int:
        """What a single request weighs for a write behind it."""
        if not self._in_log:
            return _BLOCKED
        if item.opcode in self._reads:
            return _LABORIOUS_WEIGHT
        # A failed proof of identity ends the connection, and so does an unknown request.
        return 1 if item.opcode == _PING else _BLOCKED

    def _write(self, xid: int, opcode: int, packet: bytes, received: int) -> Write | Refused:
        """Send a write to the log, unless it cannot be read."""
        operation = self._writes[opcode]
        fields = None
        try:
            # A very long one is decoded only when it is applied, in pieces.
            if operation.decoding is None or len(packet) <= AT_ONCE_BYTES:
                fields, _ = operation.decode(packet, self._body)
        except MalformedPacket as error:
            if is_refused_at_once(opcode, error, packet, self._body):
                return Refused(xid, code_of(opcode, error), len(packet))
            # Otherwise the state machine finds the same error.
        owner = self._owner
        write = Write(
            owner.session_id,
            opcode,
            owner.identities,
            packet[self._body :],
            self._done,
            fields,
            xid,
            len(packet),
            received,
        )
        self.to_append.append(write)
        self._in_log += 1
        self._weight_ahead = 0
        return write

    def _write_held(self) -> None:
        """Send the write at the head of the queue to the log, and those behind it that need not wait."""
        queue = self._queue
        limit = 0 if self.writing_paused else _MAX_AHEAD
        self._weight_ahead = 0
        for place in range(len(queue)):
            item = queue[place]
            if type(item) is Held:
                if self._weight_ahead > limit:
                    self._weight_ahead = _BLOCKED
                    return
                queue[place] = self._write(item.xid, item.opcode, item.packet, item.received)
            elif type(item) is Reads:
                self._weight_ahead += len(item.calls) if self._in_log else _BLOCKED
            elif type(item) is Single:
                self._weight_ahead += self._weight(item)

    def stop(self) -> None:
        """Answer nothing more: the connection is gone. Writes that wait go to the log.

        They are in ZooKeeper's pipeline at this point too. Reads that wait are dropped: nobody would remove
        their watches.
        """
        left = [item for item in self._queue if type(item) is Held or type(item) is Single]
        if self._negotiating is not None:
            left.clear()  # who asks is not known
        self._drop()
        for item in left:
            if type(item) is Held:
                self._write(item.xid, item.opcode, item.packet, item.received)
            elif item.opcode == OpCode.AUTH:
                if not self._owner.prove(item.packet):
                    break  # ZooKeeper closes after a failed auth: what follows is ignored
            elif item.opcode == OpCode.SASL:
                token = sasl_token(item.packet, self._body)
                answer = None if token is None else self._owner.negotiate(token)
                if answer is None or answer.err:
                    break
            elif item.opcode not in self._reads and item.opcode != _PING:
                break  # and what follows an unknown request
        self._in_log = 0

    def _drop(self) -> None:
        """Answer nothing more, and forget what waits."""
        self.ended = True
        self.wants_advance = False
        self._in_long_read = False
        self._long_read = None
        self._negotiating = None
        self._queue.clear()
        self._unauthenticated.clear()
        self._in_log = self.count = self.size = 0

    def let_go(self) -> None:
        """The connection is gone, after `stop`: what is left here refers to it only weakly.

        So both are freed when the last outcome is here. The garbage collector would never find those that
        have lived for long (proxy.__main__.collect_rarely).
        """
        self._owner = weakref.proxy(self._owner)
        self._done = self._is_authenticated = None
        self._request_flush = self._begin_long_read = _nothing

    # -- answering -----------------------------------------------------------------------------------------

    def applied(self, write: Write, zxid: int, err: int, body: bytes) -> None:
        """The log reports the outcome of a write: mostly of that at the head of the queue."""
        answered = self._answered
        if write.received != answered.received:
            answered.note(self._machine.zxid)
            answered.received = write.received
        opcode = answered.opcode = write.opcode
        counts = answered.counts
        counts[opcode] = counts.get(opcode, 0) + 1
        answered.xid = write.xid
        if not self.in_flush_queue:
            self.in_flush_queue = True
            self._request_flush()
        queue = self._queue
        if not queue:
            return
        if queue[0] is not write:
            # Refused before it got into the log: its reply waits for its turn.
            write.zxid = zxid
            write.err = err
            write.reply = body
            return
        queue.popleft()
        if err or opcode == _CLOSE_SESSION:
            self._answer_last(write, zxid, err, body)
        else:
            self._in_log -= 1
            self.count -= 1
            self.size -= write.size
            self.out.append(self._frame(write.xid, zxid, 0, body))
        if queue:
            head = queue[0]
            if type(head) is not Write or head.zxid != UNKNOWN:
                self.advance()
        else:
            self._weight_ahead = 0

    def _applied_and_logged(
        self, outcome: Callable[[Write, int, bytes], None]
    ) -> Callable[[Write, int, int, bytes], None]:
        """As `applied`, for a server that keeps logs of requests."""

        def applied_and_logged(write: Write, zxid: int, err: int, body: bytes) -> None:
            self.applied(write, zxid, err, body)
            outcome(write, err, body)

        return applied_and_logged

    def _answer_last(self, write: Write, zxid: int, err: int, body: bytes) -> None:
        """Answer a write whose outcome may be the last reply of the connection."""
        self._in_log -= 1
        self.count -= 1
        self.size -= write.size
        if err in _CLOSED_WITHOUT_REPLY:
            log.info("closing %s: the outcome of its write: %s", self._owner.address, ErrorCode(err).name)
            self._drop()
            return
        self.out.append(self._frame(write.xid, zxid, err, body))
        # A session's end is the last thing that ZooKeeper sends. One that could not be ended goes on.
        if err == _SESSION_EXPIRED or (write.opcode == _CLOSE_SESSION and not err):
            self._drop()

    def advance(self) -> None:
        """Answer from the head of the queue as far as the client reads; send the next writes to the log."""
        self.wants_advance = False
        if self._in_long_read:
            return  # `read_on` calls again
        if self._negotiating is not None:
            return
        queue = self._queue
        if not self.out and not self.writing_paused:
            self._unsent = 0
        began = 0  # when the first laborious read began
        while queue:
            item = queue[0]
            if type(item) is Write:
                if item.zxid == UNKNOWN:
                    break  # its outcome will call again
                queue.popleft()
                self._answer_last(item, item.zxid, item.err, item.reply)
            elif type(item) is Reads:
                if not self._answer_run(item):
                    break
            elif type(item) is Refused:
                queue.popleft()
                self.count -= 1
                self.size -= item.size
                self.out.append(self._frame(item.xid, self._machine.zxid, item.code))
            elif type(item) is Held:
                self._write_held()
            else:
                assert type(item) is Single
                if not self._in_log:
                    if self.writing_paused:
                        break
                    if item.opcode in _LABORIOUS:
                        now = self._clock()
                        began = began or now
                        if now - began > _AT_A_STRETCH or self._unsent > _MAX_UNSENT:
                            self.wants_advance = True
                            break
                queue.popleft()
                self.count -= 1
                self.size -= len(item.packet)
                self._answer_single(item.xid, item.opcode, item.packet, item.received)
                if self._is_reading_long():
                    return
                if self.ended:  # after a failed auth or an unknown request: what follows is ignored
                    self._drop()
                elif self._is_negotiating:
                    return
                elif self._in_log and self._unsent > _MAX_FORCED:
                    self._close_unread()
        if not queue:
            self._weight_ahead = 0
            if self._unauthenticated:
                self._receive_unauthenticated([], self._clock())
        elif not self._in_log:
            self._weight_ahead = _BLOCKED

    def _answer_run(self, run: Reads) -> bool:
        """Answer the reads at the head of the queue; whether all of them are answered.

        With a write behind them in the log they have to be answered now, whether or not the client reads.
        """
        if self._in_log:
            limit = _MAX_FORCED
        elif self.writing_paused:
            return False
        else:
            limit = _MAX_UNSENT
        zxid = self._machine.zxid
        out = self.out
        body = self._body
        frame = self._frame
        operation = run.operation
        reading = self._reading
        owner = self._owner
        calls = run.calls
        answered = len(calls)
        laborious: bytes | None = None
        xid = 0
        for xid, packet in calls:
            try:
                reply = frame(xid, zxid, 0, operation(reading, owner, packet, body))
            except (Refusal, MalformedPacket) as error:
                reply = self._refusal(xid, error)
            except Laborious:
                answered = next(place for place, call in enumerate(calls) if call[1] is packet)
                laborious = packet
                break
            out.append(reply)
            if len(reply) > _LARGE_REPLY:
                self._unsent += len(reply)
                if self._unsent > limit:
                    answered = 1 + next(place for place, call in enumerate(calls) if call[1] is packet)
                    break
        self.count -= answered
        self.size -= sum([len(packet) for _, packet in calls[:answered]])
        noted = self._answered
        if run.received != noted.received:
            noted.note(zxid)
            noted.received = run.received
        opcode = noted.opcode = run.opcode
        noted.counts[opcode] = noted.counts.get(opcode, 0) + answered
        noted.xid = xid
        if not self.in_flush_queue:
            self.in_flush_queue = True
            self._request_flush()
        if laborious is not None:
            del calls[: answered + 1]
            if not calls:
                self._queue.popleft()
            self.count -= 1
            self.size -= len(laborious)
            self._start_long_read(xid, opcode, laborious, run.received)
            return False
        if self._in_log and self._unsent > limit:
            self._close_unread()
            return False
        if answered == len(calls):
            self._queue.popleft()
            return True
        del calls[:answered]
        self.wants_advance = True
        return False

    def event(self, packet: bytes) -> None:
        """A watch event for the client. One that does not read does not get events without end."""
        if self.writing_paused:
            if self.ended:
                return
            self._unsent += len(packet)
            if self._unsent > _MAX_FORCED:
                self._close_unread()
                return
        self.out.append(packet)

    def _close_unread(self) -> None:
        """Close: too many bytes wait for a client that does not read them."""
        log.warning(
            "closing %s: more than %d bytes of replies and events wait for the client to read them",
            self._owner.address,
            _MAX_FORCED,
        )
        self.stop()

    def _answer_single(self, xid: int, opcode: int, packet: bytes, received: int) -> None:
        """Answer a single read, or what concerns the connection alone, whose turn it is."""
        operation = self._reads.get(opcode)
        if operation is None:
            self._answer_of_connection(xid, opcode, packet)
            return
        zxid = self._machine.zxid
        self._answered.note(self._machine.zxid)
        try:
            reply = self._frame(xid, zxid, 0, operation(self._reading, self._owner, packet, self._body))
        except (Refusal, MalformedPacket) as error:
            reply = self._refusal(xid, error)
        except Laborious:
            self._start_long_read(xid, opcode, packet, received)
            return
        self._answered_read(xid, opcode, received, reply)

    def _answered_read(self, xid: int, opcode: int, received: int, reply: bytes) -> None:
        self._latency.note(opcode, 1, xid, self._machine.zxid, received, self._clock())
        self.out.append(reply)
        if len(reply) > _LARGE_REPLY:
            self._unsent += len(reply)

    def _start_long_read(self, xid: int, opcode: int, packet: bytes, received: int) -> None:
        """A read whose turn it is takes long: let it be answered in pieces, with all else behind it."""
        self._queue.appendleft(Single(xid, opcode, packet, received))
        self.count += 1
        self.size += len(packet)
        self._in_long_read = True
        if not self._in_log:
            self._weight_ahead = _BLOCKED
        self._begin_long_read(self._in_log > 0)

    def _is_reading_long(self) -> bool:
        return self._in_long_read

    def read_on(self, is_over: Callable[[], bool]) -> bool:
        """Go on with the long read until it is over; whether that is answered, or not wanted any more."""
        if not self._in_long_read:
            return True
        item = self._queue[0]
        assert type(item) is Single
        xid, opcode, packet, received = item
        reply = b""
        if self._long_read is None:
            self._answered.note(self._machine.zxid)
            self._long_read = self._long_reads[opcode](self._reading, self._owner, packet, self._body)
        try:
            while True:
                next(self._long_read)
                if is_over():
                    return False
        except StopIteration as end:
            reply = self._frame(xid, self._machine.zxid, 0, end.value)
        except (Refusal, MalformedPacket) as error:
            reply = self._refusal(xid, error)
        except Exception:
            self._drop()
            self._request_flush()
            raise
        self._in_long_read = False
        self._long_read = None
        self._queue.popleft()
        self.count -= 1
        self.size -= len(packet)
        self._answered_read(xid, opcode, received, reply)
        if not self.in_flush_queue:
            self.in_flush_queue = True
            self._request_flush()
        if self._in_log and self._unsent > _MAX_FORCED:
            self._close_unread()
        else:
            self.advance()
        return True

    def goes_on_beside(self, frames: list[bytes], changing: Collection[str] | None) -> bool:
        """Whether these requests can be taken while a write is applied in part that changes these nodes.

        None for everything: nothing can be answered.
        """
        if self._queue:
            return self._in_log > 0  # they wait for their turn, which comes when a write is applied
        if changing is None:
            return False
        for packet in frames:
            if len(packet) < self._body:
                return False
            _, opcode = self._header(packet)
            if opcode in self._writes:
                return True  # what is behind it waits for it
            if opcode == _PING:
                continue
            if opcode not in _OF_ONE_NODE or opcode not in self._light:
                return False
            try:
                path, _ = decode_path_watch(packet, self._body)
            except MalformedPacket:
                return False
            if path in changing or not path or path.startswith(ZOOKEEPER):
                return False  # the nodes of quotas change without being named
        return True

    def _answer_of_connection(self, xid: int, opcode: int, packet: bytes) -> None:
        """Answer a request that concerns the connection alone."""
        if opcode == _PING:
            self._answered.note(self._machine.zxid)
            now = self._clock()
            self._latency.note(opcode, 1, Xid.PING, self._machine.zxid, now, now)
            self.out.append(self._frame(Xid.PING, self._machine.zxid, 0))
        elif opcode == OpCode.AUTH:
            proven = self._owner.prove(packet)
            if proven is not None:
                self.out.append(self._frame(xid, 0, ErrorCode.OK if proven else ErrorCode.AUTH_FAILED))
            self.ended = self.ended or not proven
        elif opcode == OpCode.SASL:
            token = sasl_token(packet, self._body)
            answer = None if token is None else self._owner.negotiate(token)
            if answer is not None:
                self._answer_sasl(xid, answer)
            elif token is None:
                log.info("closing %s: a SASL packet without a token", self._owner.address)
                self.ended = True
            else:
                self._negotiating = xid
                self._weight_ahead = _BLOCKED
                self.count += 1
        else:
            log.info("closing %s: operation %d is not offered", self._owner.address, opcode)
            self.ended = True
            # ZooKeeper's request has no zxid yet.
            self.out.append(self._frame(xid, -1, ErrorCode.UNIMPLEMENTED))

    def negotiated(self, answer: SaslAnswer) -> None:
        """The answer to a token is here: send it, and go on with what has come meanwhile."""
        xid, self._negotiating = self._negotiating, None
        if xid is None or self.ended:
            return
        self.count -= 1
        self._answer_sasl(xid, answer)
        if answer.err:
            self._drop()
        else:
            self.advance()

    def _answer_sasl(self, xid: int, answer: SaslAnswer) -> None:
        """As ZooKeeperServer.processSasl does, which ends the connection after a failure."""
        if answer.is_sent:
            self.out.append(self._frame(xid, 0, answer.err, pack_buffer(answer.token)))
        self.ended = self.ended or bool(answer.err)

    def _refusal(self, xid: int, error: Refusal | MalformedPacket) -> bytes:
        zxid = self._machine.zxid
        if isinstance(error, Refusal):
            return self._frame(xid, zxid, error.code, error.body)
        return self._frame(xid, zxid, ErrorCode.MARSHALLING_ERROR)

    def writing_resumed(self) -> None:
        """The client reads its replies again."""
        self.writing_paused = False
        self._unsent = 0
        self.advance()

    # -- what is noted -------------------------------------------------------------------------------------

    def before_flush(self) -> None:
        """Note the last outcomes; the next one requests a flush again. What is in `out` is sent next."""
        self.in_flush_queue = False
        if not self.writing_paused:
            self._unsent = 0
        if self._answered.counts:  # not for one that only had watch events: there may be very many
            self._answered.note(self._machine.zxid)


def _nothing(*_: object) -> None:
    """There is nobody any more to tell it."""


def sasl_token(packet: bytes, body: int) -> bytes | None:
    """The token of a sasl packet; None if it is null or cut short, at which ZooKeeper closes."""
    try:
        return Reader(packet, body).buffer()
    except MalformedPacket:
        return None
