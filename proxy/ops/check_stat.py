"""checkStat of Keeper: check that looks at any field of the Stat."""

from codec.constants import ErrorCode, Perms
from codec.keeper import StatValues, read_check_stat
from codec.packets import decoder
from proxy.acl import Caller, demand
from proxy.draft import GUARD_COUNTER, GUARD_NODE, Draft
from proxy.operation import WriteOperation
from proxy.ops.missing import missing
from proxy.ops.stats import nothing
from proxy.refusal import Refusal
from schema.paths import is_valid


def apply(draft: Draft, caller: Caller, fields: tuple[str, int, StatValues]) -> None:
    """Refuse unless the node is there with that version and Stat; -1 in a field is any."""
    path, version, wanted = fields
    if not is_valid(path):
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    node = draft.look(path, GUARD_NODE | GUARD_COUNTER)
    if not node.exists:
        raise missing(draft, path)
    demand(node.acl, Perms.READ, caller.identities)
    if version not in (-1, node.version):
        raise Refusal(ErrorCode.BAD_VERSION)
    if any(value not in (-1, actual) for value, actual in zip(wanted, node.stat(), strict=True)):
        raise Refusal(ErrorCode.BAD_VERSION)


CHECK_STAT = WriteOperation(decoder(read_check_stat), apply, nothing)
