"""multiRead: several reads in one request, each with its own result (FinalRequestProcessor)."""

from collections.abc import Mapping
from typing import Any

from codec.constants import ErrorCode, OpCode, Perms
from codec.errors import MalformedPacket, NullString
from codec.jute import INT, Reader
from codec.packets import MULTI_HEADER, read_multi_header
from proxy.state.bounded import Body
from proxy.state.operation import Client, Reading, ReadOperation
from proxy.state.ops.multi import END_OF_PARTS, PartKinds, decode_part
from proxy.state.ops.reads import find
from proxy.state.outcome import Refusal
from proxy.state.pause import Pause
from proxy.state.rights import demand

#: A part has at least about so many bytes.
BYTES_PER_PART = 32


def data_of(reading: Reading, client: Client, path: str) -> bytes:
    """getData as a part."""
    node = find(reading, path)
    demand(node.rights, Perms.READ, client.identities)
    return node.content()


def children_of(reading: Reading, client: Client, path: str) -> bytes:
    """getChildren as a part."""
    node = find(reading, path)
    demand(node.rights, Perms.READ, client.identities)
    return node.names(reading.pause)


class MultiRead:
    """multiRead with those of these reads that ZooKeeper has as parts."""

    def __init__(self, reads: Mapping[int, ReadOperation], writes: PartKinds) -> None:
        """`writes`: those of a multi, which ZooKeeper reads from the same record."""
        self._writes = writes
        self._parts = {
            int(opcode): (read.part.decode, read.part.expect, read.part.plain)
            for opcode, read in reads.items()
            if read.part is not None and read.part.plain is not None
        }

    def answer(self, reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
        """The results in order. Raises BADARGUMENTS for results too large for one reply.

        Parts never set a watch, even if they request one (Op.GetData, Op.GetChildren).
        """
        pause, known = reading.pause, self._parts
        pause.expect(len(frame) // BYTES_PER_PART)
        body = Body(pause)
        parts = self._decode(frame, position, pause)
        steps = len(parts)
        for opcode, fields in pause.each(parts):
            if fields is not None:
                steps = known[opcode][1](reading, fields, steps)
        parts.reverse()
        for _ in pause.each(range(len(parts))):
            opcode, fields = parts.pop()  # freed at once, since freeing all at the end is slow
            if fields is None:
                # A multi of writes, or a null path: ZooKeeper fails, but sends the results so far.
                raise Refusal(ErrorCode.MARSHALLING_ERROR, body.whole(END_OF_PARTS))
            try:
                result = known[opcode][2](reading, client, fields[0])
            except Refusal as refusal:
                body.add(MULTI_HEADER.pack(OpCode.ERROR, False, refusal.code), INT.pack(refusal.code))
            else:
                body.add(MULTI_HEADER.pack(opcode, False, ErrorCode.OK), result)
        return body.whole(END_OF_PARTS)

    def _decode(self, frame: bytes, position: int, pause: Pause) -> list[tuple[int, tuple[Any, ...] | None]]:
        """Opcode and fields of each part; None for those of a write, and of a part with a null path.

        Raises MalformedPacket; also if reads and writes are mixed.
        """
        reader = Reader(frame, position)
        parts: list[tuple[int, tuple[Any, ...] | None]] = []
        reads = 0
        find_part = self._parts.get
        while True:
            opcode, done, _err = read_multi_header(reader)
            if done:
                if 0 < reads < len(parts):
                    raise MalformedPacket("reads and writes in one request")
                return parts
            if len(parts) % pause.every == pause.every - 1:
                pause()
            known = find_part(opcode)
            fields = None
            try:
                if known is not None:
                    reads += 1
                    fields = known[0](reader)
                else:
                    _, reader.position = decode_part(self._writes, frame, reader.position, opcode)
            except NullString as null:  # the part is complete, and not examined further
                reader.position = null.end
            parts.append((opcode, fields))
