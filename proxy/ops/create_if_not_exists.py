"""createIfNotExists of Keeper: create, content with a node that is there already."""

from codec.constants import ErrorCode
from codec.jute import pack_string
from codec.packets import Create, decode_create, read_create
from proxy.acl import Caller
from proxy.draft import Draft
from proxy.operation import WriteOperation
from proxy.ops.create import SEQUENTIAL, create
from proxy.refusal import Refusal


def apply(draft: Draft, caller: Caller, fields: Create) -> str:
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


CREATE_IF_NOT_EXISTS = WriteOperation(read_create, decode_create, apply, reply)
