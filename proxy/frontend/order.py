"""The order of one connection's requests and replies.

Pure: no event loop and no transport. Frames go in through `receive`, outcomes of writes through `applied`.
What the connection has to do then is in `ready`: packets to send, requests for the log, whether to close, and
whether to call `advance` in another turn.

Requests are answered in the order in which they were received. Writes are sent to the log at once. A read
after a write is answered inside `applied` of that write, before the log applies the next request: it sees
exactly the state between the two writes around it. While no request waits, reads are answered at once.

Requests that wait are in one queue, whose head is answered next (`waiting` declares the items):

Write    in the log; waits for its outcome
Held     a write that may not go to the log before what stands before it is answered
ReadRun  light reads that were received together
Single   a heavy read, or a request that concerns the connection alone (ping, auth, sasl)
Refused  a write that cannot be decoded; its error waits for its turn
Awaited  at the head: a slow read or a token of SASL, whose answer is made elsewhere

The parts: `request_queue`, `read_answerer` (reads), `write_sender` (writes on their way to the log),
`connection_requests` (ping, auth, sasl), `authentication_gate`, `replies`, `request_times`.
"""

import logging
import weakref
from collections.abc import Sequence
from typing import Protocol

from codec.constants import ErrorCode, OpCode
from proxy.frontend.authentication_gate import AuthenticationGate
from proxy.frontend.connection_requests import AuthenticatingClient, ConnectionRequests
from proxy.frontend.limits import LIMITS, Limits
from proxy.frontend.read_answerer import HEAVY, ReadAnswerer
from proxy.frontend.ready import Ready, SlowRead
from proxy.frontend.replies import Machine, Replies
from proxy.frontend.request_queue import BLOCKING, RequestQueue
from proxy.frontend.request_times import Clock, RequestTimes
from proxy.frontend.waiting import (
    UNKNOWN,
    Awaited,
    Held,
    ReadRun,
    Refused,
    SaslAnswer,
    Single,
    Waiting,
    Write,
    Writer,
)
from proxy.frontend.write_sender import WriteSender
from proxy.state.operation import Client, Operations, Reading
from proxy.state.pause import Pause, TooLong
from proxy.support.latency import ConnectionLatency

log = logging.getLogger(__name__)

# Outcomes that ZooKeeper does not report: it closes the connection (FinalRequestProcessor).
_CLOSED_WITHOUT_REPLY = frozenset((ErrorCode.SESSION_MOVED, ErrorCode.CONNECTION_LOSS))

# Plain numbers: looking up an enum's member costs more than the comparison.
_CLOSE_SESSION = int(OpCode.CLOSE_SESSION)
_PING = int(OpCode.PING)
_SESSION_EXPIRED = int(ErrorCode.SESSION_EXPIRED)


class Owner(Client, Writer, Protocol):
    """The connection of the requests."""


