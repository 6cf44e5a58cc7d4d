"""checkStat of Keeper: as check, for any field of the Stat."""

from codec.constants import ErrorCode
from codec.keeper import StatValues, read_check_stat
from codec.packets import STAT, decoder
from proxy.state.operation import WriteOperation, nothing
from proxy.state.ops import check
from proxy.state.refusal import Refusal
from proxy.state.transaction import Transaction


def apply(tx: Transaction, fields: tuple[str, int, StatValues]) -> None:
    """Refuse unless the node exists with that version and Stat; -1 in a field is any."""
    path, version, wanted = fields
    check.apply(tx, (path, version))
    actual = STAT.unpack(tx.nodes[path].stat())
    if any(value not in (-1, found) for value, found in zip(wanted, actual, strict=True)):
        raise Refusal(ErrorCode.BAD_VERSION)


CHECK_STAT = WriteOperation(decoder(read_check_stat), apply, nothing)
