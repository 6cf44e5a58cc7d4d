"""multiRead as ClickHouse Keeper answers it: more kinds of parts, which may set watches, other errors."""

from codec.constants import ErrorCode, KeeperOpCode, OpCode
from codec.errors import MalformedPacket
from codec.jute import Reader
from codec.packets import MULTI_HEADER, read_multi_header
from proxy.state.operation import Client, Reading
from proxy.state.ops.bounded import Body
from proxy.state.ops.keeper_lists import children_of, filtered_list, list_with_stat_and_data
from proxy.state.ops.multi import END_OF_PARTS
from proxy.state.ops.multi_read import BYTES_PER_PART, multi_read
from proxy.state.ops.reads import exists, get_children, get_children2, get_data
from proxy.state.pause import Pause
from proxy.state.refusal import Refusal

# What each part is by itself, and how many bytes it has behind its path.
_PARTS = {
    int(OpCode.EXISTS): (exists, 1),
    int(OpCode.GET_DATA): (get_data, 1),
    int(OpCode.GET_CHILDREN): (get_children, 1),
    int(OpCode.GET_CHILDREN2): (get_children2, 1),
    int(KeeperOpCode.FILTERED_LIST): (filtered_list, 2),
    int(KeeperOpCode.LIST_WITH_STAT_AND_DATA): (list_with_stat_and_data, 4),
}

# Those that can take long by themselves.
_LISTS = frozenset(
    map(
        int,
        (
            OpCode.GET_CHILDREN,
            OpCode.GET_CHILDREN2,
            KeeperOpCode.FILTERED_LIST,
            KeeperOpCode.LIST_WITH_STAT_AND_DATA,
        ),
    )
)


def keeper_multi_read(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The results in order, each as of the read by itself; of one that is refused, the code and no body.

    For clients alone that know of Keeper's extensions: to a ClickHouse ZooKeeper's form is broken, and this
    one to other clients. Raises BADARGUMENTS for results too large for one reply.
    """
    if not client.knows_keeper:
        return multi_read(reading, client, frame, position)
    pause = reading.pause
    pause.expect(len(frame) // BYTES_PER_PART)
    parts = _read(Reader(frame, position), pause)
    # Parts may set watches: whether they take long together has to be known before the first one does.
    steps = 0
    for opcode, start in pause.each(parts):
        steps += 1
        if opcode in _LISTS:
            steps += children_of(reading, Reader(frame, start).text()) // 2
            pause.expect(steps)
    body = Body()
    for opcode, start in pause.each(parts):
        try:
            result = _PARTS[opcode][0](reading, client, frame, start)
        except Refusal as refusal:
            body.add(MULTI_HEADER.pack(opcode, False, refusal.code))
        else:
            body.add(MULTI_HEADER.pack(opcode, False, ErrorCode.OK), result)
    return body.whole(END_OF_PARTS)


def _read(reader: Reader, pause: Pause) -> list[tuple[int, int]]:
    """Opcode and position of each part, all of which are whole. Raises MalformedPacket."""
    parts: list[tuple[int, int]] = []
    while True:
        opcode, done, _err = read_multi_header(reader)
        if done:
            return parts
        if len(parts) % pause.every == pause.every - 1:
            pause()
        if opcode not in _PARTS:
            raise MalformedPacket(f"operation {opcode} in a multiRead")
        parts.append((opcode, reader.position))
        reader.text()
        for _ in range(_PARTS[opcode][1]):
            reader.boolean()
