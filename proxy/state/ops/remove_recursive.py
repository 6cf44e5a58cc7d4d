"""removeRecursive of Keeper: delete a node and all nodes below it, all or none.

It is the only write that costs more than its bytes: 24 of them delete thousands of nodes, but only once. A
multi that fails behind it undoes that, and can come again and again, at all proxies. So only so much can be
searched in vain (`Transaction.may_search`); beyond that a subtree is refused as if it had too many nodes.
"""

from codec.constants import ErrorCode, Perms
from codec.keeper import read_path_limit
from codec.packets import decoder
from proxy.state.effect import Effect
from proxy.state.operation import Cost, WriteOperation, nothing
from proxy.state.outcome import Refusal
from proxy.state.rights import demand
from proxy.state.transaction import Transaction
from schema.paths import ROOT, SPECIAL_PATHS, parent_of

# More nodes in a request are refused as if the client had set this limit: while they are deleted, no proxy
# applies anything else. 8,000 nodes take 50 ms.
MOST = 8192
# So many a request may always search: that takes as long as an entry's own way.
_ALWAYS = 8


def apply(tx: Transaction, fields: tuple[str, int]) -> None:
    """Delete the subtree, leaves first. NOTEMPTY if it has too many nodes; OK if its parent does not exist.

    As in Keeper, the parent and every node that is deleted must grant the permission to delete.
    """
    nodes = tx.nodes
    for below in tx.pause.each(_leaving(tx, fields)):
        above = parent_of(below)
        tx.delete(below, above, nodes[above], nodes[below])


def _leaving(tx: Transaction, fields: tuple[str, int]) -> list[str]:
    """The nodes to delete, leaves first. Raises Refusal."""
    path, limit = fields
    slash = path.rfind("/")
    if slash < 0 or "\0" in path or path in SPECIAL_PATHS or tx.reserves(path):
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    nodes = tx.nodes
    parent = nodes.get(path[:slash] or ROOT)
    if parent is None:
        return []
    demand(parent.rights, Perms.DELETE, tx.identities)
    if path not in nodes:
        raise tx.missing(path)
    most, allowed = min(limit, MOST - tx.searched), max(tx.may_search, _ALWAYS - tx.searched)
    try:
        paths = _subtree(tx, path, min(most, allowed))
    except Refusal:
        if allowed < most:
            tx.search_refused(path)
        raise
    for below in tx.pause.each(paths):
        demand(nodes[below].rights, Perms.DELETE, tx.identities)
    paths.reverse()
    return paths


def _subtree(tx: Transaction, path: str, limit: int) -> list[str]:
    """A node and all nodes below it, parents first. Raises NOTEMPTY for more than `limit` nodes."""
    found = [path]
    tx.searched += 1
    for above in found:
        children = tx.nodes[above].children or ()
        if len(found) + len(children) > limit:
            raise Refusal(ErrorCode.NOT_EMPTY)
        tx.searched += len(children)
        found += tx.pause.sorted_texts(children)
        tx.pause.spend(1)
    return found


REMOVE_RECURSIVE = WriteOperation(
    decoder(read_path_limit),
    apply,
    nothing,
    part=True,
    cost=Cost.CHANGES | Cost.SEARCH,
    effect=Effect.DELETES,
    audited="deleteRecursive",
    counted="delete",
)
