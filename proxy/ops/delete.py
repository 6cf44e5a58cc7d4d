"""delete: PrepRequestProcessor.pRequest2Txn, case delete."""

from codec.constants import ErrorCode, Perms
from codec.packets import decode_path_version
from proxy.acl import Caller, demand
from proxy.draft import CHANGE, GUARD_COUNTER, GUARD_NODE, Draft
from proxy.operation import WriteOperation
from proxy.ops.missing import missing
from proxy.ops.stats import nothing
from proxy.refusal import Refusal
from schema.paths import ROOT, SPECIAL_PATHS


def apply(draft: Draft, caller: Caller, fields: tuple[str, int]) -> None:
    """Delete the node, in ZooKeeper's order of checks."""
    path, version = fields
    slash = path.rfind("/")
    if slash < 0 or "\0" in path or path in SPECIAL_PATHS:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    parent = draft.look(path[:slash] or ROOT, GUARD_NODE | GUARD_COUNTER | CHANGE)
    if not parent.exists:
        raise missing(draft, path)
    demand(parent.acl, Perms.DELETE, caller.identities)
    # That the node is there, its parent's counter says; the node itself matters for its version only.
    node = draft.look(path, CHANGE | GUARD_COUNTER if version == -1 else CHANGE | GUARD_COUNTER | GUARD_NODE)
    if not node.exists:
        raise missing(draft, path)
    if version not in (-1, node.version):
        raise Refusal(ErrorCode.BAD_VERSION)
    if node.child_count > 0:
        raise Refusal(ErrorCode.NOT_EMPTY)
    draft.delete(parent, node)


DELETE = WriteOperation(decode_path_version, apply, nothing)
