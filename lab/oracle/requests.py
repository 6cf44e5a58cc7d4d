"""What a client can ask, as values and as bytes. Layouts follow ZooKeeper 3.9's zookeeper.jute.

Servers are compared by these requests (tests.compat), and models of ZooKeeper take them (proof.naive). Every
request is a NamedTuple whose repr is Python.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from lab.oracle import wire
from lab.oracle.wire import Cursor, pack_acls, pack_buffer, pack_int, pack_long, pack_string, pack_strings

AclList = tuple[tuple[int, str | None, str | None], ...]
OPEN: AclList = ((31, "world", "anyone"),)

PERSISTENT, EPHEMERAL, SEQUENTIAL, EPHEMERAL_SEQUENTIAL, CONTAINER, WITH_TTL, SEQUENTIAL_WITH_TTL = range(7)


class Create(NamedTuple):
    """create, or create2 if `with_stat`."""

    path: str | None
    data: bytes | None = b""
    flags: int = 0
    acls: AclList | None = OPEN
    with_stat: bool = False


class CreateContainer(NamedTuple):
    """createContainer; the flags are those of create, and ZooKeeper's own clients send CONTAINER."""

    path: str | None
    data: bytes | None = b""
    flags: int = CONTAINER
    acls: AclList | None = OPEN


class CreateTtl(NamedTuple):
    """createTTL; `ttl` in milliseconds."""

    path: str | None
    data: bytes | None = b""
    ttl: int = 3_600_000
    flags: int = WITH_TTL
    acls: AclList | None = OPEN


class DeleteContainer(NamedTuple):
    """deleteContainer, which servers send to themselves."""

    path: str | None


class Delete(NamedTuple):
    """delete."""

    path: str | None
    version: int = -1


class Exists(NamedTuple):
    """exists."""

    path: str | None
    watch: bool = False


class GetData(NamedTuple):
    """getData."""

    path: str | None
    watch: bool = False


class SetData(NamedTuple):
    """setData."""

    path: str | None
    data: bytes | None = b""
    version: int = -1


class GetAcl(NamedTuple):
    """getAcl."""

    path: str | None


class SetAcl(NamedTuple):
    """setAcl."""

    path: str | None
    acls: AclList | None = OPEN
    version: int = -1


class GetChildren(NamedTuple):
    """getChildren, or getChildren2 if `with_stat`."""

    path: str | None
    watch: bool = False
    with_stat: bool = False


class Sync(NamedTuple):
    """sync."""

    path: str | None


class Check(NamedTuple):
    """check; ZooKeeper takes it only inside a multi."""

    path: str | None
    version: int = -1


class Multi(NamedTuple):
    """multi."""

    ops: tuple[Request, ...] = ()


class AddAuth(NamedTuple):
    """The auth packet."""

    scheme: str | None
    auth: bytes | None


class SetWatches(NamedTuple):
    """setWatches; `since` is the zxid that the client claims to have seen, or a script's word for it."""

    since: int | str
    data: tuple[str, ...] = ()
    exist: tuple[str, ...] = ()
    child: tuple[str, ...] = ()


class SetWatches2(NamedTuple):
    """setWatches2; `since` as in SetWatches."""

    since: int | str
    data: tuple[str, ...] = ()
    exist: tuple[str, ...] = ()
    child: tuple[str, ...] = ()
    persistent: tuple[str | None, ...] = ()
    recursive: tuple[str | None, ...] = ()


class AddWatch(NamedTuple):
    """addWatch; mode 0 is persistent, 1 persistent and recursive."""

    path: str | None
    mode: int = 0


class CheckWatches(NamedTuple):
    """checkWatches; kind 1 is children, 2 data, 3 any, 4 persistent, 5 persistent and recursive."""

    path: str | None
    kind: int = 3


class RemoveWatches(NamedTuple):
    """removeWatches; kinds as in CheckWatches."""

    path: str | None
    kind: int = 3


class MultiRead(NamedTuple):
    """multiRead."""

    ops: tuple[Request, ...] = ()


class GetEphemerals(NamedTuple):
    """getEphemerals."""

    prefix: str | None


class GetAllChildrenNumber(NamedTuple):
    """getAllChildrenNumber."""

    path: str | None


