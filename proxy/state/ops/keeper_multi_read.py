"""multiRead as ClickHouse Keeper answers it: more kinds of parts, which may set watches, other errors."""

from codec.constants import ErrorCode, KeeperOpCode, OpCode
from codec.errors import MalformedPacket
from codec.jute import Reader
from codec.packets import MULTI_HEADER, read_multi_header
from proxy.state.operation import Client, Reading
from proxy.state.ops.bounded import Body
from proxy.state.ops.keeper_lists import (
    demand_short,
    filtered_list,
    filtering,
    list_with_stat_and_data,
    listing_with_stat_and_data,
)
from proxy.state.ops.multi import END_OF_PARTS
from proxy.state.ops.multi_read import multi_read, reading_many
from proxy.state.ops.reads import exists, get_children, get_children2, get_data, listing, listing2
from proxy.state.pieces import AT_ONCE_BYTES, PIECE, Laborious, Work, whole
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

# Those that can take long by themselves, in pieces.
_LISTS = {
    int(OpCode.GET_CHILDREN): listing,
    int(OpCode.GET_CHILDREN2): listing2,
    int(KeeperOpCode.FILTERED_LIST): filtering,
    int(KeeperOpCode.LIST_WITH_STAT_AND_DATA): listing_with_stat_and_data,
}


def keeper_multi_read(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The results in order, each as of the read by itself; of one that is refused, the code and no body.

    For clients alone that know of Keeper's extensions: to a ClickHouse ZooKeeper's form is broken, and this
    one to other clients. Raises BADARGUMENTS for results too large for one reply.
    """
    if not client.knows_keeper:
        return multi_read(reading, client, frame, position)
    if len(frame) > AT_ONCE_BYTES:
        raise Laborious
    return whole(_reading_many(reading, client, frame, position, at_once=True))


def keeper_reading_many(reading: Reading, client: Client, frame: bytes, position: int) -> Work[bytes]:
    """As keeper_multi_read, in pieces."""
    if not client.knows_keeper:
        return (yield from reading_many(reading, client, frame, position))
    return (yield from _reading_many(reading, client, frame, position, at_once=False))


def _reading_many(
    reading: Reading, client: Client, frame: bytes, position: int, *, at_once: bool
) -> Work[bytes]:
    parts = yield from _read(Reader(frame, position))
    if at_once and len(parts) > 1:
        # Parts may set watches: which of them take long has to be known before the first one does.
        for opcode, start in parts:
            if opcode in _LISTS:
                demand_short(reading, Reader(frame, start).text())
    body = Body()
    for count, (opcode, start) in enumerate(parts, 1):
        operation = _PARTS[opcode][0]
        try:
            try:
                result = operation(reading, client, frame, start)
            except Laborious:
                if at_once:
                    raise
                result = yield from _LISTS[opcode](reading, client, frame, start)
        except Refusal as refusal:
            body.add(MULTI_HEADER.pack(opcode, False, refusal.code))
        else:
            body.add(MULTI_HEADER.pack(opcode, False, ErrorCode.OK), result)
        if count % PIECE == 0:
            yield
    return body.whole(END_OF_PARTS)


def _read(reader: Reader) -> Work[list[tuple[int, int]]]:
    """Opcode and position of each part, all of which are whole. Raises MalformedPacket."""
    parts: list[tuple[int, int]] = []
    while True:
        opcode, done, _err = read_multi_header(reader)
        if done:
            return parts
        if len(parts) % PIECE == PIECE - 1:
            yield
        if opcode not in _PARTS:
            raise MalformedPacket(f"operation {opcode} in a multiRead")
        parts.append((opcode, reader.position))
        reader.text()
        for _ in range(_PARTS[opcode][1]):
            reader.boolean()
