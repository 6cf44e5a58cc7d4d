"""create, create2, createContainer and createTTL: PrepRequestProcessor.pRequest2TxnCreate."""

from typing import TypeAlias

from codec.constants import CreateMode, ErrorCode, Perms
from codec.jute import OPEN_ACL, pack_string
from codec.packets import Create, CreateTtl, decode_create, decoder, read_create_ttl
from proxy.state.effect import Effect
from proxy.state.node import Node
from proxy.state.operation import Holds, WriteOperation
from proxy.state.outcome import Refusal
from proxy.state.rights import OPEN, demand
from proxy.state.transaction import Transaction
from schema.paths import ROOT, is_valid
from schema.znode import CONTAINER_OWNER, MAX_TTL, session_of, ttl_owner

# Modes of a create that agree with its opcode: neither a container's nor with a TTL.
_USUAL_MODES = frozenset(
    (
        CreateMode.PERSISTENT,
        CreateMode.EPHEMERAL,
        CreateMode.PERSISTENT_SEQUENTIAL,
        CreateMode.EPHEMERAL_SEQUENTIAL,
    )
)

Created: TypeAlias = tuple[str, Node]

_EPHEMERAL = 1
SEQUENTIAL = 2
_LAST_PLAIN_MODE = _EPHEMERAL | SEQUENTIAL  # higher ones are a container's, have a TTL, or are invalid
# Modes with a TTL, and the same modes without it.
TTL_MODES: dict[int, int] = {
    CreateMode.PERSISTENT_WITH_TTL: CreateMode.PERSISTENT,
    CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL: CreateMode.PERSISTENT_SEQUENTIAL,
}


def create(tx: Transaction, fields: Create, owner: int = 0) -> Created:
    """Create the node. The checks have ZooKeeper's order, since the first that fails determines the answer.

    `owner`: the ephemeralOwner of a container or TTL node, whatever the flags are.
    """
    path, data, sent_acl, flags = fields
    if not 0 <= flags <= _LAST_PLAIN_MODE:
        _check_mode(flags, extended_types=tx.sender.extended_types)
    if path is None:
        raise Refusal(ErrorCode.MARSHALLING_ERROR)  # ZooKeeper fails with an exception here
    slash = path.rfind("/")
    if slash < 0 or "\0" in path:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    rights = OPEN if sent_acl is OPEN_ACL else tx.expand(sent_acl)
    above = path[:slash] or ROOT
    parent = tx.nodes.get(above)
    if parent is None:
        raise tx.missing(path)
    if parent.rights is not OPEN:
        demand(parent.rights, Perms.CREATE, tx.identities)
    if flags:
        if flags & SEQUENTIAL:
            path = f"{path}{seq_delta(parent):010d}"
        if flags & _EPHEMERAL and not owner:
            owner = tx.session_id
    if not is_valid(path):
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    if not slash and tx.reserves(path):
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    if path in tx.nodes:
        raise Refusal(ErrorCode.NODE_EXISTS)
    if parent.owner and session_of(parent.owner):
        raise Refusal(ErrorCode.NO_CHILDREN_FOR_EPHEMERALS)
    if tx.tree.quotas:
        tx.check_quota(path, 1, len(data or b""))
    return path, tx.create(path, above, parent, data, rights, owner)


def seq_delta(parent: Node) -> int:
    """The number at the end of the next sequential child's name: how many children the parent ever had.

    It is known only when the request is applied, and is the same at every server.
    """
    return parent.created


def _check_mode(flags: int, *, extended_types: bool) -> None:
    """Refuse flags as ZooKeeper does first: CreateMode.fromFlag, then a TTL mode in a request without TTL."""
    if flags in TTL_MODES:
        raise Refusal(ErrorCode.BAD_ARGUMENTS if extended_types else ErrorCode.UNIMPLEMENTED)
    if not 0 <= flags <= CreateMode.CONTAINER:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)


def _container(tx: Transaction, fields: Create) -> Created:
    return create(tx, fields, CONTAINER_OWNER)


def _ttl(tx: Transaction, fields: CreateTtl) -> Created:
    """Create a TTL node, after EphemeralType.validateTTL.

    In ZooKeeper, a mode without TTL accepts only a negative TTL, which then ends the whole server. Here such
    a request is refused like the others.
    """
    path, data, sent_acl, flags, ttl = fields
    if flags in TTL_MODES and not tx.sender.extended_types:
        raise Refusal(ErrorCode.UNIMPLEMENTED)
    if flags not in TTL_MODES or not 0 < ttl <= MAX_TTL:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    return create(tx, (path, data, sent_acl, TTL_MODES[flags]), ttl_owner(ttl))


def _path(created: Created) -> bytes:
    return pack_string(created[0])


def _path_and_stat(created: Created) -> bytes:
    path, node = created
    return pack_string(path) + node.stat()


CREATE = WriteOperation(
    decode_create,
    create,
    _path,
    part=True,
    usual_modes=_USUAL_MODES,
    holds=Holds.PATH,
    has_acl=True,
    effect=Effect.CREATES,
    audited="create",
    counted="create",
    word="CREA",
)
CREATE2 = CREATE._replace(reply=_path_and_stat, holds=Holds.PATH | Holds.STAT, audits_mode=False)
CREATE_CONTAINER = CREATE2._replace(apply=_container, audits_mode=True)
CREATE_TTL = CREATE2._replace(decode=decoder(read_create_ttl), apply=_ttl, usual_modes=frozenset())
