"""The order of one connection's requests and replies.

Pure: no event loop, no transport, no log. Frames go in by `receive`, outcomes of writes by `answer_write`,
watch events by `add_events`. All that the connection has to do comes out of `take_ready`.

The rules:

1. Requests are answered in the order in which they were received, pings too. Those that wait are in one
   queue (`_enqueue`), whose head is answered next (`requests` has a class for each kind).
2. Writes are sent to the log at once, also while earlier requests wait. Three things stop a write: a request
   before it that may end the connection or change who the client is, many or heavy reads before it
   (`Limits.ahead`), and any requests before it while the client does not read. Then it is `Held`.
3. A read after a write is answered inside `answer_write` of that write, before the log applies the next
   request: it sees exactly the state between the two writes around it. While no request waits, reads are
   answered at once.
4. Requests between two writes that are in the log cannot wait: they are answered even if the client does not
   read. If their replies become too many, the connection is closed.
5. All other requests wait while the client does not read. Heavy reads and large replies leave time for other
   clients: the rest is answered by `advance` in another turn of the loop.
6. A read that takes long is answered in slices, and all after it waits (`AwaitedRead`). If a write after
   it is in the log, the log applies nothing before the read is answered. So a write is `Held` behind reads
   that will take long, as far as the state of now shows it (`ReadOperation.steps`). Else the log may go on
   before the reply is made: what it then changes is not in the reply, so its watch events come after it.
7. If the server demands it, a client first has to prove an identity: `Unproven` keeps its packets.
8. After the reply that ends the connection nothing is answered. If the connection is lost before that, held
   writes are sent to the log: ZooKeeper would have them in its pipeline.
9. A watch event waits for no request but a slow read (6). The log applies a write, and has its events sent
   before any reply or read that shows the new state: a client learns of a change before it sees it
   (DataTree.processTxn fires watches before FinalRequestProcessor answers).

How it ends, always after the packets that are ready:

end       no frame is processed any more; the queue is kept for `stop`
stop      the same, and the queue is emptied: its held writes go to the log. The connection is closed or lost
_drop     the same, but no held write goes to the log, since the client has its last reply
release   after `stop`: the order does not keep the connection in memory

Read `Ready`, then `Order.receive`, `answer_write` and `advance`; the rest is what these three call.
"""

import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple

from codec.constants import ErrorCode, OpCode, Xid
from codec.errors import MalformedPacket
from codec.jute import Reader, pack_buffer
from codec.named import new_tuple
from proxy.frontend.authentication import Authentication, AuthEntries, SaslAnswer, Unproven
from proxy.frontend.client_info import ClientInfo
from proxy.frontend.life import TRANSITIONS, Life, LifeEvent
from proxy.frontend.limits import LIMITS, Limits
from proxy.frontend.observer import Answer, Observer
from proxy.frontend.replies import Replies
from proxy.frontend.requests import (
    BLOCKING,
    UNKNOWN,
    AwaitedRead,
    AwaitedToken,
    Held,
    ReadRun,
    Refused,
    RequestQueue,
    Single,
    Waiting,
    Write,
)
from proxy.log.append.pending import Callback
from proxy.state.effect import path_of
from proxy.state.machine import Machine
from proxy.state.operation import AnswerRead, Client, Operations, Reading, Sees, WriteOperation
from proxy.state.ops.steps import MANY
from proxy.state.ops.unreadable import code_of, spends_zxid
from proxy.state.outcome import Refusal
from proxy.state.pause import BRIEFLY, NO_PAUSE, Pause, TooLong, TooMuch

# Not the opcode of any packet, whose opcodes have 32 bits: clients may send any of these, 0 too.
_NO_OPCODE = 1 << 32
# Outcomes that ZooKeeper does not report: it closes the connection (FinalRequestProcessor).
_CLOSED_WITHOUT_REPLY = frozenset((ErrorCode.SESSION_MOVED, ErrorCode.CONNECTION_LOSS))

# Plain names: looking up an enum's member costs more than the comparison.
_CLOSED = Life.CLOSED
_CLOSE_SESSION = int(OpCode.CLOSE_SESSION)
_PING = int(OpCode.PING)
_SESSION_EXPIRED = int(ErrorCode.SESSION_EXPIRED)
_THROTTLED_OP = int(ErrorCode.THROTTLED_OP)
_SYSTEM_ERROR = int(ErrorCode.SYSTEM_ERROR)