class Order:
    """The requests of one client, until they are answered."""

    def __init__(
        self,
        owner: Owner,
        identity: AuthenticatingClient,
        machine: Machine,
        reading: Reading,
        operations: Operations,
        latency: ConnectionLatency,
        clock: Clock,
        schemes: frozenset[str] = frozenset(),
        limits: Limits = LIMITS,
    ) -> None:
        """`schemes`: the client first has to prove an identity of one of these; empty: of none."""
        self._owner = owner
        self._identity = identity
        self._limits = limits
        self.queue = RequestQueue()
        self._gate = AuthenticationGate(identity, schemes, self.queue) if schemes else None
        self.replies = Replies(machine, limits)
        self.ready = Ready(self.replies.packets)
        self._times = RequestTimes(latency, machine, clock)
        self._reads = ReadAnswerer(machine, reading, self._times, self.replies, limits)
        self._sender = WriteSender(identity, self.queue, self.replies, self.ready, limits)
        self._requests = ConnectionRequests(identity, self.replies, self.ready, self._times)
        self.use_operations(operations)

    def use_operations(self, operations: Operations) -> None:
        """Set the supported operations, before the first request is received."""
        self._sender.writes = operations.writes
        self._reads.use_operations(operations)

    def waiting(self, most: int) -> list[Waiting]:
        """The first requests of the queue, for operators; a run of reads counts as one."""
        return self.queue.first(most, self.replies.wire)

    # -- receiving requests --------------------------------------------------------------------------------

    def receive(self, frames: list[bytes], received: int) -> None:
        """Process the requests of a chunk received at that time; reads that need not wait are answered."""
        if self._gate is not None:
            self._pass_gate(self._gate, frames, received)
            return
        replies = self.replies
        answered = 0
        if not (self.queue.items or replies.is_paused):
            if not replies.packets:
                replies.unsent = 0
            limit = self._limits.unsent
            answered = self._reads.answer_run(self._owner, frames, received, limit, at_once=True)
            if answered == len(frames):
                return
            self.ready.again = replies.unsent > limit
        if frames:
            self._enqueue(frames[answered:] if answered else frames, received)

    def _pass_gate(self, gate: AuthenticationGate, frames: Sequence[bytes], received: int) -> None:
        """Process the packets of a client that is not authenticated yet."""
        gate.add(frames)
        ready = self.ready
        while gate and not (self.queue.items or ready.again or ready.close):
            if gate.is_open:
                self._gate = None
                self.receive(gate.take_all(), received)
                return
            packet = gate.take()
            is_whole = len(packet) >= self.replies.wire.body
            xid, opcode = self.replies.wire.header(packet) if is_whole else (0, 0)
            if gate.lets_pass(opcode) or not is_whole:
                self._enqueue([packet], received)
            else:
                log.info("closing %s: it has to authenticate first", self._identity.address)
                self.replies.add_at(0, xid, ErrorCode.SESSION_CLOSED_REQUIRE_SASL_AUTH)
                ready.close = True
        if ready.close:
            self._drop()

    def _enqueue(self, frames: Sequence[bytes], received: int) -> None:
        """Process requests of which the first is not a read that can be answered at once."""
        wire = self.replies.wire
        body, header = wire.body, wire.header
        light, writes = self._reads.light, self._sender.writes
        queue = self.queue
        ready = self.ready
        is_cut = False
        for packet in frames:
            if len(packet) < body:
                is_cut = True
                break
            xid, opcode = header(packet)
            if opcode in light:
                queue.add_read(packet, received)
            elif opcode in writes:
                self._sender.take(self._owner, xid, opcode, packet, received)
            else:
                weight = self._weight(opcode)
                queue.add(Single(xid, opcode, packet, received, weight), len(packet), weight)
        if queue.items and not (queue.in_log or self.replies.is_paused or ready.again or ready.close):
            self.advance()
        if is_cut and not ready.close:
            log.info("closing %s: a packet without a whole header", self._identity.address)
            ready.close = True

    def _weight(self, opcode: int) -> int:
        """The weight of a single request for a write after it."""
        if opcode in self._reads.reads:
            return self._limits.heavy_weight
        # A failed authentication ends the connection, and so does an unknown request.
        return 1 if opcode == _PING else BLOCKING

    # -- answering -----------------------------------------------------------------------------------------

    def applied(self, write: Write, zxid: int, err: int, body: bytes) -> None:
        """Process the outcome of a write; it is most often the one at the head of the queue."""
        opcode = write.opcode
        self._times.count(opcode, 1, write.xid, write.received)
        if err:
            self._times.refuse(opcode)
        queue = self.queue
        items = queue.items
        if not items:
            return
        head = items[0]
        if head is not write:
            # Refused before it was in the log: its reply waits until it is at the head.
            write.zxid = zxid
            write.err = err
            write.reply = body
            return
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

    def _answer_last(self, write: Write, zxid: int, err: int, body: bytes) -> None:
        """Answer a write whose reply may be the last one of the connection."""
        if err in _CLOSED_WITHOUT_REPLY:
            log.info("closing %s: the outcome of its write: %s", self._identity.address, ErrorCode(err).name)
            self._drop()
            return
        self.replies.add_at(zxid, write.xid, err, body)
        # The reply to closeSession is the last packet that ZooKeeper sends. If it failed, the session
        # continues.
        if err == _SESSION_EXPIRED or (write.opcode == _CLOSE_SESSION and not err):
            self._drop()

    def advance(self) -> None:
        """Answer from the head of the queue while the client reads; send the next writes to the log."""
        ready = self.ready
        ready.again = False
        queue = self.queue
        items = queue.items
        if not ready.packets:
            self.replies.sent()
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
                self._sender.send_held(self._owner)
            elif isinstance(item, Refused):
                queue.pop(item.size)
                self.replies.add(item.xid, item.code)
            elif isinstance(item, Awaited):
                break  # its answer will call again
            else:
                if not queue.in_log:
                    if self.replies.is_paused:
                        break
                    if item.opcode in HEAVY:
                        now = self._times.now()
                        began = began or now
                        if now - began > self._limits.stretch or self.replies.unsent > self._limits.unsent:
                            ready.again = True
                            break
                queue.pop(len(item.packet))
                self._answer_single(item)
        if self._gate is not None and not items:
            self._pass_gate(self._gate, (), self._times.now())

    def _answer_reads(self, run: ReadRun) -> bool:
        """Answer the reads at the head of the queue; returns whether all of them are answered.

        If a write after them is in the log, they have to be answered now, even if the client does not read.
        """
        queue = self.queue
        replies = self.replies
        if not queue.in_log and replies.is_paused:
            return False
        limit = self._limits.forced if queue.in_log else self._limits.unsent
        answered = self._reads.answer_run(self._owner, run.packets, run.received, limit, at_once=False)
        is_last = answered == len(run.packets)
        queue.pop_reads(run, answered)
        if queue.in_log and replies.are_too_many:
            self._close_unread()
        elif is_last:
            return True
        elif replies.unsent > limit:
            self.ready.again = True
        else:
            packet = run.packets[0]
            queue.pop_reads(run, 1)
            self._await_slow_read(*self.replies.wire.header(packet), packet, run.received)
        return False

    def _answer_single(self, item: Single) -> None:
        """Answer a heavy read, or a request that concerns only the connection, at the head of the queue."""
        xid, opcode, packet, received, _ = item
        if opcode not in self._reads.reads:
            if not self._requests.answer(item):
                self.queue.await_head(Awaited(xid, opcode, packet, received))
        else:
            try:
                self._reads.answer(self._owner, xid, opcode, packet, received)
            except TooLong:
                self._await_slow_read(xid, opcode, packet, received)
        if self.ready.close:  # after a failed auth or an unknown request, later requests are ignored
            self._drop()
        elif self.queue.in_log and self.replies.are_too_many:
            self._close_unread()

    def negotiated(self, answer: SaslAnswer) -> None:
        """Send the answer to a token. `advance` continues with requests received meanwhile."""
        items = self.queue.items
        if items and isinstance(head := items[0], Awaited):
            self.queue.pop(len(head.packet))
            self._requests.answer_sasl(head.xid, answer)
            if answer.err:
                self._drop()
            else:
                self.ready.again = True

    # -- reads that take long ------------------------------------------------------------------------------

    def _await_slow_read(self, xid: int, opcode: int, packet: bytes, received: int) -> None:
        """The read at the head of the queue is slow: all other requests wait for its answer."""
        self.queue.await_head(Awaited(xid, opcode, packet, received))
        self.ready.slow_read = SlowRead(now=self.queue.in_log > 0)

    @property
    def wants_slow_read(self) -> bool:
        """Whether a slow read has to be answered before other requests."""
        items = self.queue.items
        return bool(items) and isinstance(items[0], Awaited) and items[0].opcode != OpCode.SASL

    def answer_slow_read(self, pause: Pause) -> None:
        """Answer the slow read at the head of the queue, and the requests after it."""
        head = self.queue.items[0]
        assert isinstance(head, Awaited)
        self._times.note()
        try:
            self._reads.answer(self._owner, *head, pause)
        except Exception:
            self._drop()
            raise
        self.queue.pop(len(head.packet))
        if self.queue.in_log and self.replies.are_too_many:
            self._close_unread()
        else:
            self.advance()

    # -- what the connection does ----------------------------------------------------------------------------

    def event(self, kind: int, path: str, zxid: int) -> None:
        """Send a watch event. Closes the connection if too many wait for a client that does not read."""
        if self.ready.close and self.replies.is_paused:
            return
        self.replies.add_event(kind, path, zxid)
        if self.replies.is_paused and self.replies.are_too_many:
            self._close_unread()

    def before_flush(self) -> None:
        """Record the times of the last requests: the packets in `ready` are sent next."""
        self.replies.sent()
        self._times.note()

    def end(self) -> None:
        """Process no more frames, and close after sending the packets so far."""
        self.ready.close = True

    def stop(self) -> None:
        """Answer no more requests: the connection is closed. Waiting writes are sent to the log.

        At this point they would be in ZooKeeper's pipeline too. Reads that wait are dropped: their watches
        would never be removed.
        """
        items = list(self.queue.items)
        self._drop()
        if items and isinstance(items[0], Awaited) and items[0].opcode == OpCode.SASL:
            return  # the client has not authenticated yet
        for item in items:
            if isinstance(item, Held):
                self._sender.send(self._owner, item.xid, item.opcode, item.packet, item.received)
            elif isinstance(item, Single) and not (
                item.opcode in self._reads.reads or self._requests.lets_pass(item)
            ):
                break

    def _close_unread(self) -> None:
        """Close: too many bytes wait for a client that does not read them."""
        log.warning(
            "closing %s: more than %d bytes of replies and events wait for the client to read them",
            self._identity.address,
            self._limits.forced,
        )
        self.stop()

    def _drop(self) -> None:
        """Answer no more requests, and drop those that wait."""
        self.ready.close = True
        self.ready.again = False
        self.ready.slow_read = None
        if self._gate is not None:
            self._gate.take_all()
        self.queue.clear()

    def release_owner(self) -> None:
        """The connection is closed: from now on, refer to it only weakly. Called after `stop`.

        So both are freed when the last outcome has arrived. The garbage collector would never find objects
        that have lived for long (proxy.__main__.collect_rarely).
        """
        self._owner = weakref.proxy(self._owner)