class WhoAmI(NamedTuple):
    """whoAmI."""


class Reconfig(NamedTuple):
    """reconfig."""

    joining: str | None = None
    leaving: str | None = None
    members: str | None = None
    version: int = -1


class Sasl(NamedTuple):
    """The sasl packet."""

    token: bytes | None


class CloseSession(NamedTuple):
    """closeSession."""


class CheckNotExists(NamedTuple):
    """ClickHouse Keeper's, as the four below."""

    path: str | None
    version: int = -1


class CreateIfNotExists(NamedTuple):
    """createIfNotExists."""

    path: str | None
    data: bytes | None = b""
    flags: int = 0
    acls: AclList | None = OPEN


class RemoveRecursive(NamedTuple):
    """removeRecursive."""

    path: str | None
    limit: int = 1000


class CheckStat(NamedTuple):
    """checkStat."""

    path: str | None
    version: int = -1
    stat: tuple[int, ...] = (-1,) * 11


class TryRemove(NamedTuple):
    """tryRemove."""

    path: str | None
    version: int = -1


class Ping(NamedTuple):
    """ping."""


class Payload(NamedTuple):
    """Any bytes as one well-framed packet; a plain request follows to see whether the connection lives."""

    data: bytes


Request = (
    Create
    | CreateContainer
    | CreateTtl
    | DeleteContainer
    | Delete
    | Exists
    | GetData
    | SetData
    | GetAcl
    | SetAcl
    | GetChildren
    | Sync
    | Check
    | Multi
    | AddAuth
    | SetWatches
    | SetWatches2
    | AddWatch
    | CheckWatches
    | RemoveWatches
    | MultiRead
    | GetEphemerals
    | GetAllChildrenNumber
    | WhoAmI
    | Reconfig
    | Sasl
    | CloseSession
    | CheckNotExists
    | CreateIfNotExists
    | RemoveRecursive
    | CheckStat
    | TryRemove
    | Ping
    | Payload
)


# What follows the header of a request: its fields in their order.
_LAYOUTS: dict[type, tuple[int, str]] = {
    Create: (wire.CREATE, "path data acls flags"),
    CreateContainer: (wire.CREATE_CONTAINER, "path data acls flags"),
    CreateTtl: (wire.CREATE_TTL, "path data acls flags ttl"),
    DeleteContainer: (wire.DELETE_CONTAINER, "path"),
    Delete: (wire.DELETE, "path version"),
    Exists: (wire.EXISTS, "path watch"),
    GetData: (wire.GET_DATA, "path watch"),
    SetData: (wire.SET_DATA, "path data version"),
    GetAcl: (wire.GET_ACL, "path"),
    SetAcl: (wire.SET_ACL, "path acls version"),
    GetChildren: (wire.GET_CHILDREN, "path watch"),
    Sync: (wire.SYNC, "path"),
    Check: (wire.CHECK, "path version"),
    AddWatch: (wire.ADD_WATCH, "path mode"),
    CheckWatches: (wire.CHECK_WATCHES, "path kind"),
    RemoveWatches: (wire.REMOVE_WATCHES, "path kind"),
    GetEphemerals: (wire.GET_EPHEMERALS, "prefix"),
    GetAllChildrenNumber: (wire.GET_ALL_CHILDREN_NUMBER, "path"),
    WhoAmI: (wire.WHO_AM_I, ""),
    Sasl: (wire.SASL, "token"),
    CloseSession: (wire.CLOSE_SESSION, ""),
    Ping: (wire.PING, ""),
    CheckNotExists: (wire.CHECK_NOT_EXISTS, "path version"),
    CreateIfNotExists: (wire.CREATE_IF_NOT_EXISTS, "path data acls flags"),
    RemoveRecursive: (wire.REMOVE_RECURSIVE, "path limit"),
    CheckStat: (wire.CHECK_STAT, "path version stat"),
    TryRemove: (wire.TRY_REMOVE, "path version"),
    # And those that are more than their fields:
    Multi: (wire.MULTI, ""),
    MultiRead: (wire.MULTI_READ, ""),
    AddAuth: (wire.AUTH, ""),
    SetWatches: (wire.SET_WATCHES, ""),
    SetWatches2: (wire.SET_WATCHES2, ""),
    Reconfig: (wire.RECONFIG, ""),
}
_PACK: dict[str, Callable[[Any], bytes]] = {
    **dict.fromkeys(("path", "prefix"), pack_string),
    **dict.fromkeys(("data", "token"), pack_buffer),
    **dict.fromkeys(("flags", "version", "mode", "kind", "limit"), pack_int),
    "acls": pack_acls,
    "ttl": pack_long,
    "watch": lambda value: bytes([value]),
    "stat": lambda value: wire.STAT.pack(*value),
}
_READ: dict[str, Callable[[Cursor], Any]] = {
    "path": Cursor.string,
    "data": Cursor.buffer,
    **dict.fromkeys(("flags", "version", "limit"), Cursor.integer),
    "acls": lambda cursor: tuple(cursor.acls()),
    "ttl": Cursor.long,
    "stat": lambda cursor: tuple(cursor.stat()),
}
_END_OF_PARTS = pack_int(-1) + b"\1" + pack_int(-1)


