"""The beginning of a write that is too long to be decoded at once, for a proxy that may refuse it. Pure.

It costs little, whatever the write is, and its first parts most often say which budgets the write needs.
"""

from typing import Any

from codec.constants import CreateMode
from codec.errors import MalformedPacket
from codec.jute import Reader
from codec.packets import read_multi_header
from proxy.state.effect import Effect
from proxy.state.ops import EXTENDED, EXTENDED_PARTS
from proxy.state.ops.multi import Part, decode_part
from proxy.state.pause import BRIEFLY, LENGTHS, TooLong

_MOST = LENGTHS.decoded_at_once  # bytes before the last part that is decoded


def beginning(opcode: int, body: bytes) -> Any:
    """The fields of a write, as far as they are decoded quickly; of a multi the first parts.

    If an ACL is long, only the path is known: `_path_alone`. Raises MalformedPacket, but not for a multi.
    """
    operation = EXTENDED.writes[opcode]
    if operation.effect is Effect.OF_PARTS:
        return _first_parts(body)
    try:
        fields, _ = operation.decode(body, 0, BRIEFLY)
    except TooLong:
        return _path_alone(body, 0)
    return fields


def _first_parts(body: bytes) -> list[Part]:
    parts: list[Part] = []
    reader = Reader(body)
    opcode = 0
    try:
        while reader.position < _MOST:
            opcode, done, _err = read_multi_header(reader)
            if done:
                break
            part, reader.position = decode_part(EXTENDED_PARTS, body, reader.position, opcode, BRIEFLY)
            parts.append(part)
    except TooLong:
        parts.append((EXTENDED_PARTS[opcode], _path_alone(body, reader.position)))
    except MalformedPacket:
        pass  # the state machine answers it
    return parts


def _path_alone(body: bytes, position: int) -> tuple[str | None, None, None, CreateMode]:
    """The fields of a create or setACL, without what follows the path.

    As if it were sequential: what counts for such a path counts for it with any mode.
    """
    return Reader(body, position).string(), None, None, CreateMode.PERSISTENT_SEQUENTIAL
