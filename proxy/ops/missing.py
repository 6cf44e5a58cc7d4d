"""The refusal of a write to a node that is not there."""

from codec.constants import ErrorCode
from proxy.draft import Draft
from proxy.refusal import Refusal


def missing(draft: Draft, path: str) -> Refusal:
    """NONODE; or, for a path that the server keeps for itself, BADARGUMENTS as ClickHouse Keeper answers."""
    return Refusal(ErrorCode.BAD_ARGUMENTS if draft.reserves(path) else ErrorCode.NO_NODE)
