"""setData: PrepRequestProcessor.pRequest2Txn, case setData."""

from codec.constants import ErrorCode, Perms
from codec.packets import decode_set_data
from proxy.acl import Caller, demand
from proxy.draft import CHANGE, GUARD_NODE, Draft, StatFields
from proxy.operation import WriteOperation
from proxy.ops.missing import missing
from proxy.ops.stats import pack_stat
from proxy.quotas import check
from proxy.refusal import Refusal
from schema.paths import is_valid


def apply(draft: Draft, caller: Caller, fields: tuple[str, bytes | None, int]) -> StatFields:
    """Replace the data, in ZooKeeper's order of checks."""
    path, data, version = fields
    if not is_valid(path):
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    node = draft.look(path, GUARD_NODE | CHANGE)
    if not node.exists:
        raise missing(draft, path)
    demand(node.acl, Perms.WRITE, caller.identities)
    if draft.quotas:
        check(draft.quotas, draft.rules, path, 0, len(data or b"") - len(node.data or b""))
    if version not in (-1, node.version):
        raise Refusal(ErrorCode.BAD_VERSION)
    draft.set_data(node, data)
    return node.stat()


SET_DATA = WriteOperation(decode_set_data, apply, pack_stat)
