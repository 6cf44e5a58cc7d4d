"""What a client can ask, as values and as bytes.

Servers are compared by these requests (tests.compat), and models of ZooKeeper take them (proof.naive). Every
request is a NamedTuple whose repr is Python.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from lab.oracle import records, wire
from lab.oracle.records import Record, Type
from lab.oracle.wire import Cursor, pack_int

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
    """The auth packet; clients send 0 as `kind`."""

    scheme: str | None
    auth: bytes | None
    kind: int = 0


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
    """reconfig; `config` is the zxid of the configuration that it changes."""

    joining: str | None = None
    leaving: str | None = None
    members: str | None = None
    config: int = -1


class Sasl(NamedTuple):
    """The sasl packet."""

    token: bytes | None


class CloseSession(NamedTuple):
    """closeSession."""


class FilteredList(NamedTuple):
    """ClickHouse Keeper's, as the seven below; `only` is one of its kinds of children, 0 all."""

    path: str | None
    watch: bool = False
    only: int = 0


class CheckNotExists(NamedTuple):
    """checkNotExists."""

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


class ListWithStatAndData(NamedTuple):
    """listWithStatAndData; `only` as in FilteredList."""

    path: str | None
    watch: bool = False
    only: int = 0
    with_stats: bool = True
    with_data: bool = True


class ListRecursive(NamedTuple):
    """listRecursive."""

    path: str | None
    limit: int = 1000


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
    | FilteredList
    | CheckNotExists
    | CreateIfNotExists
    | RemoveRecursive
    | CheckStat
    | TryRemove
    | ListWithStatAndData
    | ListRecursive
    | Ping
    | Payload
)


def _write_parts(parts: tuple[Request, ...]) -> bytes:
    each = (pack_int(opcode(part)) + b"\0" + pack_int(-1) + encode_body(part) for part in parts)
    return b"".join(each) + _END_OF_PARTS


def _read_parts(cursor: Cursor) -> tuple[Request, ...]:
    parts: list[Request] = []
    while True:
        part, done, _ = cursor.integer(), cursor.boolean(), cursor.integer()
        if done:
            return tuple(parts)
        parts.append(decode_body(part, cursor))


_END_OF_PARTS = pack_int(-1) + b"\1" + pack_int(-1)
_TYPES: dict[str, Type] = {
    **dict.fromkeys(("path", "prefix", "scheme", "joining", "leaving", "members"), records.TEXT),
    **dict.fromkeys(("data", "token", "auth"), records.BUFFER),
    **dict.fromkeys(("flags", "version", "mode", "kind"), records.INT),
    **dict.fromkeys(("ttl", "config"), records.LONG),
    **dict.fromkeys(("watch", "with_stats", "with_data"), records.BOOLEAN),
    "acls": records.ACLS,
    "limit": records.UNSIGNED,
    "only": records.BYTE,
    "ops": Type(_write_parts, _read_parts),
    "stat": records.STAT,
}


def _record(fields: str) -> Record:
    return {name: _TYPES[name] for name in fields.split()}


_PATH, _PATH_WATCH, _PATH_VERSION = _record("path"), _record("path watch"), _record("path version")
_CREATE = _record("path data acls flags")


def _watches(of: type[SetWatches] | type[SetWatches2]) -> Record:
    return {"since": records.LONG, **dict.fromkeys(of._fields[1:], records.TEXTS)}


