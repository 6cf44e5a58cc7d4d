"""checkStat of Keeper: check that looks at any field of the Stat."""

from codec.constants import ErrorCode, Perms
from codec.keeper import StatValues, read_check_stat
from codec.packets import STAT, decoder
from proxy.state.acl import demand
from proxy.state.operation import WriteOperation, nothing
from proxy.state.ops.missing import missing
from proxy.state.refusal import Refusal
from proxy.state.transaction import Transaction
from schema.paths import is_valid


def apply(tx: Transaction, fields: tuple[str, int, StatValues]) -> None:
    """Refuse unless the node is there with that version and Stat; -1 in a field is any."""
    path, version, wanted = fields
    if not is_valid(path):
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    node = tx.nodes.get(path)
    if node is None:
        raise missing(tx, path)
    demand(node.acl, Perms.READ, tx.identities)
    if version not in (-1, node.version):
        raise Refusal(ErrorCode.BAD_VERSION)
    if any(value not in (-1, actual) for value, actual in zip(wanted, STAT.unpack(node.stat()), strict=True)):
        raise Refusal(ErrorCode.BAD_VERSION)


CHECK_STAT = WriteOperation(decoder(read_check_stat), apply, nothing)
