"""The answer to a write that cannot be decoded, and whether such a write has a zxid of its own."""

from collections.abc import Callable, Mapping

from codec.constants import ErrorCode, KeeperOpCode, OpCode
from codec.errors import MalformedPacket, NullId, NullString
from codec.jute import LenientReader, Reader
from codec.packets import read_create, read_create_ttl, read_set_acl

# PrepRequestProcessor validates the paths of these requests, null or not. For others it fails on a null path.
_PATH_CHECKED_FIRST = (OpCode.SET_DATA, OpCode.SET_ACL)
# Decoders of the requests that have an ACL, apart from a multi.
_WITH_ACL: Mapping[int, Callable[[Reader], object]] = {
    OpCode.CREATE: read_create,
    OpCode.CREATE2: read_create,
    OpCode.CREATE_CONTAINER: read_create,
    OpCode.CREATE_TTL: read_create_ttl,
    OpCode.SET_ACL: read_set_acl,
    KeeperOpCode.CREATE_IF_NOT_EXISTS: read_create,
}


class NullAcl(MalformedPacket):
    """A create of a multi has no ACL, but CreateOptions need one."""


def spends_zxid(opcode: int, error: MalformedPacket) -> bool:
    """Whether ZooKeeper gives the request a zxid before it fails: then it has to go through the log.

    It does if the request is complete but has a null in it, except for deleteContainer, which fails while it
    is decoded. For a multi it does for every error except a null ACL (PrepRequestProcessor.pRequest).
    """
    if opcode == OpCode.MULTI:
        return not isinstance(error, NullAcl)
    return isinstance(error, NullString | NullId) and opcode != OpCode.DELETE_CONTAINER


def is_refused_at_once(opcode: int, error: MalformedPacket, packet: bytes, position: int) -> bool:
    """Whether the client's server answers without the log. `packet`: its body begins at `position`.

    ZooKeeper fails on a null id only in a complete request: one that is cut after it gets no zxid. The state
    machine does not decode so far (level 1 gives such a request a zxid), so it must not get such a request.
    """
    if not spends_zxid(opcode, error):
        return True
    return isinstance(error, NullId) and opcode != OpCode.MULTI and _is_cut(opcode, packet, position)


def _is_cut(opcode: int, packet: bytes, position: int) -> bool:
    try:
        _WITH_ACL[opcode](LenientReader(packet, position))
    except NullString:
        return False
    except MalformedPacket:
        return True
    return False


def code_of(opcode: int, error: MalformedPacket) -> ErrorCode:
    """What ZooKeeper answers."""
    checked = isinstance(error, NullString) and opcode in _PATH_CHECKED_FIRST
    return ErrorCode.BAD_ARGUMENTS if checked else ErrorCode.MARSHALLING_ERROR
