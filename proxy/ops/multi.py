"""multi: several writes as one, all or none (PrepRequestProcessor, case multi, and MultiResponse).

Each part is the single operation itself, applied one after another on the same draft.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from codec.constants import CreateMode, ErrorCode, OpCode
from codec.errors import MalformedPacket
from codec.jute import INT, Reader
from codec.packets import MULTI_HEADER, read_multi_header
from proxy.acl import Caller
from proxy.draft import Draft
from proxy.operation import WriteOperation
from proxy.ops.check import CHECK
from proxy.ops.create import CREATE, CREATE2, CREATE_CONTAINER, CREATE_TTL, TTL_MODES
from proxy.ops.delete import DELETE
from proxy.ops.set_data import SET_DATA
from proxy.refusal import Refusal

PARTS: dict[int, WriteOperation] = {
    OpCode.CREATE: CREATE,
    OpCode.CREATE2: CREATE2,
    OpCode.CREATE_CONTAINER: CREATE_CONTAINER,
    OpCode.CREATE_TTL: CREATE_TTL,
    OpCode.DELETE: DELETE,
    OpCode.SET_DATA: SET_DATA,
    OpCode.CHECK: CHECK,
}

_CREATES = (OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER)
# Parts whose results have a Stat, all of which MultiResponse sends under one type.
_WITH_STAT = (OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL)
END_OF_PARTS = MULTI_HEADER.pack(-1, True, -1)


class Part(NamedTuple):
    """One operation of a multi with its fields."""

    opcode: int  # of its result
    operation: WriteOperation
    fields: Any


class Failure(NamedTuple):
    """A multi whose part at `position` (from 0) was refused."""

    position: int
    code: ErrorCode


class Outcome(NamedTuple):
    """The parts of a multi and either their results or the failure of one."""

    parts: list[Part]
    results: list[Any]
    failure: Failure | None


def read(reader: Reader, operations: Mapping[int, WriteOperation] = PARTS) -> list[Part]:
    """The parts. Raises MalformedPacket for an operation that a multi cannot hold, as ZooKeeper does.

    `operations`: those that it can.
    """
    parts: list[Part] = []
    while True:
        opcode, done, _err = read_multi_header(reader)
        if done:
            return parts
        parts.append(read_part(reader, opcode, operations))


def read_part(reader: Reader, opcode: int, operations: Mapping[int, WriteOperation] = PARTS) -> Part:
    """The part behind a header. Raises MalformedPacket as `read` does."""
    operation = operations.get(opcode)
    if operation is None:
        raise MalformedPacket(f"operation {opcode} in a multi")
    fields = operation.read(reader)
    if opcode in _CREATES:
        _path, _data, acl, flags = fields
        # MultiOperationRecord builds CreateOptions, which want an ACL, and for TTL modes a TTL
        if acl is None or not 0 <= flags <= CreateMode.CONTAINER:
            raise MalformedPacket("create options in a multi")
        if flags == CreateMode.CONTAINER:  # Op.Create goes by the mode
            opcode, operation = OpCode.CREATE_CONTAINER, CREATE_CONTAINER
    elif opcode == OpCode.CREATE_TTL and fields[3] not in TTL_MODES:
        opcode, operation = OpCode.CREATE, CREATE  # and so it does here
        if fields[3] == CreateMode.CONTAINER:
            opcode, operation = OpCode.CREATE_CONTAINER, CREATE_CONTAINER
        fields = fields[:4]
    if opcode in _WITH_STAT:
        opcode = OpCode.CREATE2
    return Part(opcode, operation, fields)


def decode(frame: bytes, position: int) -> list[Part]:
    """The parts of a whole request; see `read`."""
    return read(Reader(frame, position))


def apply(draft: Draft, caller: Caller, parts: list[Part]) -> Outcome:
    """Apply part after part; the first refusal undoes them all and is the multi's answer."""
    results: list[Any] = []
    for position, part in enumerate(parts):
        try:
            results.append(part.operation.apply(draft, caller, part.fields))
        except Refusal as refusal:
            draft.rollback()
            if refusal.code == ErrorCode.MARSHALLING_ERROR:
                raise  # no KeeperException there, but what ends the whole request
            return Outcome(parts, [], Failure(position, refusal.code))
    return Outcome(parts, results, None)


def reply(outcome: Outcome, zxid: int) -> bytes:
    """Each part's result; after a failure OK before it, its code, and RUNTIMEINCONSISTENCY behind it."""
    body: list[bytes] = []
    if outcome.failure is None:
        for part, result in zip(outcome.parts, outcome.results, strict=True):
            body += (MULTI_HEADER.pack(part.opcode, False, 0), part.operation.reply(result, zxid))
    else:
        position, code = outcome.failure
        for index in range(len(outcome.parts)):
            err = (
                ErrorCode.OK
                if index < position
                else code
                if index == position
                else ErrorCode.RUNTIME_INCONSISTENCY
            )
            body += (MULTI_HEADER.pack(OpCode.ERROR, False, err), INT.pack(err))
    body.append(END_OF_PARTS)
    return b"".join(body)


def multi_of(operations: Mapping[int, WriteOperation]) -> WriteOperation:
    """multi with other parts than ZooKeeper's."""

    def read_parts(reader: Reader) -> list[Part]:
        return read(reader, operations)

    def decode_parts(frame: bytes, position: int) -> list[Part]:
        return read(Reader(frame, position), operations)

    return WriteOperation(read_parts, decode_parts, apply, reply, checks_first=False)


MULTI = WriteOperation(read, decode, apply, reply, checks_first=False)
