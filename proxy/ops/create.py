"""create, create2, createContainer and createTTL: PrepRequestProcessor.pRequest2TxnCreate."""

from codec.constants import CreateMode, ErrorCode, Perms
from codec.jute import pack_string
from codec.packets import Create, CreateTtl, decode_create, decoder, read_create_ttl
from proxy.acl import Caller, demand, expand
from proxy.draft import CHANGE, GUARD_COUNTER, GUARD_NODE, Draft, Entry, StatFields
from proxy.operation import WriteOperation
from proxy.ops.missing import missing
from proxy.ops.stats import pack_stat
from proxy.quotas import check
from proxy.refusal import Refusal
from proxy.rules import Rules
from proxy.tree import CONTAINER_OWNER, MAX_TTL, session_of, ttl_owner
from schema.paths import ROOT, is_valid
from schema.values import OPEN_ACL

PathAndStat = tuple[str, StatFields]

_EPHEMERAL = 1
SEQUENTIAL = 2
_LAST_PLAIN_MODE = _EPHEMERAL | SEQUENTIAL  # those beyond are a container's or have a TTL, or are none
# Modes with a TTL, and what they are without it.
TTL_MODES: dict[int, int] = {
    CreateMode.PERSISTENT_WITH_TTL: CreateMode.PERSISTENT,
    CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL: CreateMode.PERSISTENT_SEQUENTIAL,
}
_CHILD_COMES = GUARD_NODE | GUARD_COUNTER | CHANGE


def create(draft: Draft, caller: Caller, fields: Create, owner: int = 0) -> Entry:
    """Create the node; the checks come in ZooKeeper's order, for the first one that fails is the answer.

    `owner` is a container's or TTL node's, whatever the flags say.
    """
    path, data, sent_acl, flags = fields
    if not 0 <= flags <= _LAST_PLAIN_MODE:
        _check_mode(flags, draft.rules)
    if path is None:
        raise Refusal(ErrorCode.MARSHALLING_ERROR)  # where ZooKeeper stumbles over it
    slash = path.rfind("/")
    if slash < 0 or "\0" in path:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    acl = OPEN_ACL if sent_acl is OPEN_ACL else expand(sent_acl, caller)
    parent = draft.look(path[:slash] or ROOT, _CHILD_COMES)
    if not parent.exists:
        raise missing(draft, path)
    if parent.acl is not OPEN_ACL:
        demand(parent.acl, Perms.CREATE, caller.identities)
    if flags:
        if flags & SEQUENTIAL:
            path = f"{path}{parent.created:010d}"
        if flags & _EPHEMERAL and not owner:
            owner = caller.session_id
    if not is_valid(path):
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    # Present or absent, the node needs no guard of its own: its parent's counter tells of each child's coming
    # and going.
    entry = draft.look(path, CHANGE)
    if not slash and draft.reserves(path):
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    if entry.exists:
        raise Refusal(ErrorCode.NODE_EXISTS)
    if parent.owner and session_of(parent.owner):
        raise Refusal(ErrorCode.NO_CHILDREN_FOR_EPHEMERALS)
    if draft.quotas:
        check(draft.quotas, draft.rules, path, 1, len(data or b""))
    draft.create(parent, entry, data, acl, owner)
    return entry


def _check_mode(flags: int, rules: Rules) -> None:
    """Flags that ZooKeeper refuses first: CreateMode.fromFlag, then a TTL mode where there is no TTL."""
    if flags in TTL_MODES:
        raise Refusal(ErrorCode.BAD_ARGUMENTS if rules.extended_types else ErrorCode.UNIMPLEMENTED)
    if not 0 <= flags <= CreateMode.CONTAINER:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)


def _for_path(draft: Draft, caller: Caller, fields: Create) -> str:
    return create(draft, caller, fields).path


def _for_path_and_stat(draft: Draft, caller: Caller, fields: Create) -> PathAndStat:
    entry = create(draft, caller, fields)
    return entry.path, entry.stat()


def _container(draft: Draft, caller: Caller, fields: Create) -> PathAndStat:
    entry = create(draft, caller, fields, CONTAINER_OWNER)
    return entry.path, entry.stat()


def _ttl(draft: Draft, caller: Caller, fields: CreateTtl) -> PathAndStat:
    """Create a TTL node, after EphemeralType.validateTTL.

    A mode without TTL goes with no TTL at all there, and a negative one then ends the whole server: it is
    refused here like the others.
    """
    path, data, sent_acl, flags, ttl = fields
    if flags in TTL_MODES and not draft.rules.extended_types:
        raise Refusal(ErrorCode.UNIMPLEMENTED)
    if flags not in TTL_MODES or not 0 < ttl <= MAX_TTL:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    entry = create(draft, caller, (path, data, sent_acl, TTL_MODES[flags]), ttl_owner(ttl))
    return entry.path, entry.stat()


def _path(path: str, _zxid: int) -> bytes:
    return pack_string(path)


def _path_and_stat(created: PathAndStat, zxid: int) -> bytes:
    return pack_string(created[0]) + pack_stat(created[1], zxid)


CREATE = WriteOperation(decode_create, _for_path, _path)
CREATE2 = WriteOperation(decode_create, _for_path_and_stat, _path_and_stat)
CREATE_CONTAINER = WriteOperation(decode_create, _container, _path_and_stat)
CREATE_TTL = WriteOperation(decoder(read_create_ttl), _ttl, _path_and_stat)