# What follows the header of a request.
_RECORDS: dict[type, tuple[int, Record]] = {
    Create: (wire.CREATE, _CREATE),
    CreateContainer: (wire.CREATE_CONTAINER, _CREATE),
    CreateTtl: (wire.CREATE_TTL, {**_CREATE, "ttl": records.LONG}),
    DeleteContainer: (wire.DELETE_CONTAINER, _PATH),
    Delete: (wire.DELETE, _PATH_VERSION),
    Exists: (wire.EXISTS, _PATH_WATCH),
    GetData: (wire.GET_DATA, _PATH_WATCH),
    SetData: (wire.SET_DATA, _record("path data version")),
    GetAcl: (wire.GET_ACL, _PATH),
    SetAcl: (wire.SET_ACL, _record("path acls version")),
    GetChildren: (wire.GET_CHILDREN, _PATH_WATCH),
    Sync: (wire.SYNC, _PATH),
    Check: (wire.CHECK, _PATH_VERSION),
    Multi: (wire.MULTI, _record("ops")),
    AddAuth: (wire.AUTH, _record("kind scheme auth")),
    SetWatches: (wire.SET_WATCHES, _watches(SetWatches)),
    SetWatches2: (wire.SET_WATCHES2, _watches(SetWatches2)),
    AddWatch: (wire.ADD_WATCH, _record("path mode")),
    CheckWatches: (wire.CHECK_WATCHES, _record("path kind")),
    RemoveWatches: (wire.REMOVE_WATCHES, _record("path kind")),
    MultiRead: (wire.MULTI_READ, _record("ops")),
    GetEphemerals: (wire.GET_EPHEMERALS, _record("prefix")),
    GetAllChildrenNumber: (wire.GET_ALL_CHILDREN_NUMBER, _PATH),
    WhoAmI: (wire.WHO_AM_I, {}),
    Reconfig: (wire.RECONFIG, _record("joining leaving members config")),
    Sasl: (wire.SASL, _record("token")),
    CloseSession: (wire.CLOSE_SESSION, {}),
    FilteredList: (wire.FILTERED_LIST, _record("path watch only")),
    CheckNotExists: (wire.CHECK_NOT_EXISTS, _PATH_VERSION),
    CreateIfNotExists: (wire.CREATE_IF_NOT_EXISTS, _CREATE),
    RemoveRecursive: (wire.REMOVE_RECURSIVE, _record("path limit")),
    CheckStat: (wire.CHECK_STAT, _record("path version stat")),
    TryRemove: (wire.TRY_REMOVE, _PATH_VERSION),
    ListWithStatAndData: (wire.LIST_WITH_STAT_AND_DATA, _record("path watch only with_stats with_data")),
    ListRecursive: (wire.LIST_RECURSIVE, _record("path limit")),
    Ping: (wire.PING, {}),
}
_WITH_STAT: dict[int, type] = {wire.CREATE2: Create, wire.GET_CHILDREN2: GetChildren}
_MAKE: dict[int, Callable[..., Any]] = {
    **{code: kind for kind, (code, _) in _RECORDS.items()},
    **{code: partial(kind, with_stat=True) for code, kind in _WITH_STAT.items()},
}
#: The fields of each request, by its opcode.
RECORDS: dict[int, Record] = {
    **dict(_RECORDS.values()),
    **{code: _RECORDS[kind][1] for code, kind in _WITH_STAT.items()},
}
_SPECIAL_XIDS: dict[type, int] = {
    AddAuth: wire.AUTH_XID,
    SetWatches: wire.SET_WATCHES_XID,
    SetWatches2: wire.SET_WATCHES_XID,
    Ping: wire.PING_XID,
}


def opcode(request: Request) -> int:
    """Return the opcode that a request goes under; a Payload's is read from its bytes (0 if too short)."""
    match request:
        case Create() if request.with_stat:
            return wire.CREATE2
        case GetChildren() if request.with_stat:
            return wire.GET_CHILDREN2
        case Payload():
            return int(struct.unpack_from(">i", request.data, 4)[0]) if len(request.data) >= 8 else 0
    return _RECORDS[type(request)][0]


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
    if isinstance(request, Payload):
        return request.data
    return records.write(_RECORDS[type(request)][1], request._asdict())


def body_of(code: int, **fields: Any) -> bytes:
    """Return a request's body: of these fields those that it has, and usual values in its others."""
    return encode_body(_MAKE[code](**{name: fields[name] for name in RECORDS[code].keys() & fields.keys()}))


def decode_body(code: int, cursor: Cursor) -> Any:
    """Return the request of an opcode whose body is at a cursor, which moves behind it."""
    return _MAKE[code](**records.read(RECORDS[code], cursor))


_CHANGES = (Create, CreateContainer, CreateTtl, DeleteContainer, Delete, SetData, SetAcl)
_WRITES = (
    *(*_CHANGES, Check, Multi, CloseSession),
    *(CheckNotExists, CreateIfNotExists, RemoveRecursive, CheckStat, TryRemove),
)


def decode_write(code: int, cursor: Cursor) -> Any:
    """Return the request that changes something, by its opcode and body; None for another."""
    request = decode_body(code, cursor)
    return request if isinstance(request, _WRITES) else None