class SlowRead(NamedTuple):
    """A read that takes long: `Order.answer_slow_read` answers it in slices."""

    is_urgent: bool  # from the current state: no entry is applied until it is answered, whatever it sees
    sees: Sees = Sees.ONE_STATE


class Closing(NamedTuple):
    """The end of a connection."""

    why: str = ""  # for the log; "" if there is nothing to say
    is_warned: bool = False  # an operator should know


_OF_ITSELF = Closing()


class Ready(NamedTuple):
    """What the connection has to do, in the order of these fields."""

    requests: Sequence[Write] = ()  # for the log
    slow_read: SlowRead | None = None
    packets: Sequence[bytes] = ()  # for the client
    close: Closing | None = None  # the connection, after the packets
    again: bool = False  # call `advance` in another turn of the loop


NOTHING = Ready()
"""Not made each time."""


class OrderContext(NamedTuple):
    """What the orders of all connections of a server work with."""

    machine: Machine
    reading: Reading
    operations: Operations
    #: A client first has to prove an identity of one of these schemes; empty: of none.
    schemes: frozenset[str] = frozenset()
    limits: Limits = LIMITS


class Order:
    """The requests of one client, until they are answered."""

    # Many attributes: what each request needs is found without a second look-up.

    def __init__(
        self,
        client: Client,
        info: ClientInfo,
        authentication: Authentication,
        take_outcome: Callback,
        context: OrderContext,
        observer: Observer,
    ) -> None:
        """`client`: whose watches reads set. `take_outcome` gets the outcomes of writes."""
        self._client = client
        self._info = info
        self._authentication = authentication
        self._take_outcome = take_outcome
        self._machine = context.machine
        self._reading = context.reading
        self._observer = observer
        self._counted = observer.counts  # asks without a call whether there is something to `note`
        self._limits = context.limits
        self._auth_entries = AuthEntries(context.limits.expanded, context.limits.expanded_per_byte)
        self.queue = RequestQueue()
        self.replies = Replies(context.machine, context.limits)
        schemes = context.schemes
        self._unproven = Unproven(info, schemes, self.queue) if schemes else None
        self.life = Life.OPENING
        self._requests: list[Write] = []  # these are for the next `Ready`, together with the packets
        self._events: list[bytes] | None = None  # during a slow read: those that come after its reply
        self._closing: Closing | None = None
        self._slow_read: SlowRead | None = None  # for the next `Ready`
        self._again = False  # call `advance` in another turn of the loop
        self.use_operations(context.operations)

    def use_operations(self, operations: Operations) -> None:
        """Set the supported operations, before the first request is received."""
        self._writes: dict[int, WriteOperation] = operations.writes
        self._operations = operations
        self._reads = self._observer.traced(operations.answers)
        self._light = self._observer.traced(operations.light)
        self._short = operations.short

    # -- what goes in --------------------------------------------------------------------------------------

    def receive(self, frames: list[bytes], received: int) -> None:
        """Process the requests of a chunk received at that time; reads that need not wait are answered."""
        if self._unproven is not None:
            self._unproven.add(frames, received)
            self._take_unproven(self._unproven)
            return
        replies = self.replies
        answered = 0
        if not (self.queue.items or replies.is_paused):
            limit = self._limits.owed
            answered = self._answer_run(frames, received, limit, at_once=True)
            if answered == len(frames):
                return
            self._again = replies.owed > limit
        if frames:
            self._enqueue(frames[answered:] if answered else frames, received)

    def answer_write(self, write: Write, zxid: int, err: int, body: bytes) -> bool:
        """Process the outcome of a write; it is most often the one at the head of the queue.

        Many outcomes come in one turn, and `take_ready` may wait for its end. Returns True if it may not: a
        slow read has to be answered before the log is applied any further.
        """
        opcode = write.opcode
        self._observer.count(opcode, 1, write.xid, write.received)
        if err:
            self._observer.note_refused(opcode)
        queue = self.queue
        items = queue.items
        if not items:
            return False
        head = items[0]
        if head is not write:
            # A slow read is ahead, and the log, which applies nothing then, has refused the write.
            write.zxid = zxid
            write.err = err
            write.reply = body
            return self._slow_read is not None
        queue.pop_write(write)
        if err or opcode == _CLOSE_SESSION:
            self._answer_last(write, zxid, err, body)
        else:
            replies = self.replies
            replies.packets.append(replies.wire.frame(write.xid, zxid, 0, body))
        if items:
            following = items[0]
            if not isinstance(following, Write) or following.zxid != UNKNOWN:
                self.advance()
        return self._slow_read is not None

    def negotiated(self, answer: SaslAnswer) -> None:
        """Send the answer to a token. `advance` continues with requests received meanwhile."""
        items = self.queue.items
        if items and isinstance(head := items[0], AwaitedToken):
            self.queue.pop(len(head.packet))
            self._answer_sasl(head, answer)
            if answer.err:
                self._drop()
            else:
                self._again = True

    def answer_slow_read(self, pause: Pause) -> None:
        """Answer the slow read at the head of the queue, and the requests after it."""
        head = self.queue.items[0]
        assert isinstance(head, AwaitedRead)
        self._observer.note()
        if self._operations.reads[head.opcode].sees is not Sees.PIECES:
            self._events = []
        try:
            self._answer_read(head, pause)
        except Exception:
            self._drop()
            raise
        self.replies.packets += self._events or ()
        self._events = None
        self.queue.pop(len(head.packet))
        if self.queue.in_log and self.replies.are_too_many:
            self._close_unread()
        else:
            self.advance()

    def add_events(self, packets: Sequence[bytes]) -> int:
        """Add watch events; returns how many will be sent.

        Closes the connection if too many wait for a client that does not read.
        """
        if self.is_closed:
            return 0
        replies = self.replies
        if replies.is_paused or self._events is not None:
            replies.owed += sum(map(len, packets))
            if replies.are_too_many:
                self._close_unread()
                return 0
        if self._events is None:
            replies.packets += packets
        else:
            self._events += packets
        return len(packets)

    def add_packet(self, packet: bytes) -> None:
        """Add a packet that answers no request, after the replies so far."""
        self.replies.packets.append(packet)

    def end(self, closing: Closing = _OF_ITSELF) -> None:
        """Process no more frames, and close after the packets so far."""
        self._closing = self._closing or closing
        self.live_through(LifeEvent.END)

    def live_through(self, event: LifeEvent) -> None:
        """Change the state of the connection, which is here since nothing is answered once it is closed."""
        self.life = TRANSITIONS[self.life][event]

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is answered, and the connection closes after the last packet."""
        return self.life is _CLOSED

    def stop(self, closing: Closing = _OF_ITSELF) -> None:
        """Answer no more requests: the connection is closed. Waiting writes are sent to the log.

        At this point they would be in ZooKeeper's pipeline too. Reads that wait are dropped: their watches
        would never be removed.
        """
        items = list(self.queue.items)
        self._drop(closing)
        if items and isinstance(items[0], AwaitedToken):
            return  # the client has not authenticated yet
        made = 0
        for item in items:
            if isinstance(item, Held):
                self._make_write(*item, made)
                made += len(item.packet)
            elif isinstance(item, Single) and not (item.opcode in self._reads or self._try_to_pass(item)):
                break

    def release(self) -> None:
        """The connection is closed: from now on, refer to it only weakly. Called after `stop`.

        So both are freed when the last outcome has arrived. The garbage collector would never find objects
        that have lived for long (serve.__main__.collect_rarely).
        """
        self._client = weakref.proxy(self._client)
        del self._authentication, self._take_outcome  # no request is processed any more

    # -- what comes out ------------------------------------------------------------------------------------

    def take_ready(self) -> Ready:
        """Everything that is ready, each thing once. The times of its requests end now."""
        replies = self.replies
        packets = replies.packets
        requests, slow_read, close = self._requests, self._slow_read, self._closing
        if self._counted:
            self._observer.note()
        if packets:
            replies.packets = []
            if not replies.is_paused:
                replies.owed = 0
        elif not (requests or slow_read or close or self._again):
            return NOTHING
        if requests:
            self._requests = []
        self._slow_read = None
        # Half the time of the class's own constructor, for what is made for each chunk of requests.
        return new_tuple(Ready, (requests or (), slow_read, packets or (), close, self._again))

    @property
    def is_idle(self) -> bool:
        """Whether no request waits, and nothing is ready."""
        return not (self.queue.count or self.replies.packets or self._again)

    @property
    def wants_slow_read(self) -> bool:
        """Whether a slow read has to be answered before other requests."""
        items = self.queue.items
        return bool(items) and isinstance(items[0], AwaitedRead)

    def waiting(self, most: int) -> list[Waiting]:
        """The first requests of the queue, for operators; a run of reads counts as one."""
        found = []
        for item in islice(self.queue.items, most):
            if isinstance(item, Write):
                found.append(Waiting(item.opcode, path_of(item.fields), item.zxid == UNKNOWN, item.received))
            elif isinstance(item, ReadRun):
                _, opcode = self.replies.wire.header(item.packets[0])
                found.append(Waiting(opcode, None, False, item.received))
            elif not isinstance(item, Refused):
                found.append(Waiting(item.opcode, None, False, item.received))
        return found

    # -- receiving -----------------------------------------------------------------------------------------

    def _take_unproven(self, kept: Unproven) -> None:
        """Process the packets of a client that is not authenticated yet."""
        began = self._observer.now()
        while kept and not (self.queue.items or self._again or self.is_closed):
            if kept.is_proven:
                self._unproven = None
                for received, chunk in groupby(kept.take_all(), itemgetter(1)):
                    if not self.is_closed:  # writes are held, since there may be very many
                        self._enqueue([packet for packet, _ in chunk], received, self._hold_write)
                return
            packet, received = kept.take()
            is_whole = len(packet) >= self.replies.wire.body
            xid, opcode = self.replies.wire.header(packet) if is_whole else (0, 0)
            if kept.may_send(opcode) or not is_whole:
                self._enqueue([packet], received)
                if self._observer.now() - began > self._limits.stretch and not self.is_closed:
                    self._again = True
            else:
                self.replies.add_at(0, xid, ErrorCode.SESSION_CLOSED_REQUIRE_SASL_AUTH)
                self.end(Closing("it has to authenticate first"))
        if self.is_closed:
            self._drop()

    def _enqueue(
        self,
        frames: Sequence[bytes],
        received: int,
        take_write: Callable[[int, int, bytes, int], None] | None = None,
    ) -> None:
        """Process requests of which the first is not a read that can be answered at once."""
        take_write = take_write or self._take_write
        wire = self.replies.wire
        body, header = wire.body, wire.header
        short, writes = self._short, self._writes
        queue = self.queue
        is_cut = False
        for packet in frames:
            if len(packet) < body:
                is_cut = True
                break
            xid, opcode = header(packet)
            if opcode in short:
                queue.add_read(packet, received)
            elif opcode in writes:
                take_write(xid, opcode, packet, received)
            else:
                # Above `ahead_in_all` writes are held whatever this read takes, and to count takes time.
                steps = MANY if queue.heavy > self._limits.ahead_in_all else self._steps(opcode, packet)
                if opcode in self._light and steps < self._limits.steps_per_weight:
                    queue.add_read(packet, received)
                else:
                    weight = self._weight(opcode, steps)
                    queue.add_single(Single(xid, opcode, packet, received, weight), self._limits.ahead_in_all)
        if queue.items and not (queue.in_log or self.replies.is_paused or self._again or self.is_closed):
            self._advance()
        if is_cut and not self.is_closed:
            self.end(Closing("a packet without a whole header"))

    def _steps(self, opcode: int, packet: bytes) -> int:
        """The steps that a read will take; 0 for other requests."""
        count = self._operations.reads[opcode].steps if opcode in self._reads else None
        if count is not None:
            with suppress(MalformedPacket):  # answered at once
                return count(self._reading, self._client, packet, self.replies.wire.body)
        return 0

    def _weight(self, opcode: int, steps: int) -> int:
        """The weight of a single request for a write after it."""
        if opcode in self._reads:
            return self._limits.heavy_weight + steps // self._limits.steps_per_weight
        # A failed authentication ends the connection, and so does an unknown request.
        return 1 if opcode == _PING else BLOCKING

    # -- writes on their way to the log --------------------------------------------------------------------

    def _take_write(self, xid: int, opcode: int, packet: bytes, received: int) -> None:
        """Process a write that was just received."""
        queue = self.queue
        ahead = 0 if self.replies.is_paused else self._limits.ahead
        if queue.items and not (queue.in_log and queue.weight <= ahead):
            self._hold_write(xid, opcode, packet, received)
            return
        write = self._make_write(xid, opcode, packet, received)
        if not isinstance(write, Refused):
            queue.add_write(write)
        elif queue.items:
            queue.add(write, write.size, 0)
        else:
            self.replies.add(xid, write.code)

    def _hold_write(self, xid: int, opcode: int, packet: bytes, received: int) -> None:
        """Put a write in the queue; `_send_held` sends it."""
        self.queue.add(Held(xid, opcode, packet, received), len(packet), BLOCKING)

    def _make_write(
        self, xid: int, opcode: int, packet: bytes, received: int, made: int = 0
    ) -> Write | Refused:
        """Make a write, which the next `Ready` has for the log, unless it cannot be decoded.

        `made`: bytes of the writes that were made at the same time. All share what is decoded at once.
        """
        operation = self._writes[opcode]
        position = self.replies.wire.body
        if operation.has_acl and self._auth_entries.are_too_much(packet, self._info.identities):
            return self._refused(xid, opcode, packet, received, ErrorCode.INVALID_ACL)
        fields = None
        try:
            is_long = operation.has_acl and made + len(packet) > self._limits.decoded_at_once
            fields, _ = operation.decode(packet, position, BRIEFLY if is_long else NO_PAUSE)
        except TooLong:
            pass  # it is decoded only when it is applied
        except MalformedPacket as error:
            if not spends_zxid(opcode, error):
                return self._refused(xid, opcode, packet, received, code_of(operation, error))
            # Otherwise the state machine finds the same error.
        write = Write(self._take_outcome, self._info, xid, opcode, packet, position, fields, received)
        self._requests.append(write)
        return write

    def _refused(self, xid: int, opcode: int, packet: bytes, received: int, code: ErrorCode) -> Refused:
        """Refuse a write before it is sent to the log."""
        if self._observer.is_needed:
            self._observer.answered(Held(xid, opcode, packet, received), Answer(code))
        return Refused(xid, code, len(packet))

    def _send_held(self) -> None:
        """Send the write at the head of the queue, and those after it that need not wait."""
        # No write overtakes requests whose replies wait for the client.
        ahead = 0 if self.replies.is_paused else self._limits.ahead
        self.queue.send_held(self._make_write, ahead, self._limits.ahead_in_all)

    # -- answering from the head of the queue --------------------------------------------------------------

    def advance(self) -> None:
        """Answer from the head of the queue while the client reads; send the next writes to the log."""
        self._advance()
        if self._unproven is not None and not self.queue.items:
            self._take_unproven(self._unproven)

    def _advance(self) -> None:
        """The same, but none of the packets of an unproven client."""
        self._again = False
        queue = self.queue
        items = queue.items
        began = 0  # when the first heavy read began
        while items:
            item = items[0]
            if isinstance(item, ReadRun):
                if not self._answer_reads(item):
                    break
            elif isinstance(item, Write):
                if item.zxid == UNKNOWN:
                    break  # its outcome will call again
                queue.pop_write(item)
                self._answer_last(item, item.zxid, item.err, item.reply)
            elif isinstance(item, Held):
                self._send_held()
            elif isinstance(item, Refused):
                queue.pop(item.size)
                self.replies.add(item.xid, item.code)
            elif not isinstance(item, Single):
                break  # a read or a token whose answer will call again
            else:
                if not queue.in_log:
                    if self.replies.is_paused:
                        break
                    if item.opcode in self._reads or item.opcode == OpCode.AUTH:
                        now = self._observer.now()
                        began = began or now
                        if now - began > self._limits.stretch or self.replies.owed > self._limits.owed:
                            self._again = True
                            break
                queue.pop_single(item)
                self._answer_single(item)

    def _answer_last(self, write: Write, zxid: int, err: int, body: bytes) -> None:
        """Answer a write whose reply may be the last one of the connection."""
        if err in _CLOSED_WITHOUT_REPLY:
            self._drop(Closing(f"the outcome of its write: {ErrorCode(err).name}"))
            return
        if err == _THROTTLED_OP and self._client.knows_keeper:
            # ClickHouse hangs at a code unknown to it, and at OPERATION_TIMEOUT opens session after session.
            err = _SYSTEM_ERROR
        self.replies.add_at(zxid, write.xid, err, body)
        # The reply to closeSession is the last packet that ZooKeeper sends. If it failed, the session
        # continues.
        if err == _SESSION_EXPIRED or (write.opcode == _CLOSE_SESSION and not err):
            self._drop()

    def _answer_reads(self, run: ReadRun) -> bool:
        """Answer the reads at the head of the queue; returns whether all of them are answered.

        If a write after them is in the log, they have to be answered now, even if the client does not read.
        """
        queue = self.queue
        replies = self.replies
        if not queue.in_log and replies.is_paused:
            return False
        limit = self._limits.forced if queue.in_log else self._limits.owed
        answered = self._answer_run(run.packets, run.received, limit, at_once=False)
        is_last = answered == len(run.packets)
        queue.pop_reads(run, answered)
        if queue.in_log and replies.are_too_many:
            self._close_unread()
        elif is_last:
            return True
        elif replies.owed > limit:
            self._again = True
        else:
            packet = run.packets[0]
            queue.pop_reads(run, 1)
            xid, opcode = replies.wire.header(packet)
            self._await_slow_read(AwaitedRead(xid, opcode, packet, run.received))
        return False

    def _answer_single(self, item: Single) -> None:
        """Answer a heavy read, or a request that concerns only the connection, at the head of the queue."""
        if item.opcode not in self._reads:
            self._answer_of_connection(item)
        else:
            try:
                self._answer_read(item)
            except TooLong:
                self._await_slow_read(AwaitedRead(*item[:4]))
        if self.is_closed:  # after a failed auth or an unknown request, later requests are ignored
            self._drop()
        elif self.queue.in_log and self.replies.are_too_many:
            self._close_unread()

    # -- reads ---------------------------------------------------------------------------------------------

    def _answer_run(self, packets: Sequence[bytes], received: int, limit: int, *, at_once: bool) -> int:
        """Answer light reads up to the first request of another kind; returns how many.

        It stops before a read that takes long, and when more than `limit` bytes of large replies are owed.
        `at_once`: they are sent now, and not with the replies to other requests of their chunk.

        This is the hot path of reads: a pipelined read takes about two microseconds, most of it here.
        """
        replies = self.replies
        _, body, header, frame, _ = replies.wire
        sent = replies.packets
        light = self._light
        large = self._limits.large_reply
        reading = self._reading
        client = self._client
        observer = self._observer
        zxid = self._machine.zxid  # nothing is applied meanwhile
        answered = first = 0
        run, xid = _NO_OPCODE, 0
        operation: AnswerRead | None = None
        for packet in packets:
            if len(packet) < body:
                break
            xid, opcode = header(packet)
            if opcode != run:
                following = light.get(opcode)
                if following is None:
                    break
                # Most often many reads have the same opcode: counting them together costs almost nothing.
                if answered > first:
                    observer.count(run, answered - first, xid, received)
                    first = answered
                run = opcode
                operation = following
            try:
                reply = frame(xid, zxid, 0, operation(reading, client, packet, body))  # type: ignore[misc]
            except (Refusal, MalformedPacket) as error:
                reply = replies.refusal(xid, zxid, error)
            except TooLong:
                break
            sent.append(reply)
            answered += 1
            if len(reply) > large:
                replies.owed += len(reply)
                if replies.owed > limit:
                    break
        if answered:
            if answered < len(packets):
                xid, _ = header(packets[answered - 1])
            if at_once:
                observer.note_run(run, answered - first, xid, received)
            else:
                observer.count(run, answered - first, xid, received)
        return answered

    def _answer_read(self, request: Single | AwaitedRead, pause: Pause | None = None) -> None:
        """Answer one read. Without a `pause` it must be short: else it raises TooLong, before any effect."""
        replies = self.replies
        reading = self._reading if pause is None else self._reading._replace(pause=pause)
        zxid = self._machine.zxid
        try:
            body = self._reads[request.opcode](reading, self._client, request.packet, replies.wire.body)
        except TooMuch as error:
            reply = replies.refusal(request.xid, zxid, Refusal(error.code))
        except (Refusal, MalformedPacket) as error:
            reply = replies.refusal(request.xid, zxid, error)
        else:
            # A slow read shows the state with which it began, unless it is done in pieces.
            shown = self._machine.zxid if self._events is None else zxid
            reply = replies.wire.frame(request.xid, shown, 0, body)
        self._observer.note_single(request.opcode, request.xid, request.received)
        replies.add_read(reply)

    def _await_slow_read(self, read: AwaitedRead) -> None:
        """A read that was at the head of the queue is slow: all other requests wait for its answer."""
        self.queue.await_head(read)
        sees = self._operations.reads[read.opcode].sees
        self._slow_read = SlowRead(is_urgent=self.queue.in_log > 0, sees=sees)

    # -- requests that concern only the connection: ping, auth, sasl, and unsupported ones -----------------

    def _answer_of_connection(self, request: Single) -> None:
        xid, opcode, packet, received, _ = request
        replies = self.replies
        if opcode == _PING:
            self._observer.note_ping()
            replies.add(Xid.PING, ErrorCode.OK)
        elif opcode == OpCode.AUTH:
            is_proven = self._authentication.prove(packet, replies.wire.body)
            err = ErrorCode.OK if is_proven else ErrorCode.AUTH_FAILED
            if is_proven is not None:
                # ZooKeeperServer.processPacket answers auth and SASL itself, with zxid 0.
                replies.add_at(0, xid, err)
            if not is_proven:
                self.end()
            self._report(request, err)
        elif opcode == OpCode.SASL:
            token = self._token(packet)
            if token is None:
                self.end(Closing("a SASL packet without a token"))
                self._report(request, ErrorCode.AUTH_FAILED)
            elif (answer := self._authentication.negotiate(token)) is not None:
                self._answer_sasl(request, answer)
            else:  # a thread makes the answer
                self.queue.await_head(AwaitedToken(xid, opcode, packet, received))
        else:
            self.end(Closing(f"operation {opcode} is not offered"))
            # In ZooKeeper the request has no zxid yet.
            replies.add_at(-1, xid, ErrorCode.UNIMPLEMENTED)
            self._report(request, ErrorCode.UNIMPLEMENTED)

    def _report(self, request: Single | AwaitedToken, err: int) -> None:
        if self._observer.is_needed:
            self._observer.answered(request, Answer(err))

    def _answer_sasl(self, request: Single | AwaitedToken, answer: SaslAnswer) -> None:
        """Answer as ZooKeeperServer.processSasl, which closes the connection after a failure."""
        if answer.is_sent:
            self.replies.add_at(0, request.xid, answer.err, pack_buffer(answer.token))
        if answer.err:
            self.end()
        self._report(request, answer.err)

    def _try_to_pass(self, request: Single) -> bool:
        """Process a request of a connection that is closed; returns whether writes after it take effect.

        ZooKeeper closes after a failed authentication and an unknown request, and ignores all later requests.
        """
        if request.opcode == OpCode.AUTH:
            return bool(self._authentication.prove(request.packet, self.replies.wire.body))
        if request.opcode == OpCode.SASL:
            token = self._token(request.packet)
            answer = None if token is None else self._authentication.negotiate(token)
            return answer is not None and not answer.err
        return request.opcode == _PING

    def _token(self, packet: bytes) -> bytes | None:
        """The token of a sasl packet; None if it is null or cut: then ZooKeeper closes the connection."""
        try:
            return Reader(packet, self.replies.wire.body).buffer()
        except MalformedPacket:
            return None

    # -- the end -------------------------------------------------------------------------------------------

    def _close_unread(self) -> None:
        """Close: too many bytes wait for a client that does not read them, or for the end of a slow read."""
        most = self._limits.forced
        why = f"more than {most} bytes of replies and events wait to be sent"
        self.stop(Closing(why, is_warned=True))

    def _drop(self, closing: Closing = _OF_ITSELF) -> None:
        """Answer no more requests, and drop those that wait."""
        self.end(closing)
        self._again = False
        self._slow_read = None
        if self._unproven is not None:
            self._unproven.take_all()
        self.queue.clear()
