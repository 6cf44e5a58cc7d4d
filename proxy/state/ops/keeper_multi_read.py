"""multiRead as ClickHouse Keeper answers it: more kinds of parts, which may set watches, other errors."""

from collections.abc import Iterator, Mapping
from typing import Any

from codec.constants import ErrorCode
from codec.errors import MalformedPacket, NullString
from codec.jute import INT, Reader
from codec.packets import MULTI_HEADER, read_multi_header
from proxy.state.bounded import Body
from proxy.state.operation import Client, Reading, ReadOperation
from proxy.state.ops.multi import END_OF_PARTS, PartKinds
from proxy.state.ops.multi_read import BYTES_PER_PART, MultiRead
from proxy.state.ops.steps import MANY
from proxy.state.outcome import Refusal
from proxy.state.pause import TooLong


class KeeperMultiRead:
    """multiRead with those of these reads that may be parts."""

    def __init__(self, reads: Mapping[int, ReadOperation], writes: PartKinds) -> None:
        """`writes`: as those of `MultiRead`."""
        self.plain = MultiRead(reads, writes)
        #: How each is answered, and its part.
        self.parts = {
            int(opcode): (read.answer, read.part) for opcode, read in reads.items() if read.part is not None
        }
        # How a part begins that can be slow.
        slow = [opcode for opcode in self.parts if reads[opcode].steps is not None]
        self._begins = tuple(INT.pack(opcode) + b"\0" for opcode in slow)

    def answer(self, reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
        """The results in order, each as a single read returns it; for a refused one, the code and no body.

        This form is only for clients that know Keeper's extensions: ClickHouse cannot read ZooKeeper's form,
        and other clients cannot read this one. Raises BADARGUMENTS for results too large for one reply.
        """
        if not client.knows_keeper:
            return self.plain.answer(reading, client, frame, position)
        pause = reading.pause
        # Parts may set watches: before the first part does, it must be known whether all together are slow.
        parts, _ = self._expect(reading, frame, position)
        body = Body(pause)
        for opcode, start in pause.each(parts):
            try:
                result = self.parts[opcode][0](reading, client, frame, start)
            except Refusal as refusal:
                body.add(MULTI_HEADER.pack(opcode, False, refusal.code))
            else:
                body.add(MULTI_HEADER.pack(opcode, False, ErrorCode.OK), result)
        return body.whole(END_OF_PARTS)

    def steps(self, reading: Reading, _client: Client, frame: bytes, position: int) -> int:
        """Of its parts, what they list, and data. Long requests are not looked at."""
        steps = len(frame) // BYTES_PER_PART
        if steps > reading.pause.lengths.at_once:
            return MANY
        if not any(frame.find(begin, position) >= 0 for begin in self._begins):
            return steps  # a search costs nothing, and data never take long
        try:
            return self._expect(reading, frame, position)[1]
        except (TooLong, NullString):  # ZooKeeper answers the parts before a null path
            return MANY

    def paths(self, frame: bytes, position: int) -> Iterator[tuple[int, str]]:
        """Opcode and path of each part, also of ZooKeeper's form. Raises MalformedPacket."""
        for opcode, _, fields in self._decode(Reader(frame, position)):
            yield opcode, fields[0]

    def _expect(self, reading: Reading, frame: bytes, position: int) -> tuple[list[tuple[int, int]], int]:
        """Opcode and position of each part, and the steps of all. May raise TooLong.

        Raises MalformedPacket, also if a part is incomplete.
        """
        pause = reading.pause
        steps = len(frame) // BYTES_PER_PART
        pause.expect(steps)
        parts: list[tuple[int, int]] = []
        for opcode, start, fields in self._decode(Reader(frame, position)):
            parts.append((opcode, start))
            if len(parts) % pause.every == 0:
                pause()
            steps = self.parts[opcode][1].expect(reading, fields, steps)
        return parts, steps

    def _decode(self, reader: Reader) -> Iterator[tuple[int, int, Any]]:
        """Opcode, position and fields of each part. Raises MalformedPacket."""
        while True:
            opcode, done, _err = read_multi_header(reader)
            if done:
                return
            known = self.parts.get(opcode)
            if known is None:
                raise MalformedPacket(f"operation {opcode} in a multiRead")
            start = reader.position
            yield opcode, start, known[1].decode(reader)
