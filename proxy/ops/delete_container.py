"""deleteContainer, and the same as the proxy itself asks for it: the end of containers and TTL nodes.

PrepRequestProcessor.pRequest2Txn, case deleteContainer. What is due is `proxy.reaping`'s to say.
"""

from typing import NoReturn

from codec.constants import ErrorCode, Perms
from codec.jute import Reader
from codec.packets import decoder
from proxy.acl import Caller, demand
from proxy.draft import CHANGE, GUARD_COUNTER, GUARD_NODE, Draft, Entry
from proxy.operation import WriteOperation
from proxy.ops.stats import nothing
from proxy.reaping import is_due
from proxy.refusal import Refusal
from proxy.tree import session_of
from schema.paths import ROOT, SPECIAL_PATHS, parent_of


def _delete_container(draft: Draft, caller: Caller, path: str) -> None:
    """A client's request, in ZooKeeper's order of checks: any empty node but an ephemeral goes.

    ZooKeeper means it for its own servers and asks for no permission; here it takes the one of delete.
    """
    slash = path.rfind("/")
    if slash < 0 or "\0" in path or path in SPECIAL_PATHS:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    node = _emptied(draft, path)
    if session_of(node.owner):
        raise Refusal(ErrorCode.BAD_VERSION)
    parent = draft.look(path[:slash] or ROOT, GUARD_NODE | GUARD_COUNTER | CHANGE)
    demand(parent.acl, Perms.DELETE, caller.identities)
    draft.delete(parent, node)


def _reap(draft: Draft, _caller: Caller, fields: tuple[str, int]) -> None:
    """Delete a container or TTL node (path, longest time unused in ms) if it is due at this very point."""
    path, max_never_used = fields
    node = _emptied(draft, path)
    if not is_due(node, draft.now, max_never_used):
        raise Refusal(ErrorCode.BAD_VERSION)
    draft.delete(draft.look(parent_of(path), GUARD_COUNTER | CHANGE), node)


def _emptied(draft: Draft, path: str) -> Entry:
    """The node, which is there and has no children. Raises NONODE, NOTEMPTY."""
    node = draft.look(path, GUARD_NODE | GUARD_COUNTER | CHANGE)
    if not node.exists:
        raise Refusal(ErrorCode.NO_NODE)
    if node.child_count > 0:
        raise Refusal(ErrorCode.NOT_EMPTY)
    return node


def _not_on_the_wire(*_: object) -> NoReturn:
    raise AssertionError("this operation comes from the proxy itself")


DELETE_CONTAINER = WriteOperation(decoder(Reader.text), _delete_container, nothing)
REAP = WriteOperation(_not_on_the_wire, _reap, nothing)
