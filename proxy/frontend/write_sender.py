"""Sends a client's writes to the log, unless they cannot be decoded or have to wait. Pure."""

from codec.errors import MalformedPacket
from proxy.frontend.limits import Limits
from proxy.frontend.ready import Ready
from proxy.frontend.replies import Replies
from proxy.frontend.request_queue import BLOCKING, RequestQueue
from proxy.frontend.traced import Sampled, TracedWrite
from proxy.frontend.waiting import Author, Held, Refused, Write, Writer
from proxy.state.operation import WriteOperation
from proxy.state.ops.unreadable import code_of, spends_zxid


class WriteSender:
    """Sends the writes of one client."""

    __slots__ = ("_ahead", "_decoded_at_once", "_identity", "_queue", "_ready", "_replies", "writes")

    def __init__(
        self, identity: Author, queue: RequestQueue, replies: Replies, ready: Ready, limits: Limits
    ) -> None:
        self._identity = identity
        self._queue = queue
        self._replies = replies
        self._ready = ready
        self._ahead = limits.ahead
        self._decoded_at_once = limits.decoded_at_once
        self.writes: dict[int, WriteOperation] = {}  # the supported writes

    def take(self, writer: Writer, xid: int, opcode: int, packet: bytes, received: int) -> None:
        """Process a write that was just received."""
        queue = self._queue
        ahead = 0 if self._replies.is_paused else self._ahead
        if queue.items and not (queue.in_log and queue.weight <= ahead):
            queue.add(Held(xid, opcode, packet, received), len(packet), BLOCKING)
            return
        write = self.send(writer, xid, opcode, packet, received)
        if not isinstance(write, Refused):
            queue.add_write(write)
        elif queue.items:
            queue.add(write, write.size, 0)
        else:
            self._replies.add(xid, write.code)

    def send(self, writer: Writer, xid: int, opcode: int, packet: bytes, received: int) -> Write | Refused:
        """Send a write to the log, unless it cannot be decoded."""
        operation = self.writes[opcode]
        position = self._replies.wire.body
        fields = None
        try:
            # A very long one is decoded only when it is applied.
            if not operation.has_parts or len(packet) <= self._decoded_at_once:
                fields, _ = operation.decode(packet, position)
        except MalformedPacket as error:
            if not spends_zxid(opcode, error):
                code = code_of(opcode, error)
                if type(packet) is Sampled:
                    packet.answered(self._identity, xid, opcode, code)
                return Refused(xid, code, len(packet))
            # Otherwise the state machine finds the same error.
        identity = self._identity
        if type(packet) is Sampled:
            write: Write = TracedWrite(writer, identity, xid, opcode, packet, position, fields, received)
        else:
            write = Write(writer, identity, xid, opcode, packet, position, fields, received)
        self._ready.requests.append(write)
        return write

    def send_held(self, writer: Writer) -> None:
        """Send the write at the head of the queue, and those after it that need not wait."""
        queue = self._queue
        # No write overtakes requests whose replies wait for the client.
        limit = 0 if self._replies.is_paused else self._ahead
        queue.weight = 0
        for place, item in enumerate(queue.items):
            if not isinstance(item, Held):
                queue.weight += queue.weight_of(item)
            elif queue.weight > limit:
                queue.weight = BLOCKING
                return
            else:
                write = self.send(writer, item.xid, item.opcode, item.packet, item.received)
                queue.items[place] = write
                if isinstance(write, Write):
                    queue.in_log += 1
                    queue.weight = 0
