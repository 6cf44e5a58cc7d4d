"""The answer to a write that cannot be decoded, and whether such a write has a zxid of its own."""

from codec.constants import ErrorCode, OpCode
from codec.errors import MalformedPacket, NullId, NullString

# PrepRequestProcessor validates these requests' paths, null or not; a null path makes it stumble elsewhere.
_PATH_CHECKED_FIRST = (OpCode.SET_DATA, OpCode.SET_ACL)


class NullAcl(MalformedPacket):
    """A create of a multi without any ACL: CreateOptions want one."""


def spends_zxid(opcode: int, error: MalformedPacket) -> bool:
    """Whether ZooKeeper has given the request a zxid before it stumbles: then it has to go through the log.

    It has where the request is whole but something in it is null, though deleteContainer stumbles while it is
    decoded; and for a multi whatever is wrong with it, but for a null ACL (PrepRequestProcessor.pRequest).
    """
    if opcode == OpCode.MULTI:
        return not isinstance(error, NullAcl)
    return isinstance(error, NullString | NullId) and opcode != OpCode.DELETE_CONTAINER


def code_of(opcode: int, error: MalformedPacket) -> ErrorCode:
    """What ZooKeeper answers."""
    checked = isinstance(error, NullString) and opcode in _PATH_CHECKED_FIRST
    return ErrorCode.BAD_ARGUMENTS if checked else ErrorCode.MARSHALLING_ERROR
