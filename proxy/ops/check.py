"""check, the version test of multis: PrepRequestProcessor.pRequest2Txn, case check."""

from codec.constants import ErrorCode, Perms
from codec.packets import decode_path_version
from proxy.acl import Caller, demand
from proxy.draft import GUARD_NODE, Draft
from proxy.operation import WriteOperation
from proxy.ops.missing import missing
from proxy.ops.stats import nothing
from proxy.refusal import Refusal
from schema.paths import is_valid


def apply(draft: Draft, caller: Caller, fields: tuple[str, int]) -> None:
    """Refuse unless the node is there, readable and of that version (-1: any)."""
    path, version = fields
    if not is_valid(path):
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    node = draft.look(path, GUARD_NODE)
    if not node.exists:
        raise missing(draft, path)
    demand(node.acl, Perms.READ, caller.identities)
    if version not in (-1, node.version):
        raise Refusal(ErrorCode.BAD_VERSION)


CHECK = WriteOperation(decode_path_version, apply, nothing)
