"""What a differential test does: steps over numbered sessions ("slots"), and the requests in them.

A script is a list of steps. Every step and request is a NamedTuple whose repr is Python, so that a shrunk
script can be pasted into `cases`. Paths are relative to a root node that the runner makes for each run: "" is
that root, "/a" a child of it. A path that starts with "@" is sent as it stands, without the "@"; one that
starts with "~" lies where the quotas of that root and of what is below it do.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from lab.oracle import wire
from lab.oracle.wire import pack_acls, pack_buffer, pack_int, pack_long, pack_string, pack_strings

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
    path: str | None
    version: int = -1


class Exists(NamedTuple):
    path: str | None
    watch: bool = False


class GetData(NamedTuple):
    path: str | None
    watch: bool = False


class SetData(NamedTuple):
    path: str | None
    data: bytes | None = b""
    version: int = -1


class GetAcl(NamedTuple):
    path: str | None


class SetAcl(NamedTuple):
    path: str | None
    acls: AclList | None = OPEN
    version: int = -1


class GetChildren(NamedTuple):
    """getChildren, or getChildren2 if `with_stat`."""

    path: str | None
    watch: bool = False
    with_stat: bool = False


class Sync(NamedTuple):
    path: str | None


class Check(NamedTuple):
    """check; ZooKeeper takes it only inside a multi."""

    path: str | None
    version: int = -1


class Multi(NamedTuple):
    ops: tuple[Request, ...] = ()


class AddAuth(NamedTuple):
    """The auth packet."""

    scheme: str | None
    auth: bytes | None


class SetWatches(NamedTuple):
    """setWatches; `since` says which zxid to claim: "last" seen before the reconnect, "zero" or "future"."""

    since: str
    data: tuple[str, ...] = ()
    exist: tuple[str, ...] = ()
    child: tuple[str, ...] = ()


class SetWatches2(NamedTuple):
    """setWatches2; `since` as in SetWatches."""

    since: str
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
    ops: tuple[Request, ...] = ()


class GetEphemerals(NamedTuple):
    prefix: str | None


class GetAllChildrenNumber(NamedTuple):
    path: str | None


class WhoAmI(NamedTuple):
    """whoAmI."""


class Reconfig(NamedTuple):
    joining: str | None = None
    leaving: str | None = None
    members: str | None = None
    version: int = -1


class Sasl(NamedTuple):
    """The sasl packet."""

    token: bytes | None


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
    | Ping
    | Payload
)


class Open(NamedTuple):
    """A new session in `slot`; what the slot held before is left to itself."""

    slot: int


class Reopen(NamedTuple):
    """Attach again to the slot's session, over a new connection; the old one may still be open."""

    slot: int
    good_password: bool = True
    ahead: bool = False


class Close(NamedTuple):
    """closeSession, and wait for the server to close."""

    slot: int


class Drop(NamedTuple):
    """Close the socket without closing the session."""

    slot: int


class Expire(NamedTuple):
    """Fall silent with a short timeout until the session is gone."""

    slot: int


class Call(NamedTuple):
    """Send all requests at once on the slot's connection and read all replies."""

    slot: int
    requests: tuple[Request, ...]


class Handshake(NamedTuple):
    """A fresh connection outside the slots: send these bytes, then the end of the stream; read until closed.

    Used for malformed connect requests. `half_close` False keeps the sending side open: then the server must
    close unasked."""

    data: bytes
    half_close: bool = False


class Junk(NamedTuple):
    """Send bytes that the server must answer by closing."""

    slot: int
    data: bytes


Step = Open | Reopen | Close | Drop | Expire | Call | Handshake | Junk
Script = list[Step]


def call(slot: int, *requests: Request) -> Call:
    """Return a step that sends `requests` at once."""
    return Call(slot, requests)


def opcode(request: Request) -> int:
    """Return the opcode that a request goes under; a Payload's is read from its bytes (0 if too short)."""
    match request:
        case Create():
            return wire.CREATE2 if request.with_stat else wire.CREATE
        case GetChildren():
            return wire.GET_CHILDREN2 if request.with_stat else wire.GET_CHILDREN
        case Payload():
            return int(struct.unpack_from(">i", request.data, 4)[0]) if len(request.data) >= 8 else 0
    return _OPCODES[type(request)]


