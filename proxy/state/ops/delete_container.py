"""deleteContainer, and the deletion of containers and TTL nodes that a server has found to be due.

PrepRequestProcessor.pRequest2Txn, case deleteContainer. `expiry` decides which nodes are due.
"""

from codec.constants import ErrorCode, Perms
from codec.jute import Reader
from codec.packets import decoder
from proxy.state.effect import Effect
from proxy.state.node import Node
from proxy.state.operation import WriteOperation, nothing
from proxy.state.outcome import Refusal
from proxy.state.rights import demand
from proxy.state.transaction import Transaction
from schema.entry import NodeDue
from schema.paths import ROOT, SPECIAL_PATHS, parent_of
from schema.znode import CONTAINER_OWNER, session_of, ttl_of


def _delete_container(tx: Transaction, path: str) -> None:
    """A client's request, in ZooKeeper's order of checks: delete any empty node that is not ephemeral.

    ZooKeeper intends it for its own servers and checks no permission. Here it needs that of delete.
    """
    slash = path.rfind("/")
    if slash < 0 or "\0" in path or path in SPECIAL_PATHS:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    node = _emptied(tx, path)
    if session_of(node.owner):
        raise Refusal(ErrorCode.BAD_VERSION)
    above = path[:slash] or ROOT
    parent = tx.nodes[above]
    demand(parent.rights, Perms.DELETE, tx.identities)
    tx.delete(path, above, parent, node)


def delete_due(tx: Transaction, due: NodeDue) -> None:
    """Delete a container or TTL node, if it has not changed since the server found it due."""
    node = _emptied(tx, due.path)
    if (node.czxid, node.version, node.mtime) != (due.czxid, due.version, due.mtime):
        raise Refusal(ErrorCode.BAD_VERSION)
    if node.owner == CONTAINER_OWNER:
        if not node.created and due.max_never_used_ms <= 0:
            raise Refusal(ErrorCode.BAD_VERSION)
    elif not ttl_of(node.owner):
        raise Refusal(ErrorCode.BAD_VERSION)
    above = parent_of(due.path)
    tx.delete(due.path, above, tx.nodes[above], node)


def _emptied(tx: Transaction, path: str) -> Node:
    """The node, which exists and has no children. Raises NONODE, NOTEMPTY."""
    node = tx.nodes.get(path)
    if node is None:
        raise Refusal(ErrorCode.NO_NODE)
    if node.children:
        raise Refusal(ErrorCode.NOT_EMPTY)
    return node


DELETE_CONTAINER = WriteOperation(
    decoder(Reader.text),
    _delete_container,
    nothing,
    effect=Effect.DELETES,
    audited="delete",
    counted="delete",
    word="DELE",
)
