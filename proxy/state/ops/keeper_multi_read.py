"""multiRead as ClickHouse Keeper answers it: more kinds of parts, which may set watches, other errors."""

from collections.abc import Iterator

from codec.constants import ErrorCode, KeeperOpCode, OpCode
from codec.errors import MalformedPacket, NullString
from codec.jute import INT, Reader
from codec.packets import MULTI_HEADER, read_multi_header
from proxy.state.bounded import Body
from proxy.state.node import PACKED_PER_STEP
from proxy.state.operation import Client, Reading
from proxy.state.ops.expected import expect_data, expect_list
from proxy.state.ops.keeper_lists import filtered_list, list_with_stat_and_data
from proxy.state.ops.multi import END_OF_PARTS
from proxy.state.ops.multi_read import BYTES_PER_PART, multi_read
from proxy.state.ops.reads import exists, get_children, get_children2, get_data
from proxy.state.ops.steps import MANY
from proxy.state.outcome import Refusal
from proxy.state.pause import TooLong

#: The read of each kind of part, how many bytes the part has after its path, and, if a single one can be
#: slow, how many children of a node are one step.
PARTS = {
    int(OpCode.EXISTS): (exists, 1, 0),
    int(OpCode.GET_DATA): (get_data, 1, 0),
    int(OpCode.GET_CHILDREN): (get_children, 1, PACKED_PER_STEP),
    int(OpCode.GET_CHILDREN2): (get_children2, 1, PACKED_PER_STEP),
    int(KeeperOpCode.FILTERED_LIST): (filtered_list, 2, 2),
    int(KeeperOpCode.LIST_WITH_STAT_AND_DATA): (list_with_stat_and_data, 4, 2),
}

# How a part begins that can be slow.
_BEGINS = tuple(INT.pack(opcode) + b"\0" for opcode, (_, _, per_step) in PARTS.items() if per_step)


def keeper_multi_read(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The results in order, each as a single read returns it; for a refused one, the code and no body.

    This form is only for clients that know Keeper's extensions: ClickHouse cannot read ZooKeeper's form, and
    other clients cannot read this one. Raises BADARGUMENTS for results too large for one reply.
    """
    if not client.knows_keeper:
        return multi_read(reading, client, frame, position)
    pause = reading.pause
    # Parts may set watches: before the first part does, it must be known whether all together are slow.
    parts, _ = expect_parts(reading, frame, position)
    body = Body(pause)
    for opcode, start in pause.each(parts):
        try:
            result = PARTS[opcode][0](reading, client, frame, start)
        except Refusal as refusal:
            body.add(MULTI_HEADER.pack(opcode, False, refusal.code))
        else:
            body.add(MULTI_HEADER.pack(opcode, False, ErrorCode.OK), result)
    return body.whole(END_OF_PARTS)


def of_parts(reading: Reading, _client: Client, frame: bytes, position: int) -> int:
    """Steps of a multiRead: its parts, what they list, and data. Long requests are not looked at."""
    steps = len(frame) // BYTES_PER_PART
    if steps > reading.pause.lengths.at_once:
        return MANY
    if not any(frame.find(begin, position) >= 0 for begin in _BEGINS):
        return steps  # a search costs nothing, and data never take long
    try:
        return expect_parts(reading, frame, position)[1]
    except (TooLong, NullString):  # ZooKeeper answers the parts before a null path
        return MANY


def expect_parts(reading: Reading, frame: bytes, position: int) -> tuple[list[tuple[int, int]], int]:
    """Opcode and position of each part, and the steps of all. May raise TooLong.

    Raises MalformedPacket, also if a part is incomplete.
    """
    pause = reading.pause
    steps = len(frame) // BYTES_PER_PART
    pause.expect(steps)
    reader = Reader(frame, position)
    parts: list[tuple[int, int]] = []
    while True:
        opcode, done, _err = read_multi_header(reader)
        if done:
            return parts, steps
        if len(parts) % pause.every == pause.every - 1:
            pause()
        if opcode not in PARTS:
            raise MalformedPacket(f"operation {opcode} in a multiRead")
        parts.append((opcode, reader.position))
        path = reader.text()
        _, size, per_step = PARTS[opcode]
        flags = [reader.boolean() for _ in range(size)]
        if opcode == OpCode.GET_DATA:
            steps = expect_data(reading, path, steps)
        elif per_step:
            with_data = opcode == KeeperOpCode.LIST_WITH_STAT_AND_DATA and flags[-1]
            steps = expect_list(reading, path, steps, per_step, with_data=with_data)


def paths_of(frame: bytes, position: int) -> Iterator[tuple[int, str]]:
    """Opcode and path of each part, also of ZooKeeper's form. Raises MalformedPacket."""
    reader = Reader(frame, position)
    while True:
        opcode, done, _err = read_multi_header(reader)
        if done:
            return
        if opcode not in PARTS:
            raise MalformedPacket(f"operation {opcode} in a multiRead")
        yield opcode, reader.text()
        reader.position += PARTS[opcode][1]
