"""multiRead: several reads in one request, each with its own result (FinalRequestProcessor)."""

from codec.constants import ErrorCode, OpCode, Perms
from codec.errors import MalformedPacket, NullString
from codec.jute import INT, Reader
from codec.packets import MULTI_HEADER, read_multi_header
from proxy.state.bounded import Body
from proxy.state.node import PACKED_PER_STEP
from proxy.state.operation import Client, Reading
from proxy.state.ops.expected import expect_data, expect_list
from proxy.state.ops.multi import END_OF_PARTS, decode_part
from proxy.state.ops.reads import find
from proxy.state.outcome import Refusal
from proxy.state.pause import Pause
from proxy.state.rights import demand


def _get_data(reading: Reading, client: Client, path: str) -> bytes:
    node = find(reading, path)
    demand(node.rights, Perms.READ, client.identities)
    return node.content()


def _get_children(reading: Reading, client: Client, path: str) -> bytes:
    node = find(reading, path)
    demand(node.rights, Perms.READ, client.identities)
    return node.names(reading.pause)


#: A part has at least about so many bytes.
BYTES_PER_PART = 32

_PARTS = {int(OpCode.GET_DATA): _get_data, int(OpCode.GET_CHILDREN): _get_children}


def multi_read(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The results in order. Parts never set a watch, even if they request one (Op.GetData, Op.GetChildren).

    Raises BADARGUMENTS for results too large for one reply.
    """
    pause = reading.pause
    pause.expect(len(frame) // BYTES_PER_PART)
    body = Body(pause)
    parts = parts_of(frame, position, pause)
    steps = len(parts)
    for opcode, path in pause.each(parts):
        if path is not None:
            steps = (
                expect_data(reading, path, steps)
                if opcode == OpCode.GET_DATA
                else expect_list(reading, path, steps, PACKED_PER_STEP)
            )
    parts.reverse()
    for _ in pause.each(range(len(parts))):
        opcode, path = parts.pop()  # answered parts are freed at once, since freeing all at the end is slow
        operation = _PARTS.get(opcode)
        if operation is None or path is None:
            # A multi of writes, or a null path: ZooKeeper fails, but sends the results so far.
            raise Refusal(ErrorCode.MARSHALLING_ERROR, body.whole(END_OF_PARTS))
        try:
            result = operation(reading, client, path)
        except Refusal as refusal:
            body.add(MULTI_HEADER.pack(OpCode.ERROR, False, refusal.code), INT.pack(refusal.code))
        else:
            body.add(MULTI_HEADER.pack(opcode, False, ErrorCode.OK), result)
    return body.whole(END_OF_PARTS)


def parts_of(frame: bytes, position: int, pause: Pause) -> list[tuple[int, str | None]]:
    """Opcode and path of each part. Raises MalformedPacket; also if reads and writes are mixed."""
    reader = Reader(frame, position)
    parts: list[tuple[int, str | None]] = []
    reads = 0
    while True:
        opcode, done, _err = read_multi_header(reader)
        if done:
            if 0 < reads < len(parts):
                raise MalformedPacket("reads and writes in one request")
            return parts
        if len(parts) % pause.every == pause.every - 1:
            pause()
        if opcode in _PARTS:
            parts.append((opcode, reader.string()))
            reader.boolean()  # whether to watch
            reads += 1
        else:
            parts.append((opcode, None))
            try:
                _, reader.position = decode_part(frame, reader.position, opcode)
            except NullString as null:  # the part is complete, and not examined further
                reader.position = null.end
