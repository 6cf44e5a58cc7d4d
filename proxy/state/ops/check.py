"""check, the version test of multis: PrepRequestProcessor.pRequest2Txn, case check."""

from codec.constants import ErrorCode, Perms
from codec.packets import decode_path_version
from proxy.state.acl import demand
from proxy.state.operation import WriteOperation, nothing
from proxy.state.ops.missing import missing
from proxy.state.refusal import Refusal
from proxy.state.transaction import Transaction
from schema.paths import is_valid


def apply(tx: Transaction, fields: tuple[str, int]) -> None:
    """Refuse unless the node exists, is readable and has that version (-1: any)."""
    path, version = fields
    if not is_valid(path):
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    node = tx.nodes.get(path)
    if node is None:
        raise missing(tx, path)
    demand(node.acl, Perms.READ, tx.identities)
    if version not in (-1, node.version):
        raise Refusal(ErrorCode.BAD_VERSION)


CHECK = WriteOperation(decode_path_version, apply, nothing)