_OPCODES: dict[type, int] = {
    CreateContainer: wire.CREATE_CONTAINER,
    CreateTtl: wire.CREATE_TTL,
    DeleteContainer: wire.DELETE_CONTAINER,
    Delete: wire.DELETE,
    Exists: wire.EXISTS,
    GetData: wire.GET_DATA,
    SetData: wire.SET_DATA,
    GetAcl: wire.GET_ACL,
    SetAcl: wire.SET_ACL,
    Sync: wire.SYNC,
    Check: wire.CHECK,
    Multi: wire.MULTI,
    AddAuth: wire.AUTH,
    SetWatches: wire.SET_WATCHES,
    SetWatches2: wire.SET_WATCHES2,
    AddWatch: wire.ADD_WATCH,
    CheckWatches: wire.CHECK_WATCHES,
    RemoveWatches: wire.REMOVE_WATCHES,
    MultiRead: wire.MULTI_READ,
    GetEphemerals: wire.GET_EPHEMERALS,
    GetAllChildrenNumber: wire.GET_ALL_CHILDREN_NUMBER,
    WhoAmI: wire.WHO_AM_I,
    Reconfig: wire.RECONFIG,
    Sasl: wire.SASL,
    Ping: wire.PING,
}

_SPECIAL_XIDS: dict[type, int] = {
    AddAuth: wire.AUTH_XID,
    SetWatches: wire.SET_WATCHES_XID,
    SetWatches2: wire.SET_WATCHES_XID,
    Ping: wire.PING_XID,
}


def writes(request: Request) -> bool:
    """Return whether success of the request makes a new zxid."""
    return isinstance(
        request, Create | CreateContainer | CreateTtl | DeleteContainer | Delete | SetData | SetAcl | Multi
    )


_QUOTAS = "/zookeeper/quota"


def rooted(path: str | None, root: str) -> str | None:
    """Return the path to send: below `root` or its quotas, or literal after "@"."""
    if path is None:
        return None
    if path.startswith("~"):
        return _QUOTAS + root + path[1:]
    return path[1:] if path.startswith("@") else root + path


def unrooted(path: str | None, root: str) -> str | None:
    """Return a server's path as scripts write it; the inverse of `rooted`."""
    if path is None:
        return None
    if path.startswith(_QUOTAS + root):
        return "~" + path[len(_QUOTAS + root) :]
    return path[len(root) :] if path.startswith(root) else "@" + path


def encode(request: Request, xid: int, root: str, zxids: dict[str, int]) -> bytes:
    """Return the payload of a request; `zxids` says what SetWatches.since stands for."""
    if isinstance(request, Payload):
        return request.data
    header = struct.pack(">ii", _SPECIAL_XIDS.get(type(request), xid), opcode(request))
    return header + encode_body(request, root, zxids)


def encode_body(request: Request, root: str, zxids: dict[str, int]) -> bytes:
    """Return what follows the request header."""
    match request:
        case Create(path, data, flags, acls) | CreateContainer(path, data, flags, acls):
            return pack_string(rooted(path, root)) + pack_buffer(data) + pack_acls(acls) + pack_int(flags)
        case CreateTtl(path, data, ttl, flags, acls):
            node = pack_string(rooted(path, root)) + pack_buffer(data) + pack_acls(acls) + pack_int(flags)
            return node + pack_long(ttl)
        case DeleteContainer(path):
            return pack_string(rooted(path, root))
        case Delete(path, version) | Check(path, version):
            return pack_string(rooted(path, root)) + pack_int(version)
        case Exists(path, watch) | GetData(path, watch) | GetChildren(path, watch):
            return pack_string(rooted(path, root)) + bytes([watch])
        case SetData(path, data, version):
            return pack_string(rooted(path, root)) + pack_buffer(data) + pack_int(version)
        case GetAcl(path) | Sync(path) | GetEphemerals(path) | GetAllChildrenNumber(path):
            return pack_string(rooted(path, root))
        case AddWatch(path, number) | CheckWatches(path, number) | RemoveWatches(path, number):
            return pack_string(rooted(path, root)) + pack_int(number)
        case SetAcl(path, acls, version):
            return pack_string(rooted(path, root)) + pack_acls(acls) + pack_int(version)
        case Multi(ops) | MultiRead(ops):
            parts = (pack_int(opcode(op)) + b"\0" + pack_int(-1) + encode_body(op, root, zxids) for op in ops)
            return b"".join(parts) + pack_int(-1) + b"\1" + pack_int(-1)
        case AddAuth(scheme, auth):
            return pack_int(0) + pack_string(scheme) + pack_buffer(auth)
        case SetWatches() | SetWatches2():
            since, *lists = request
            vectors = ([rooted(path, root) for path in paths] for paths in lists)
            return pack_long(zxids[since]) + b"".join(map(pack_strings, vectors))
        case Reconfig(joining, leaving, members, version):
            return b"".join(map(pack_string, (joining, leaving, members))) + pack_long(version)
        case Sasl(token):
            return pack_buffer(token)
        case Payload(data):
            return data
        case Ping() | WhoAmI():
            return b""
