"""checkNotExists of Keeper: the opposite of check."""

from codec.constants import ErrorCode, Perms
from codec.packets import decode_path_version
from proxy.acl import Caller, demand
from proxy.draft import GUARD_NODE, Draft
from proxy.operation import WriteOperation
from proxy.ops.stats import nothing
from proxy.refusal import Refusal
from schema.paths import ROOT, is_valid, parent_of


def apply(draft: Draft, caller: Caller, fields: tuple[str, int]) -> None:
    """Refuse if the node is there in that version (-1: any). It is the parent that has to be readable."""
    path, version = fields
    if not is_valid(path) or draft.reserves(path):
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    if path != ROOT:
        parent = draft.look(parent_of(path), GUARD_NODE)
        if parent.exists:  # else there is nobody to ask; the entry may still have the ACL of what was there
            demand(parent.acl, Perms.READ, caller.identities)
    node = draft.look(path, GUARD_NODE)
    if node.exists and version in (-1, node.version):
        raise Refusal(ErrorCode.NODE_EXISTS)


CHECK_NOT_EXISTS = WriteOperation(decode_path_version, apply, nothing)
