"""setACL: PrepRequestProcessor.pRequest2Txn, case setACL."""

from codec.constants import ErrorCode, Perms
from codec.packets import SetAcl, decoder, read_set_acl
from proxy.acl import Caller, demand, expand
from proxy.draft import CHANGE, GUARD_NODE, Draft, StatFields
from proxy.operation import WriteOperation
from proxy.ops.missing import missing
from proxy.ops.stats import pack_stat
from proxy.refusal import Refusal
from schema.paths import is_valid


def apply(draft: Draft, caller: Caller, fields: SetAcl) -> StatFields:
    """Replace the ACL, in ZooKeeper's order of checks. The version is the ACL's own."""
    path, sent_acl, version = fields
    if not is_valid(path):
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    acl = expand(sent_acl, caller)
    node = draft.look(path, GUARD_NODE | CHANGE)
    if not node.exists:
        raise missing(draft, path)
    demand(node.acl, Perms.ADMIN, caller.identities)
    if version not in (-1, node.aversion):
        raise Refusal(ErrorCode.BAD_VERSION)
    draft.set_acl(node, acl)
    return node.stat()


SET_ACL = WriteOperation(decoder(read_set_acl), apply, pack_stat, checks_first=False)
