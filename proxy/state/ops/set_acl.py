"""setACL: PrepRequestProcessor.pRequest2Txn, case setACL."""

from codec.constants import ErrorCode, Perms
from codec.packets import SetAcl, decoder, read_set_acl
from proxy.state.effect import Effect
from proxy.state.node import Node
from proxy.state.operation import WriteOperation, stat
from proxy.state.outcome import Refusal
from proxy.state.rights import demand
from proxy.state.transaction import Transaction
from schema.paths import is_valid


def apply(tx: Transaction, fields: SetAcl) -> Node:
    """Replace the ACL, in ZooKeeper's order of checks. The version is the ACL's own."""
    path, sent_acl, version = fields
    if not is_valid(path):
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    rights = tx.expand(sent_acl)
    node = tx.nodes.get(path)
    if node is None:
        raise tx.missing(path)
    demand(node.rights, Perms.ADMIN, tx.identities)
    if version not in (-1, node.aversion):
        raise Refusal(ErrorCode.BAD_VERSION)
    return tx.set_acl(path, node, rights)


SET_ACL = WriteOperation(
    decoder(read_set_acl),
    apply,
    stat,
    has_acl=True,
    effect=Effect.SETS_ACL,
    path_checked_first=True,
    audited="setAcl",
    counted="set_acl",
    word="SETA",
)
