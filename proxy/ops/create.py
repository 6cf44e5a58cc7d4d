"""create and create2: PrepRequestProcessor.pRequest2TxnCreate."""

from codec.constants import CreateMode, ErrorCode, Perms
from codec.jute import Acl, pack_string
from codec.packets import read_create
from proxy.acl import Caller, demand, expand
from proxy.draft import CHANGE, GUARD_COUNTER, GUARD_NODE, Draft, StatFields
from proxy.operation import WriteOperation
from proxy.ops.stats import pack_stat
from proxy.refusal import Refusal
from proxy.tree import session_of
from schema.paths import ROOT, is_valid

Fields = tuple[str, bytes | None, list[Acl] | None, int]
Created = tuple[str, StatFields]

_EPHEMERAL = 1
_SEQUENTIAL = 2


def apply(draft: Draft, caller: Caller, fields: Fields) -> Created:
    """Create the node; the checks come in ZooKeeper's order, for the first one that fails is the answer."""
    path, data, sent_acl, flags = fields
    _check_mode(flags)
    slash = path.rfind("/")
    if slash < 0 or "\0" in path:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    acl = expand(sent_acl, caller.identities)
    parent = draft.look(path[:slash] or ROOT, GUARD_NODE)
    if not parent.exists:
        raise Refusal(ErrorCode.NO_NODE)
    demand(parent.acl, Perms.CREATE, caller.identities)
    draft.footprint.append((parent, GUARD_COUNTER | CHANGE))
    ephemeral = sequential = False
    if flags and flags != CreateMode.CONTAINER:
        ephemeral, sequential = bool(flags & _EPHEMERAL), bool(flags & _SEQUENTIAL)
        if sequential:
            path = f"{path}{parent.created:010d}"
    if not is_valid(path):
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    # Present or absent, the node needs no guard of its own: its parent's counter tells of each child's coming
    # and going.
    if draft.look(path, 0).exists:
        raise Refusal(ErrorCode.NODE_EXISTS)
    if session_of(parent.owner):
        raise Refusal(ErrorCode.NO_CHILDREN_FOR_EPHEMERALS)
    entry = draft.create(parent, path, data, acl, caller.session_id if ephemeral else 0)
    return path, entry.stat()


def _check_mode(flags: int) -> None:
    """Flags that ZooKeeper refuses first: CreateMode.fromFlag, then TTLs without extendedTypesEnabled."""
    if flags in (CreateMode.PERSISTENT_WITH_TTL, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL):
        raise Refusal(ErrorCode.UNIMPLEMENTED)
    if not 0 <= flags <= CreateMode.CONTAINER:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)


def _path(created: Created, _zxid: int) -> bytes:
    return pack_string(created[0])


def _path_and_stat(created: Created, zxid: int) -> bytes:
    return pack_string(created[0]) + pack_stat(created[1], zxid)


CREATE = WriteOperation(read_create, apply, _path)
CREATE2 = WriteOperation(read_create, apply, _path_and_stat)
