"""check, the version test of multis (PrepRequestProcessor.pRequest2Txn), and what Keeper adds to it."""

from codec.constants import ErrorCode, Perms
from codec.keeper import StatValues, read_check_stat
from codec.packets import STAT, decode_path_version, decoder
from proxy.state.operation import Cost, WriteOperation, nothing
from proxy.state.outcome import Refusal
from proxy.state.rights import demand
from proxy.state.transaction import Transaction
from schema.paths import ROOT, is_valid, parent_of


def check(tx: Transaction, fields: tuple[str, int]) -> None:
    """Refuse unless the node exists, is readable and has that version (-1: any)."""
    path, version = fields
    if not is_valid(path):
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    node = tx.nodes.get(path)
    if node is None:
        raise tx.missing(path)
    demand(node.rights, Perms.READ, tx.identities)
    if version not in (-1, node.version):
        raise Refusal(ErrorCode.BAD_VERSION)


def check_stat(tx: Transaction, fields: tuple[str, int, StatValues]) -> None:
    """Refuse unless the node exists with that version and Stat; -1 in a field is any."""
    path, version, wanted = fields
    check(tx, (path, version))
    actual = STAT.unpack(tx.nodes[path].stat())
    if any(value not in (-1, found) for value, found in zip(wanted, actual, strict=True)):
        raise Refusal(ErrorCode.BAD_VERSION)


def check_not_exists(tx: Transaction, fields: tuple[str, int]) -> None:
    """Refuse if the node exists with that version (-1: any). The parent has to be readable."""
    path, version = fields
    if not is_valid(path) or tx.reserves(path):
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    parent = tx.nodes.get(parent_of(path)) if path != ROOT else None
    if parent is not None:
        demand(parent.rights, Perms.READ, tx.identities)
    node = tx.nodes.get(path)
    if node is not None and version in (-1, node.version):
        raise Refusal(ErrorCode.NODE_EXISTS)


_CHECK = WriteOperation(decode_path_version, check, nothing, part=True, cost=Cost.BYTES, counted="check")
CHECK = _CHECK._replace(only_part=True, word="CHEC")
CHECK_STAT = _CHECK._replace(decode=decoder(read_check_stat), apply=check_stat)
CHECK_NOT_EXISTS = _CHECK._replace(apply=check_not_exists)
