"""Answers reads: light ones a run at a time, others one by one. Pure.

This is the hot path of reads: a pipelined read takes about two microseconds, most of it in `answer_run`.
"""

from collections.abc import Sequence

from codec.constants import KeeperOpCode, OpCode
from codec.errors import MalformedPacket
from proxy.frontend.limits import Limits
from proxy.frontend.replies import Machine, Replies
from proxy.frontend.request_times import RequestTimes
from proxy.state.operation import Client, Operations, Reading, ReadOperation
from proxy.state.pause import Pause, TooLong
from proxy.state.refusal import Refusal

#: Requests of which one may be slow: because of a subtree, a long ACL, or the request's own length.
HEAVY = frozenset(
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
# Never part of a run of reads. In a read-only session, closeSession is a read.
_ALONE = HEAVY | {OpCode.CLOSE_SESSION}
# Not the opcode of any packet, whose opcodes have 32 bits: clients may send any of these, 0 too.
_NO_OPCODE = 1 << 32


class ReadAnswerer:
    """Answers the reads of one client."""

    __slots__ = ("_large", "_machine", "_reading", "_replies", "_times", "light", "reads")

    def __init__(
        self, machine: Machine, reading: Reading, times: RequestTimes, replies: Replies, limits: Limits
    ) -> None:
        self._large = limits.large_reply
        self._machine = machine
        self._reading = reading
        self._times = times
        self._replies = replies
        self.reads: dict[int, ReadOperation] = {}
        self.light: dict[int, ReadOperation] = {}

    def use_operations(self, operations: Operations) -> None:
        """Set the supported reads, before the first one is received."""
        self.reads = operations.reads
        self.light = {opcode: read for opcode, read in operations.reads.items() if opcode not in _ALONE}

    def answer_run(
        self, client: Client, packets: Sequence[bytes], received: int, limit: int, *, at_once: bool
    ) -> int:
        """Answer light reads up to the first request of another kind; returns how many.

        It stops before a read that takes long, and when more than `limit` bytes of large replies are unsent.
        `at_once`: they are sent now, and not with the replies to other requests of their chunk.
        """
        replies = self._replies
        _, body, header, frame, _ = replies.wire
        sent = replies.packets
        light = self.light
        large = self._large
        reading = self._reading
        zxid = self._machine.zxid  # nothing is applied meanwhile
        answered = first = 0
        run, xid = _NO_OPCODE, 0
        operation: ReadOperation | None = None
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
                    self._times.count(run, answered - first, xid, received)
                    first = answered
                run = opcode
                operation = following
            try:
                reply = frame(xid, zxid, 0, operation(reading, client, packet, body))  # type: ignore[misc]
            except (Refusal, MalformedPacket) as error:
                reply = replies.refusal(xid, error)
            except TooLong:
                break
            sent.append(reply)
            answered += 1
            if len(reply) > large:
                replies.unsent += len(reply)
                if replies.unsent > limit:
                    break
        if answered:
            if answered < len(packets):
                xid, _ = header(packets[answered - 1])
            if at_once:
                self._times.note_run(run, answered - first, xid, received)
            else:
                self._times.count(run, answered - first, xid, received)
        return answered

    def answer(
        self,
        client: Client,
        xid: int,
        opcode: int,
        packet: bytes,
        received: int,
        pause: Pause | None = None,
    ) -> None:
        """Answer one read. Without a `pause` it must be short: else it raises TooLong, before any effect."""
        replies = self._replies
        reading = self._reading if pause is None else self._reading._replace(pause=pause)
        try:
            body = self.reads[opcode](reading, client, packet, replies.wire.body)
        except (Refusal, MalformedPacket) as error:
            reply = replies.refusal(xid, error)
        else:
            reply = replies.wire.frame(xid, self._machine.zxid, 0, body)
        self._times.note_single(opcode, xid, received)
        replies.add_read(reply)
