"""removeRecursive of Keeper: a node and all that is below it, in one step or not at all."""

from codec.constants import ErrorCode, Perms
from codec.keeper import read_path_limit
from codec.packets import decoder
from proxy.acl import Caller, demand
from proxy.draft import CHANGE, GUARD_COUNTER, GUARD_NODE, Draft
from proxy.operation import WriteOperation
from proxy.ops.missing import missing
from proxy.ops.stats import nothing
from proxy.refusal import Refusal
from schema.paths import ROOT, SPECIAL_PATHS, parent_of

# More are refused as if the client had set this limit: about what fits into etcd's 1.5 MiB for a request.
MOST = 8192

_GOES = GUARD_NODE | GUARD_COUNTER | CHANGE


def apply(draft: Draft, caller: Caller, fields: tuple[str, int]) -> None:
    """Delete the tree, leaves first. NOTEMPTY if it has more nodes than the limit; OK if its parent is gone.

    As in Keeper the permission to delete is asked of the parent and of every node that goes.
    """
    path, limit = fields
    slash = path.rfind("/")
    if slash < 0 or "\0" in path or path in SPECIAL_PATHS or draft.reserves(path):
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    above = path[:slash] or ROOT
    parent = draft.look(above, GUARD_NODE | GUARD_COUNTER)
    if not parent.exists:
        return
    demand(parent.acl, Perms.DELETE, caller.identities)
    if not draft.look(path, GUARD_NODE).exists:
        raise missing(draft, path)
    paths, complete = draft.subtree(path, min(limit, MOST))
    nodes = [draft.look(below, _GOES) for below in paths]
    if not complete:
        raise Refusal(ErrorCode.NOT_EMPTY)
    for node in nodes:
        demand(node.acl, Perms.DELETE, caller.identities)
    draft.look(above, CHANGE)
    for node in reversed(nodes):
        draft.delete(draft.entries[parent_of(node.path)], node)


REMOVE_RECURSIVE = WriteOperation(decoder(read_path_limit), apply, nothing, checks_first=False)
