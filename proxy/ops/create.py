"""create and create2: PrepRequestProcessor.pRequest2TxnCreate."""

from codec.constants import CreateMode, ErrorCode, Perms
from codec.errors import NullString
from codec.jute import Acl, Reader, pack_string
from codec.packets import decode_create, read_create
from proxy.acl import Caller, demand, expand
from proxy.draft import CHANGE, GUARD_COUNTER, GUARD_NODE, Draft, Entry, StatFields
from proxy.operation import WriteOperation
from proxy.ops.stats import pack_stat
from proxy.refusal import Refusal
from proxy.tree import session_of
from schema.paths import ROOT, is_valid
from schema.values import OPEN_ACL

Fields = tuple[str | None, bytes | None, list[Acl] | None, int]
PathAndStat = tuple[str, StatFields]

_EPHEMERAL = 1
_SEQUENTIAL = 2
_CHILD_COMES = GUARD_NODE | GUARD_COUNTER | CHANGE


def create(draft: Draft, caller: Caller, fields: Fields) -> Entry:
    """Create the node; the checks come in ZooKeeper's order, for the first one that fails is the answer."""
    path, data, sent_acl, flags = fields
    if flags:
        _check_mode(flags)
    if path is None:
        raise Refusal(ErrorCode.MARSHALLING_ERROR)  # where ZooKeeper stumbles over it
    slash = path.rfind("/")
    if slash < 0 or "\0" in path:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    acl = expand(sent_acl, caller)
    parent = draft.look(path[:slash] or ROOT, _CHILD_COMES)
    if not parent.exists:
        raise Refusal(ErrorCode.NO_NODE)
    if parent.acl is not OPEN_ACL:
        demand(parent.acl, Perms.CREATE, caller.identities)
    owner = 0
    if flags and flags != CreateMode.CONTAINER:
        if flags & _SEQUENTIAL:
            path = f"{path}{parent.created:010d}"
        if flags & _EPHEMERAL:
            owner = caller.session_id
    if not is_valid(path):
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    # Present or absent, the node needs no guard of its own: its parent's counter tells of each child's coming
    # and going.
    entry = draft.look(path, CHANGE)
    if entry.exists:
        raise Refusal(ErrorCode.NODE_EXISTS)
    if parent.owner and session_of(parent.owner):
        raise Refusal(ErrorCode.NO_CHILDREN_FOR_EPHEMERALS)
    draft.create(parent, entry, data, acl, owner)
    return entry


def _decode(frame: bytes, position: int) -> Fields:
    """The fields; a path may be null, for ZooKeeper looks at the flags before it."""
    try:
        return decode_create(frame, position)
    except NullString:
        reader = Reader(frame, position)
        return reader.string(), reader.buffer(), reader.acls(), reader.int()


def _check_mode(flags: int) -> None:
    """Flags that ZooKeeper refuses first: CreateMode.fromFlag, then TTLs without extendedTypesEnabled."""
    if flags in (CreateMode.PERSISTENT_WITH_TTL, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL):
        raise Refusal(ErrorCode.UNIMPLEMENTED)
    if not 0 <= flags <= CreateMode.CONTAINER:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)


def _for_path(draft: Draft, caller: Caller, fields: Fields) -> str:
    return create(draft, caller, fields).path


def _for_path_and_stat(draft: Draft, caller: Caller, fields: Fields) -> PathAndStat:
    entry = create(draft, caller, fields)
    return entry.path, entry.stat()


def _path(path: str, _zxid: int) -> bytes:
    return pack_string(path)


def _path_and_stat(created: PathAndStat, zxid: int) -> bytes:
    return pack_string(created[0]) + pack_stat(created[1], zxid)


CREATE = WriteOperation(read_create, _decode, _for_path, _path)
CREATE2 = WriteOperation(read_create, _decode, _for_path_and_stat, _path_and_stat)