def opcode(request: Request) -> int:
    """Return the opcode that a request goes under; a Payload's is read from its bytes (0 if too short)."""
    match request:
        case Create() if request.with_stat:
            return wire.CREATE2
        case GetChildren() if request.with_stat:
            return wire.GET_CHILDREN2
        case Payload():
            return int(struct.unpack_from(">i", request.data, 4)[0]) if len(request.data) >= 8 else 0
    return _LAYOUTS[type(request)][0]


_SPECIAL_XIDS: dict[type, int] = {
    AddAuth: wire.AUTH_XID,
    SetWatches: wire.SET_WATCHES_XID,
    SetWatches2: wire.SET_WATCHES_XID,
    Ping: wire.PING_XID,
}


def writes(request: Request) -> bool:
    """Return whether success of a request that the comparisons send makes a new zxid."""
    return isinstance(request, (*_CHANGES, Multi))


def encode(request: Request, xid: int) -> bytes:
    """Return the payload of a request."""
    if isinstance(request, Payload):
        return request.data
    return struct.pack(">ii", _SPECIAL_XIDS.get(type(request), xid), opcode(request)) + encode_body(request)


def encode_body(request: Request) -> bytes:
    """Return what follows the request header."""
    match request:
        case Payload(data):
            return data
        case Multi(ops) | MultiRead(ops):
            parts = (pack_int(opcode(op)) + b"\0" + pack_int(-1) + encode_body(op) for op in ops)
            return b"".join(parts) + _END_OF_PARTS
        case AddAuth(scheme, auth):
            return pack_int(0) + pack_string(scheme) + pack_buffer(auth)
        case SetWatches() | SetWatches2():
            since, *lists = request
            return pack_long(int(since)) + b"".join(map(pack_strings, lists))
        case Reconfig():
            *texts, version = request
            return b"".join(map(pack_string, texts)) + pack_long(version)
    _, layout = _LAYOUTS[type(request)]
    return b"".join(_PACK[name](getattr(request, name)) for name in layout.split())


_CHANGES = (Create, CreateContainer, CreateTtl, DeleteContainer, Delete, SetData, SetAcl)
_WRITES: Mapping[int, type] = {
    _LAYOUTS[kind][0]: kind
    for kind in (
        *(*_CHANGES, Check, CloseSession),
        *(CheckNotExists, CreateIfNotExists, RemoveRecursive, CheckStat, TryRemove),
    )
} | {wire.CREATE2: Create}


def decode_write(code: int, cursor: Cursor) -> Any:
    """Return the request that changes something, by its opcode and body; None for another."""
    if code == wire.MULTI:
        parts: list[Request] = []
        while True:
            part, done, _ = cursor.integer(), cursor.boolean(), cursor.integer()
            if done:
                return Multi(tuple(parts))
            parts.append(decode_write(part, cursor))
    kind = _WRITES.get(code)
    if kind is None:
        return None
    fields = {name: _READ[name](cursor) for name in _LAYOUTS[kind][1].split()}
    return kind(**fields, **({"with_stat": True} if code == wire.CREATE2 else {}))
