"""tryRemove of Keeper: delete, content if there is nothing to delete or it may not go."""

from codec.constants import ErrorCode
from codec.packets import decode_path_version
from proxy.acl import Caller
from proxy.draft import Draft
from proxy.operation import WriteOperation
from proxy.ops import delete
from proxy.ops.stats import nothing
from proxy.refusal import Refusal

_NO_MATTER = (ErrorCode.NO_NODE, ErrorCode.BAD_VERSION, ErrorCode.NOT_EMPTY)


def apply(draft: Draft, caller: Caller, fields: tuple[str, int]) -> None:
    """Delete the node if it is there, of that version and empty."""
    place = len(draft.footprint)
    try:
        delete.apply(draft, caller, fields)
    except Refusal as refusal:
        if refusal.code not in _NO_MATTER:
            raise
        draft.unchanged_since(place)


TRY_REMOVE = WriteOperation(decode_path_version, apply, nothing)
