"""tryRemove of Keeper: delete that also succeeds if the node is missing or cannot be deleted."""

from codec.constants import ErrorCode
from codec.packets import decode_path_version
from proxy.state.operation import WriteOperation, nothing
from proxy.state.ops import delete
from proxy.state.refusal import Refusal
from proxy.state.transaction import Transaction

_NO_MATTER = (ErrorCode.NO_NODE, ErrorCode.BAD_VERSION, ErrorCode.NOT_EMPTY)


def apply(tx: Transaction, fields: tuple[str, int]) -> None:
    """Delete the node if it exists, has that version and is empty."""
    try:
        delete.apply(tx, fields)
    except Refusal as refusal:
        if refusal.code not in _NO_MATTER:
            raise


TRY_REMOVE = WriteOperation(decode_path_version, apply, nothing)
