"""createIfNotExists of Keeper: create, content with a node that is there already."""

from codec.constants import ErrorCode
from codec.jute import Acl, pack_string
from codec.packets import decode_create, present
from proxy.acl import Caller
from proxy.draft import Draft
from proxy.operation import WriteOperation
from proxy.ops.create import SEQUENTIAL, create
from proxy.refusal import Refusal

_Fields = tuple[str, bytes | None, tuple[Acl, ...] | None, int]


def _decode(frame: bytes, position: int) -> tuple[_Fields, int]:
    (path, data, acl, flags), end = decode_create(frame, position)
    return (present(path, end), data, acl, flags), end


def apply(draft: Draft, caller: Caller, fields: _Fields) -> str:
    """The path, whether it was there or has been created. A sequential node would never be there."""
    path, _, _, flags = fields
    if flags & SEQUENTIAL:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    place = len(draft.footprint)
    try:
        return create(draft, caller, fields).path
    except Refusal as refusal:
        if refusal.code != ErrorCode.NODE_EXISTS:
            raise
        draft.unchanged_since(place)
        return path


def reply(path: str, _zxid: int) -> bytes:
    """The path."""
    return pack_string(path)


CREATE_IF_NOT_EXISTS = WriteOperation(_decode, apply, reply)
