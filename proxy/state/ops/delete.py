"""delete (PrepRequestProcessor.pRequest2Txn), and tryRemove of Keeper."""

from codec.constants import ErrorCode, Perms
from codec.packets import decode_path_version
from proxy.state.effect import Effect
from proxy.state.operation import WriteOperation, nothing
from proxy.state.outcome import Refusal
from proxy.state.rights import OPEN, demand
from proxy.state.transaction import Transaction
from schema.paths import ROOT, SPECIAL_PATHS

_NO_MATTER = (ErrorCode.NO_NODE, ErrorCode.BAD_VERSION, ErrorCode.NOT_EMPTY)  # to tryRemove


def apply(tx: Transaction, fields: tuple[str, int]) -> None:
    """Delete the node, in ZooKeeper's order of checks."""
    path, version = fields
    slash = path.rfind("/")
    if slash < 0 or "\0" in path or path in SPECIAL_PATHS:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    above = path[:slash] or ROOT
    parent = tx.nodes.get(above)
    if parent is None:
        raise tx.missing(path)
    if parent.rights is not OPEN:
        demand(parent.rights, Perms.DELETE, tx.identities)
    node = tx.nodes.get(path)
    if node is None:
        raise tx.missing(path)
    if version not in (-1, node.version):
        raise Refusal(ErrorCode.BAD_VERSION)
    if node.children:
        raise Refusal(ErrorCode.NOT_EMPTY)
    tx.delete(path, above, parent, node)


def try_remove(tx: Transaction, fields: tuple[str, int]) -> None:
    """Delete the node if it exists, has that version and is empty."""
    try:
        apply(tx, fields)
    except Refusal as refusal:
        if refusal.code not in _NO_MATTER:
            raise


DELETE = WriteOperation(
    decode_path_version,
    apply,
    nothing,
    part=True,
    effect=Effect.DELETES,
    audited="delete",
    counted="delete",
    word="DELE",
)
TRY_REMOVE = DELETE._replace(apply=try_remove, word="")
