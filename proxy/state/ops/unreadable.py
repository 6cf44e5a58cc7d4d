"""The answer to a write that cannot be decoded, and whether such a write has a zxid of its own."""

from codec.constants import ErrorCode, OpCode
from codec.errors import MalformedPacket, NullString
from proxy.state.operation import WriteOperation


class NullAcl(MalformedPacket):
    """A create of a multi has no ACL, but CreateOptions need one."""


def spends_zxid(opcode: int, error: MalformedPacket) -> bool:
    """Whether ZooKeeper gives the request a zxid before it fails: then it has to go through the log.

    It does if the request is complete but has a null in it, except for deleteContainer, which fails while it
    is decoded. For a multi it does for every error except a null ACL (PrepRequestProcessor.pRequest).
    """
    if opcode == OpCode.MULTI:
        return not isinstance(error, NullAcl)
    return isinstance(error, NullString) and opcode != OpCode.DELETE_CONTAINER


def code_of(operation: WriteOperation, error: MalformedPacket) -> ErrorCode:
    """What ZooKeeper answers."""
    checked = isinstance(error, NullString) and operation.path_checked_first
    return ErrorCode.BAD_ARGUMENTS if checked else ErrorCode.MARSHALLING_ERROR
