"""The requests of one connection, in order: which go to the committer when, and which are answered when.

Requests are answered in the order they came. While none waits, a read is answered at once from the tree. A
write joins the committer; a read behind a write waits for it. A write behind that read goes ahead where the
read cannot tell (see `proxy.overtaking`), else it waits: a read sees all earlier writes of its session and no
later one. Knows no transports: replies go to the outlet.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING

from codec.constants import ErrorCode, KeeperOpCode, OpCode, Xid
from codec.errors import MalformedPacket, NullString
from codec.jute import NULL, Reader
from proxy.host import Host
from proxy.operation import ReadOperation, WriteOperation
from proxy.ops.session import END
from proxy.outlet import Outlet
from proxy.overtaking import Overtaking, paths_read
from proxy.queued import UNTOLD, Reads, Unreadable, Waiting, Write
from proxy.refusal import Refusal
from proxy.wire import NARROW, Wire

if TYPE_CHECKING:
    from proxy.connection import Connection

log = logging.getLogger(__name__)

# A client that sends more than this many requests without waiting is not read from until half are answered.
_MAX_QUEUE = 1000
_MAX_QUEUED_BYTES = 16 << 20
# Bytes of replies that are kept for a client that does not read, since a write has overtaken their requests.
_MAX_KEPT = 16 << 20
# Replies of more bytes are handed to the transport at once, which tells whether the client reads.
_LARGE_REPLY = 4096
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
# PrepRequestProcessor validates these requests' paths, null or not; a null path makes it stumble elsewhere.
_PATH_CHECKED_FIRST = (OpCode.SET_DATA, OpCode.SET_ACL)
# Answers after which the connection has no session: the client reconnects and learns the rest.
_FATAL = frozenset((ErrorCode.SESSION_EXPIRED, ErrorCode.SESSION_MOVED, ErrorCode.CONNECTION_LOSS))


class Requests:
    """What one client asks for, until it is answered."""

    def __init__(
        self, owner: "Connection", host: Host, loop: asyncio.AbstractEventLoop, outlet: Outlet
    ) -> None:
        self._owner = owner
        self._host = host
        self._loop = loop
        self._outlet = outlet
        self._out = outlet.out
        self._reading = host.reading
        self._load = host.load
        self._latency = owner.latency
        self._hand_over = host.submit
        self._tell: Callable[..., None] = self._done  # made once
        self._settle_scheduled = False
        self._queue: deque[Write | Reads | Unreadable | Waiting] = deque()
        self.count = 0  # requests without an answer so far
        self._size = 0  # their bytes
        self._weight = (0, 0)  # requests and bytes by which the server's load counts this connection
        self._barriers = 0  # Waiting items in the queue
        self._kept = 0  # bytes of replies kept for a client that does not read
        # The last writes of one opcode that came together and were told together: noted once for all of them.
        self._told = 0
        self._told_opcode = 0
        self._told_received = 0
        self._told_xid = 0
        self._overtaking = Overtaking(host.reading.watches, owner)
        self.talk(NARROW)
        self.offer(host.operations.reads, host.operations.writes)

    def talk(self, wire: Wire) -> None:
        """Set how requests and replies are wrapped, before the first one comes."""
        self._frame = wire.frame
        self._header = wire.header
        self._body = self._overtaking.body = wire.body

    def offer(self, reads: dict[int, ReadOperation], writes: dict[int, WriteOperation]) -> None:
        """Set what may be asked for, before the first request comes."""
        self._reads = reads
        self._writes = self._overtaking.writes = writes
        self._light = {opcode: read for opcode, read in reads.items() if opcode not in _LABORIOUS}

    # -- taking --------------------------------------------------------------------------------------------

    def handle(self, frames: list[bytes]) -> None:
        """Take the requests of a chunk; reads that need not wait are answered at once."""
        if self._queue or self._outlet.deaf:
            self._enqueue(frames, 0, perf_counter_ns())
            return
        out = self._out
        outlet = self._outlet
        header = self._header
        light = self._light
        body = self._body
        frame_of = self._frame
        reading = self._reading
        owner = self._owner
        zxid = self._host.zxid  # nothing moves the mirror on while these frames are handled
        started = perf_counter_ns()
        # Reads mostly come in runs of one opcode: who counts runs takes next to nothing of a read's time.
        runs: list[tuple[int, int]] = []
        run = first = xid = 0
        operation: ReadOperation | None = None
        for place, packet in enumerate(frames):
            if len(packet) < body:
                self._enqueue(frames, place, started)  # which closes
                return
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
                    reply = self._refused(xid, error)
                out.append(reply)
                if len(reply) > _LARGE_REPLY:
                    outlet.flush()
                    if outlet.deaf:
                        runs.append((run, place + 1 - first))
                        first = len(frames)
                        self._enqueue(frames, place + 1, started)
                        break
            elif opcode in self._writes:
                first = len(frames)
                self._enqueue(frames, place, started)
                break
            else:
                first = place + 1
                if self._take(xid, opcode, packet, started):
                    self.count += 1
                    self._size += len(packet)
                    first = len(frames)
                    self._enqueue(frames, place + 1, started)
                    break
                if outlet.ended:
                    return
        count = len(frames) - first
        if count:
            now = perf_counter_ns()
            self._latency.note(run, count, xid, self._host.zxid, started, now)
            if runs:
                self._latency.note_earlier(runs, now - started)
        elif runs:
            self._note_runs(runs, started)

    def _enqueue(self, frames: list[bytes], place: int, started: int) -> None:
        """Take the requests from that place on: writes, and what has to wait."""
        header = self._header
        light = self._light
        writes = self._writes
        body = self._body
        queue = self._queue
        overtaking = self._overtaking
        run: Reads | None = None
        count = size = 0  # of what is queued here
        for packet in frames[place:] if place else frames:
            length = len(packet)
            if length < body:
                log.info("closing %s: a packet without a whole header", self._owner.address)
                self._outlet.end()
                break
            xid, opcode = header(packet)
            operation = light.get(opcode)
            if operation is None:
                run = None
                if opcode in writes and not self._barriers and not overtaking.waiting:
                    queue.append(self._submit(xid, opcode, packet, started))
                elif not self._take(xid, opcode, packet, started):
                    if self._outlet.ended:
                        break
                    continue
                count += 1
                size += length
                continue
            count += 1
            size += length
            if run is None or run.opcode != opcode:
                if not queue:
                    self._loop.call_soon(self.advance)
                run = Reads(opcode, operation, started)
                queue.append(run)
                overtaking.queued(run)
            run.calls.append((xid, packet))
        self.count += count
        self._size += size
        if queue and isinstance(queue[0], Unreadable):
            self.advance()
        if self.count >= _MAX_QUEUE or self._size >= _MAX_QUEUED_BYTES:
            self._outlet.pause()

    def _take(self, xid: int, opcode: int, packet: bytes, received: int) -> bool:
        """Take what is no light read: a write, or what concerns more than one node, or the connection.

        True if it has to wait, else it is answered.
        """
        queue = self._queue
        operation = self._writes.get(opcode)
        # To a session that may only read, even its end is no write.
        if operation is not None or (opcode == OpCode.CLOSE_SESSION and opcode not in self._reads):
            if not self._barriers and (not self._overtaking.waiting or self._overtakes(opcode, packet)):
                queue.append(self._submit(xid, opcode, packet, received))
            else:
                queue.append(Waiting(xid, opcode, packet, received, is_write=True))
                self._barriers += 1
        elif queue or self._outlet.deaf or perf_counter_ns() - received > _AT_A_STRETCH:
            if not queue:
                self._loop.call_soon(self.advance)
            queue.append(Waiting(xid, opcode, packet, received, is_write=False))
            self._barriers += 1
        else:
            self._reply(xid, opcode, packet, received)
            return False
        return True

    def _submit(self, xid: int, opcode: int, packet: bytes, received: int) -> Write | Unreadable:
        """Give a write to the committer, unless it cannot be read."""
        operation = self._writes.get(opcode)
        fields = None
        if operation is None:
            if self._owner.session is not None:
                self._owner.session.ending = True
            operation = END
        else:
            try:
                fields, _ = operation.decode(packet, self._body)
            except MalformedPacket as error:
                checked = isinstance(error, NullString) and opcode in _PATH_CHECKED_FIRST
                code = ErrorCode.BAD_ARGUMENTS if checked else ErrorCode.MARSHALLING_ERROR
                return Unreadable(xid, code, len(packet))
        write = Write(operation, fields, self._owner.caller, len(packet), self._tell)
        write.xid = xid
        write.opcode = opcode
        write.closes = operation is END
        write.zxid = UNTOLD
        write.received = received
        if self._overtaking.passed:
            write.reads = self._overtaking.pass_by()
        self._hand_over(write)
        return write

    def _overtakes(self, opcode: int, packet: bytes) -> bool:
        """Whether a write may go to the committer now, ahead of the reads that wait."""
        return not self._outlet.deaf and self._overtaking.allows(opcode, packet)

    def _submit_some(self) -> None:
        """Submit the write at the head of the queue, and those behind it that need not wait either."""
        queue = self._queue
        self._overtaking.forget()
        behind_reads = False
        for place in range(len(queue)):
            item = queue[place]
            if isinstance(item, Reads):
                self._overtaking.found(item)
                behind_reads = True
            elif isinstance(item, Waiting):
                if not item.is_write or (behind_reads and not self._overtakes(item.opcode, item.packet)):
                    return  # what is behind it is looked at when it is gone
                queue[place] = self._submit(item.xid, item.opcode, item.packet, item.received)
                self._barriers -= 1

    def submit_rest(self) -> None:
        """Submit the writes that wait. Nobody waits for reads any more, whose watches would stay for ever."""
        left = [item for item in self._queue if isinstance(item, Waiting)]
        self._drop()
        for item in left:
            if item.is_write:
                self._submit(item.xid, item.opcode, item.packet, item.received)
            elif item.opcode == OpCode.AUTH:
                if not self._owner.prove(item.packet):
                    return  # what follows a failed auth is not heard
            elif item.opcode == OpCode.SASL:
                if sasl_token(item.packet, self._body) is None:
                    return
            elif item.opcode not in self._reads and item.opcode != OpCode.PING:
                return  # nor what follows an unknown request

    def _drop(self) -> None:
        """Answer nothing more."""
        self._queue.clear()
        self._overtaking.forget()
        self._overtaking.waiting = 0
        self._barriers = self.count = self._size = 0

    # -- answering -----------------------------------------------------------------------------------------

    def _done(self, write: Write, zxid: int) -> None:
        """The committer tells the end of a write; mostly of that at the head, with another one behind it."""
        write.zxid = zxid
        if write.received != self._told_received or write.opcode != self._told_opcode:
            self._note_told()
            self._told_received = write.received
            self._told_opcode = write.opcode
        self._told += 1
        self._told_xid = write.xid
        if not self._settle_scheduled:
            self._settle_soon()
        if write.refusal in _FATAL:
            self._outlet.end()
        if write.closes:
            self._tell_session(write)
        queue = self._queue
        if not queue:
            return
        if queue[0] is write and not write.closes:
            queue.popleft()
            self._give(write)
            if not queue:
                return
            head = self._queue[0]
            if isinstance(head, Write) and head.zxid == UNTOLD:
                return
        self.advance(in_time=zxid == self._host.zxid)

    def _give(self, write: Write) -> None:
        """Answer a write whose turn it is."""
        self.count -= 1
        self._size -= write.size
        if write.refusal is None:
            body = write.operation.reply(write.result, write.zxid)
            self._out.append(self._frame(write.xid, self._host.zxid, 0, body))
        else:
            self._out.append(self._frame(write.xid, self._host.zxid, write.refusal))

    def _tell_session(self, end: Write) -> None:
        """A closeSession has come to its end."""
        session = self._owner.session
        if session is None:
            return
        if end.refusal is None:
            self._host.session_ended(session, self._owner)
        else:
            session.ending = False  # it has moved, or nobody can tell: its time goes on

    def advance(self, *, in_time: bool = False) -> None:
        """Answer from the head of the queue as far as the client reads, and let the next writes go.

        `in_time`: the last write told is of the very revision that the mirror stands at.
        """
        queue = self._queue
        outlet = self._outlet
        began = 0  # perf_counter_ns of the first laborious read
        behind: Write | None = None  # the first write behind the runs at the head that it has overtaken
        self._note_told()
        while queue:
            item = queue[0]
            if isinstance(item, Write):
                if item.zxid == UNTOLD:
                    break  # the answer will call again
                queue.popleft()
                behind = None
                self._give(item)
                if item.closes:  # its reply is the last thing that ZooKeeper sends
                    self._drop()
                    outlet.end()
                    break
            elif isinstance(item, Reads):
                if item.overtaken and behind is None:
                    behind = next(write for write in queue if isinstance(write, Write))
                if not self._answer_run(item, behind if item.overtaken else None, in_time=in_time):
                    break
                if outlet.ended:
                    self._drop()
                    break
            elif isinstance(item, Unreadable):
                queue.popleft()
                self.count -= 1
                self._size -= item.size
                self._out.append(self._frame(item.xid, self._host.zxid, item.code))
            elif outlet.deaf:
                break
            elif item.is_write:
                self._submit_some()
            else:
                if item.opcode in _LABORIOUS:
                    now = perf_counter_ns()
                    began = began or now
                    if now - began > _AT_A_STRETCH:
                        self._loop.call_soon(self.advance)
                        break
                queue.popleft()
                self.count -= 1
                self._size -= len(item.packet)
                self._barriers -= 1
                self._reply(item.xid, item.opcode, item.packet, item.received)
                if outlet.ended:  # what follows a failed auth or an unknown request is not heard
                    self._drop()
                    break
        if not self._settle_scheduled:
            self._settle_soon()

    def _answer_run(self, run: Reads, behind: Write | None, *, in_time: bool) -> bool:
        """Answer the run of reads at the head of the queue; whether all of it is answered.

        `behind`: the first write that has overtaken it, if any.
        """
        outlet = self._outlet
        zxid = self._host.zxid
        since = zxid
        if behind is None:
            if outlet.deaf:
                return False
        else:
            # What a write has overtaken is answered although the client reads nothing, within bounds: at the
            # revision of that write's Txn, and no later one (docs/decisions/0013).
            if outlet.deaf and self._kept > _MAX_KEPT:
                return False
            if behind.zxid != UNTOLD:
                since = behind.zxid
            elif not in_time:
                return False  # its answer will call again
        out = self._out
        body = self._body
        frame = self._frame
        operation = run.operation
        reading = self._reading
        owner = self._owner
        calls = run.calls
        answered = len(calls)
        xid = 0
        if since != zxid and not self._shows(run, since):
            log.warning("closing %s: the mirror has left the revision that a read had to see", owner.address)
            owner.close()
            return False
        for xid, packet in calls:
            try:
                reply = frame(xid, zxid, 0, operation(reading, owner, packet, body))
            except (Refusal, MalformedPacket) as error:
                reply = self._refused(xid, error)
            out.append(reply)
            if len(reply) > _LARGE_REPLY and not self._goes_on(len(reply), overtaken=behind is not None):
                answered = 1 + next(place for place, call in enumerate(calls) if call[1] is packet)
                break
        self.count -= answered
        self._size -= sum([len(packet) for _, packet in calls[:answered]])
        self._latency.note(run.opcode, answered, xid, zxid, run.received, perf_counter_ns())
        if answered < len(calls):
            del calls[:answered]
            return False
        self._queue.popleft()
        self._overtaking.answered(run)
        return True

    def _goes_on(self, size: int, *, overtaken: bool) -> bool:
        """Behind a large reply: whether the client reads it, or more may be kept for it all the same."""
        outlet = self._outlet
        if outlet.deaf:
            self._kept += size
        else:
            outlet.flush()
        return not outlet.deaf or (overtaken and self._kept <= _MAX_KEPT)

    def _shows(self, run: Reads, zxid: int) -> bool:
        """Whether the mirror, which has gone on, shows these reads what it did at `zxid`."""
        paths = paths_read(run.opcode, run.calls, self._body)
        return paths is not None and all(
            self._host.unchanged_since(path.decode(errors="replace"), zxid) for path in paths
        )

    def _note_runs(self, runs: list[tuple[int, int]], started: int) -> None:
        """Note the reads of a chunk that ends with something else."""
        now = perf_counter_ns()
        opcode, count = runs.pop()
        self._latency.note(opcode, count, -1, self._host.zxid, started, now)
        self._latency.note_earlier(runs, now - started)

    def _note_told(self) -> None:
        """Note the last writes told."""
        if self._told:
            zxid, now = self._host.zxid, perf_counter_ns()
            self._latency.note(self._told_opcode, self._told, self._told_xid, zxid, self._told_received, now)
            self._told = 0

    def _refused(self, xid: int, error: Refusal | MalformedPacket) -> bytes:
        zxid = self._host.zxid
        if isinstance(error, Refusal):
            return self._frame(xid, zxid, error.code, error.body)
        return self._frame(xid, zxid, ErrorCode.MARSHALLING_ERROR)

    def _reply(self, xid: int, opcode: int, packet: bytes, received: int) -> None:
        """Answer a single read, or what concerns the connection alone, whose turn it is."""
        operation = self._reads.get(opcode)
        if operation is None:
            self._out.append(self._answer(xid, opcode, packet))
            return
        zxid = self._host.zxid
        try:
            reply = self._frame(xid, zxid, 0, operation(self._reading, self._owner, packet, self._body))
        except (Refusal, MalformedPacket) as error:
            reply = self._refused(xid, error)
        self._latency.note(opcode, 1, xid, zxid, received, perf_counter_ns())
        self._out.append(reply)
        if len(reply) > _LARGE_REPLY:
            self._outlet.flush()

    def _answer(self, xid: int, opcode: int, packet: bytes) -> bytes:
        """Requests that concern the connection alone."""
        if opcode == OpCode.PING:
            now = perf_counter_ns()
            self._latency.note(opcode, 1, Xid.PING, self._host.zxid, now, now)
            return self._frame(Xid.PING, self._host.zxid, 0)
        if opcode == OpCode.AUTH:
            return self._authenticate(xid, packet)
        if opcode == OpCode.SASL:
            return self._sasl(xid, packet)
        self._outlet.end()
        return self._frame(xid, -1, ErrorCode.UNIMPLEMENTED)  # ZooKeeper's request has no zxid yet

    def _sasl(self, xid: int, packet: bytes) -> bytes:
        """What ZooKeeper without a SASL login answers: success and no token (ZooKeeperServer.processSasl)."""
        if sasl_token(packet, self._body) is None:
            self._outlet.end()
            return b""
        return self._frame(xid, 0, ErrorCode.OK, NULL)

    def _authenticate(self, xid: int, packet: bytes) -> bytes:
        proven = self._owner.prove(packet)
        if not proven:
            self._host.counters.auth_failed += 1
            self._outlet.end()
            return b"" if proven is None else self._frame(xid, 0, ErrorCode.AUTH_FAILED)
        return self._frame(xid, 0, ErrorCode.OK)

    # -- the balance ---------------------------------------------------------------------------------------

    def _settle_soon(self) -> None:
        self._settle_scheduled = True
        self._loop.call_soon(self._settle)

    def _settle(self) -> None:
        """Once a turn of the loop in which something was answered: send it, and see whether more may come."""
        self._settle_scheduled = False
        self._note_told()
        self.weigh()
        outlet = self._outlet
        if outlet.paused and self.count <= _MAX_QUEUE // 2:
            self.resume()
        if outlet.draining and not self._queue:
            outlet.end()
        outlet.flush()

    def hear_again(self) -> None:
        """The client reads again."""
        self._kept = 0
        self.advance()
        self.weigh()
        self.resume()

    def resume(self) -> None:
        """Read from the client again, unless too much waits."""
        if self.count >= _MAX_QUEUE or self._size >= _MAX_QUEUED_BYTES:
            return
        if self._queue and self._load.is_too_much:
            return
        self._outlet.resume()

    def weigh(self) -> None:
        """Let the server's load count what waits here; not for a client that does not take its answers."""
        requests, size = self._weight
        self._weight = now = (0 if self._outlet.deaf else self.count), self._size
        self._load.requests += now[0] - requests
        self._load.size += now[1] - size


def sasl_token(packet: bytes, body: int) -> bytes | None:
    """The token of a sasl packet; None if it is null or cut short, at which ZooKeeper closes."""
    try:
        return Reader(packet, body).buffer()
    except MalformedPacket:
        return None
