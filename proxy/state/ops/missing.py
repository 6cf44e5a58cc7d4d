"""The refusal of a write to a node that does not exist."""

from codec.constants import ErrorCode
from proxy.state.refusal import Refusal
from proxy.state.transaction import Transaction


def missing(tx: Transaction, path: str) -> Refusal:
    """NONODE; or, for a path that the server keeps for itself, BADARGUMENTS as ClickHouse Keeper answers."""
    return Refusal(ErrorCode.BAD_ARGUMENTS if tx.reserves(path) else ErrorCode.NO_NODE)
