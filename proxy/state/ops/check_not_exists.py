"""checkNotExists of Keeper: the opposite of check."""

from codec.constants import ErrorCode, Perms
from codec.packets import decode_path_version
from proxy.state.acl import demand
from proxy.state.operation import WriteOperation, nothing
from proxy.state.refusal import Refusal
from proxy.state.transaction import Transaction
from schema.paths import ROOT, is_valid, parent_of


def apply(tx: Transaction, fields: tuple[str, int]) -> None:
    """Refuse if the node exists with that version (-1: any). The parent has to be readable."""
    path, version = fields
    if not is_valid(path) or tx.reserves(path):
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    parent = tx.nodes.get(parent_of(path)) if path != ROOT else None
    if parent is not None:
        demand(parent.acl, Perms.READ, tx.identities)
    node = tx.nodes.get(path)
    if node is not None and version in (-1, node.version):
        raise Refusal(ErrorCode.NODE_EXISTS)


CHECK_NOT_EXISTS = WriteOperation(decode_path_version, apply, nothing)
