"""multi: several writes as one, all or none (PrepRequestProcessor, case multi, and MultiResponse).

The parts are the single operations, applied one after another in the same transaction.
"""

from collections.abc import Mapping
from functools import partial
from struct import error as StructError
from typing import Any, NamedTuple, TypeAlias

from codec.constants import CreateMode, ErrorCode, OpCode
from codec.errors import MalformedPacket
from codec.jute import INT
from codec.packets import MULTI_HEADER, present
from proxy.state.effect import Effect
from proxy.state.operation import Holds, WriteOperation
from proxy.state.ops.create import TTL_MODES
from proxy.state.ops.unreadable import NullAcl
from proxy.state.outcome import Refusal
from proxy.state.pause import NO_PAUSE, Pause
from proxy.state.transaction import Transaction

END_OF_PARTS = MULTI_HEADER.pack(-1, True, -1)

# So many bytes are decoded in about the time of one step: one small part, or an entry of an ACL.
_BYTES_PER_STEP = 32
_HEADER_SIZE = MULTI_HEADER.size
_header_at = MULTI_HEADER.unpack_from


class PartKind:
    """The data that all parts of one opcode share."""

    __slots__ = ("apply", "decode", "effect", "header", "opcode", "operation", "reply", "usual_modes")

    def __init__(self, opcode: int, operation: WriteOperation) -> None:
        self.opcode = opcode
        self.operation = operation
        # Reading a slot, once for every part, is faster than reading the operation's tuple.
        self.decode = operation.decode
        self.apply = operation.apply
        self.reply = operation.reply
        self.effect = operation.effect
        # MultiResponse has one type for all creates whose results have a Stat.
        answered = OpCode.CREATE2 if operation.holds == Holds.PATH | Holds.STAT else opcode
        self.header = MULTI_HEADER.pack(answered, False, ErrorCode.OK)  # precedes its result
        self.usual_modes = operation.usual_modes


PartKinds: TypeAlias = Mapping[int, PartKind]
# One operation of a multi: its kind and its fields.
Part: TypeAlias = tuple[PartKind, Any]


def kinds_of(writes: Mapping[int, WriteOperation]) -> PartKinds:
    """Those of these writes that can be parts."""
    return {int(opcode): PartKind(opcode, write) for opcode, write in writes.items() if write.part}


class Failure(NamedTuple):
    """A multi of `size` parts whose part at `position` (from 0) was refused."""

    size: int
    position: int
    code: ErrorCode


# The parts' answers, as far as they are needed, or the failure of one.
Answers: TypeAlias = list[bytes] | Failure


def decode(
    kinds: PartKinds, frame: bytes, position: int, pause: Pause = NO_PAUSE, /
) -> tuple[list[Part], int]:
    """The parts, and the position after them.

    `kinds`: those that are allowed. Raises MalformedPacket for other ones, as ZooKeeper does.
    """
    pause.expect(len(frame))  # `Briefly` decodes no long multi, whatever its parts are
    parts: list[Part] = []
    piece = pause.every * _BYTES_PER_STEP
    paused = position
    while True:
        try:
            opcode, done, _err = _header_at(frame, position)
        except StructError:
            raise MalformedPacket("cut within a multi header") from None
        position += _HEADER_SIZE
        if done:
            return parts, position
        # As decode_part does, with one call less for each part.
        kind = kinds.get(opcode)
        if kind is None:
            raise MalformedPacket(f"operation {opcode} in a multi")
        fields, position = kind.decode(frame, position, pause)
        modes = kind.usual_modes
        if modes is None or (fields[3] in modes and fields[2] is not None and fields[0] is not None):
            parts.append((kind, fields))
        else:
            parts.append(_looked_at(kinds, kind, fields, position))
        if position - paused > piece:
            paused = position
            pause()


def decode_part(
    kinds: PartKinds, frame: bytes, position: int, opcode: int, pause: Pause = NO_PAUSE
) -> tuple[Part, int]:
    """The part after a header, and the position after it. Raises MalformedPacket as `decode` does."""
    kind = kinds.get(opcode)
    if kind is None:
        raise MalformedPacket(f"operation {opcode} in a multi")
    fields, end = kind.decode(frame, position, pause)
    return (kind, fields) if kind.usual_modes is None else _looked_at(kinds, kind, fields, end), end


def _looked_at(kinds: PartKinds, kind: PartKind, fields: Any, end: int) -> Part:
    """The part that a create's mode means, which may differ from its opcode: Op.Create uses the mode."""
    acl, flags = fields[2], fields[3]
    present(fields[0], end)
    if kind.opcode != OpCode.CREATE_TTL:
        # MultiOperationRecord builds CreateOptions, which need an ACL, and for TTL modes a TTL
        if not 0 <= flags <= CreateMode.CONTAINER:
            raise MalformedPacket("create options in a multi")
        if acl is None:
            raise NullAcl("create options without an ACL in a multi")
    elif flags not in TTL_MODES:
        kind, fields = kinds[OpCode.CREATE], fields[:4]
    return (kinds[OpCode.CREATE_CONTAINER] if flags == CreateMode.CONTAINER else kind), fields


def apply(tx: Transaction, parts: list[Part]) -> Answers:
    """Apply the parts in order; the first refusal undoes all of them and is the multi's answer."""
    answers: list[bytes] = []
    wants_reply = tx.wants_reply
    tx.parts += len(parts)
    done = 0
    try:
        for kind, fields in tx.pause.each(parts):
            result = kind.apply(tx, fields)
            if wants_reply:
                answers.append(kind.header + kind.reply(result))
            done += 1
    except Refusal as refusal:
        tx.rollback()
        if refusal.code == ErrorCode.MARSHALLING_ERROR:
            raise  # in ZooKeeper no KeeperException, but an error of the whole request
        return Failure(len(parts), done, refusal.code)
    return answers


def reply(answers: Answers) -> bytes:
    """Each part's answer; for a failure OK before it, its code, and RUNTIMEINCONSISTENCY after it."""
    if isinstance(answers, Failure):
        size, position, code = answers
        before, failed, behind = (
            MULTI_HEADER.pack(OpCode.ERROR, False, err) + INT.pack(err)
            for err in (ErrorCode.OK, code, ErrorCode.RUNTIME_INCONSISTENCY)
        )
        answers = [before * position, failed, behind * (size - position - 1)]
    return b"".join(answers) + END_OF_PARTS


def multi_of(kinds: PartKinds) -> WriteOperation:
    """multi with these parts."""
    return WriteOperation(
        partial(decode, kinds),
        apply,
        reply,
        has_acl=True,
        effect=Effect.OF_PARTS,
        has_path=False,
        counted="multi",
        word="MULT",
    )
