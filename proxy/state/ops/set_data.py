"""setData: PrepRequestProcessor.pRequest2Txn, case setData."""

from codec.constants import ErrorCode, Perms
from codec.packets import decode_set_data
from proxy.state.effect import Effect
from proxy.state.node import Node
from proxy.state.operation import Holds, WriteOperation, stat
from proxy.state.outcome import Refusal
from proxy.state.rights import OPEN, demand
from proxy.state.transaction import Transaction
from schema.paths import is_valid


def apply(tx: Transaction, fields: tuple[str, bytes | None, int]) -> Node:
    """Replace the data, in ZooKeeper's order of checks."""
    path, data, version = fields
    node = tx.nodes.get(path)
    if node is None:
        if not is_valid(path):  # ZooKeeper checks this first, but no node has such a path
            raise Refusal(ErrorCode.BAD_ARGUMENTS)
        raise tx.missing(path)
    if node.rights is not OPEN:
        demand(node.rights, Perms.WRITE, tx.identities)
    if tx.tree.quotas:
        tx.check_quota(path, 0, len(data or b"") - node.size)
    if version not in (-1, node.version):
        raise Refusal(ErrorCode.BAD_VERSION)
    return tx.set_data(path, node, data)


SET_DATA = WriteOperation(
    decode_set_data,
    apply,
    stat,
    part=True,
    holds=Holds.STAT,
    effect=Effect.SETS_DATA,
    path_checked_first=True,
    audited="setData",
    counted="set_data",
    word="SETD",
)
