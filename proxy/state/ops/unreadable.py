"""The answer to a write that cannot be decoded, and whether such a write has a zxid of its own."""

from collections.abc import Callable, Mapping

from codec.constants import ErrorCode, KeeperOpCode, OpCode
from codec.errors import MalformedPacket, NullId, NullString
from codec.jute import LenientReader, Reader
from codec.packets import read_create, read_create_ttl, read_set_acl

# PrepRequestProcessor validates these requests' paths, null or not; a null path makes it stumble elsewhere.
_PATH_CHECKED_FIRST = (OpCode.SET_DATA, OpCode.SET_ACL)
# What reads the requests that have an ACL, beside a multi.
_WITH_ACL: Mapping[int, Callable[[Reader], object]] = {
    OpCode.CREATE: read_create,
    OpCode.CREATE2: read_create,
    OpCode.CREATE_CONTAINER: read_create,
    OpCode.CREATE_TTL: read_create_ttl,
    OpCode.SET_ACL: read_set_acl,
    KeeperOpCode.CREATE_IF_NOT_EXISTS: read_create,
}


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


def is_refused_at_once(opcode: int, error: MalformedPacket, packet: bytes, position: int) -> bool:
    """Whether the client's server answers without the log. `packet`: its body begins at `position`.

    ZooKeeper stumbles over a null id only in a whole request: one that is cut behind it takes no zxid. The
    state machine does not look that far (level 1 gives such a request a zxid), so it must not get there.
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
