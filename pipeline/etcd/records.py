"""Rows of the znodes' table as etcd keys and values, and back.

Pure. The bytes are schema's. Every zxid of an imported node is written down: etcd's revisions say
nothing about its past.
"""

from collections.abc import Sequence
from typing import NamedTuple

from codec.jute import Acl, pack_acls
from pipeline.table import AclRow, ZnodeRow
from proxy.etcd.model import DEFAULT_MAX_REQUEST_BYTES, KeyValue, Put, op_size
from proxy.tree import CONTAINER_OWNER, session_of
from schema.keys import Keyspace
from schema.paths import is_valid
from schema.values import OPEN_ACL, decode_counter, decode_node, encode_counter, encode_node, zxid_of

# What a Txn needs besides its one largest put: its own guard, and those that a later setData will have.
_ROOM_FOR_GUARDS = 4096
_LARGEST_HEADER = 64  # of a znode's value, without its ACL


class Counter(NamedTuple):
    """A child counter as etcd has it."""

    created: int
    pzxid: int


def puts_of(keys: Keyspace, row: ZnodeRow) -> list[Put]:
    """What stands for a znode in etcd: its node, and its counter unless that says nothing new."""
    acl = OPEN_ACL if row.acl is None else tuple(Acl(*entry) for entry in row.acl)
    value = encode_node(
        row.data,
        acl,
        row.owner,
        row.ctime,
        row.mtime,
        row.version,
        row.aversion,
        row.czxid,
        row.mzxid,
    )
    puts = [Put(keys.node(row.path), value)]
    # Without a counter a node has had no child, and its own czxid for pzxid.
    if row.created or row.pzxid != row.czxid:
        puts.append(Put(keys.counter(row.path), encode_counter(row.created, row.pzxid)))
    return puts


def counter_of(pair: KeyValue, offsets: Sequence[tuple[int, int]]) -> Counter:
    """A counter's key as found in etcd. Raises schema.values.BadValue."""
    created, pzxid = decode_counter(pair.value)
    return Counter(created, zxid_of(offsets, pair.mod_revision) if pzxid is None else pzxid)


def row_of(
    path: str, pair: KeyValue, counter: Counter | None, offsets: Sequence[tuple[int, int]]
) -> ZnodeRow:
    """A znode's row from its key as found in etcd. Raises schema.values.BadValue."""
    value = decode_node(pair.value)
    czxid = value.czxid
    if czxid is None:
        czxid = zxid_of(offsets, pair.mod_revision if value.czxid_is_mod else pair.create_revision)
    mzxid = zxid_of(offsets, pair.mod_revision) if value.mzxid is None else value.mzxid
    if counter is None:
        counter = Counter(0, czxid)
    return ZnodeRow(
        path,
        value.data,
        None if value.acl == OPEN_ACL else tuple(AclRow(*entry) for entry in value.acl),
        czxid,
        mzxid,
        counter.pzxid,
        value.ctime,
        value.mtime,
        value.version,
        counter.created,
        value.aversion,
        value.owner,
    )


def kind_of(owner: int) -> str:
    """What an ephemeralOwner makes of a znode: `persistent`, `ephemeral`, `container` or `ttl`."""
    if not owner:
        return "persistent"
    if owner == CONTAINER_OWNER:
        return "container"
    return "ephemeral" if session_of(owner) else "ttl"


def obstacle_to(
    keys: Keyspace,
    path: str,
    data_size: int,
    acl: Sequence[AclRow] | None,
    max_request_bytes: int = DEFAULT_MAX_REQUEST_BYTES,
) -> str | None:
    """Why a znode cannot be held by zketcd, in words; None if it can. `data_size` in bytes."""
    if not is_valid(path):
        return "ZooKeeper allows no such path"
    size = data_size + op_size(Put(keys.node(path), b"")) + _LARGEST_HEADER + _ROOM_FOR_GUARDS
    if acl is not None:
        size += len(pack_acls([Acl(*entry) for entry in acl]))
    if size > max_request_bytes:
        return f"its {data_size} bytes of data exceed etcd's limit of {max_request_bytes} bytes a request"
    return None
