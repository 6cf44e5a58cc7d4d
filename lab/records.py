"""ZooKeeper's client protocol as declarations: to be read beside ZooKeeper's own zookeeper.jute.

Records and fields bear zookeeper.jute's names, in its order. They are the reference for what codec reads and
writes by hand. The functions that use them are at the end: `body` makes samples of requests.

MultiOperationRecord, MultiResponse and DeleteContainerRequest are not in zookeeper.jute but hand-written
classes of ZooKeeper. ConnectRequest and ConnectResponse may lack `readOnly` (ZooKeeper's ProtocolManager).
Behind them stand the records of ClickHouse Keeper's extensions, which are in no jute file.
"""

from collections.abc import Mapping
from typing import Any, BinaryIO

import construct
from construct import (
    Construct,
    Flag,
    If,
    Int8ub,
    Int32sb,
    Int32ub,
    Int64sb,
    RepeatUntil,
    Struct,
    Switch,
    this,
)

from codec.constants import CreateMode, KeeperOpCode, ListFilter, OpCode
from codec.errors import MalformedPacket
from codec.jute import from_text, to_text


class _Buffer(Construct):  # type: ignore[misc]
    """Bytes after their length, or None, which is length -1."""

    def _parse(self, stream: BinaryIO, context: Any, path: str) -> bytes | None:
        length: int = Int32sb._parsereport(stream, context, path)
        if length == -1:
            return None
        if length < 0:
            raise construct.RangeError(f"unreasonable length {length}", path=path)
        data: bytes = construct.stream_read(stream, length, path)
        return data

    def _build(self, obj: bytes | None, stream: BinaryIO, context: Any, path: str) -> bytes | None:
        Int32sb._build(-1 if obj is None else len(obj), stream, context, path)
        if obj is not None:
            construct.stream_write(stream, obj, len(obj), path)
        return obj


class _Text(construct.Adapter):  # type: ignore[misc]
    """A string as Java reads and jute writes it, or None."""

    def _decode(self, obj: bytes | None, context: Any, path: str) -> str | None:
        return None if obj is None else to_text(obj)

    def _encode(self, obj: str | None, context: Any, path: str) -> bytes | None:
        return None if obj is None else from_text(obj)


class Vector(construct.Subconstruct):  # type: ignore[misc]
    """Elements after their count, or None, which is count -1. Lower counts mean no elements, as in jute."""

    def _parse(self, stream: BinaryIO, context: Any, path: str) -> list[Any] | None:
        count: int = Int32sb._parsereport(stream, context, path)
        if count == -1:
            return None
        return [self.subcon._parsereport(stream, context, path) for _ in range(count)]

    def _build(self, obj: list[Any] | None, stream: BinaryIO, context: Any, path: str) -> list[Any] | None:
        Int32sb._build(-1 if obj is None else len(obj), stream, context, path)
        for element in obj or ():
            self.subcon._build(element, stream, context, path)
        return obj


class IfPresent(construct.Subconstruct):  # type: ignore[misc]
    """A last field that an old peer leaves out, which is None."""

    def _parse(self, stream: BinaryIO, context: Any, path: str) -> Any:
        return None if construct.stream_iseof(stream) else self.subcon._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: BinaryIO, context: Any, path: str) -> Any:
        return None if obj is None else self.subcon._build(obj, stream, context, path)


int_ = Int32sb
long = Int64sb
boolean = Flag  # any byte but 0 is true, as for java.io.DataInput.readBoolean
byte = Int8ub  # Keeper's alone
unsigned = Int32ub  # Keeper's alone
buffer = _Buffer()
ustring = _Text(buffer)


# module org.apache.zookeeper.data

Id = Struct("scheme" / ustring, "id" / ustring)
ACL = Struct("perms" / int_, "id" / Id)
Stat = Struct(
    "czxid" / long,
    "mzxid" / long,
    "ctime" / long,
    "mtime" / long,
    "version" / int_,
    "cversion" / int_,
    "aversion" / int_,
    "ephemeralOwner" / long,
    "dataLength" / int_,
    "numChildren" / int_,
    "pzxid" / long,
)


# module org.apache.zookeeper.proto

ConnectRequest = Struct(
    "protocolVersion" / int_,
    "lastZxidSeen" / long,
    "timeOut" / int_,
    "sessionId" / long,
    "passwd" / buffer,
    "readOnly" / IfPresent(boolean),
)
ConnectResponse = Struct(
    "protocolVersion" / int_,
    "timeOut" / int_,
    "sessionId" / long,
    "passwd" / buffer,
    "readOnly" / IfPresent(boolean),
)
SetWatches = Struct(
    "relativeZxid" / long,
    "dataWatches" / Vector(ustring),
    "existWatches" / Vector(ustring),
    "childWatches" / Vector(ustring),
)
SetWatches2 = Struct(
    "relativeZxid" / long,
    "dataWatches" / Vector(ustring),
    "existWatches" / Vector(ustring),
    "childWatches" / Vector(ustring),
    "persistentWatches" / Vector(ustring),
    "persistentRecursiveWatches" / Vector(ustring),
)
RequestHeader = Struct("xid" / int_, "type" / int_)
MultiHeader = Struct("type" / int_, "done" / boolean, "err" / int_)
AuthPacket = Struct("type" / int_, "scheme" / ustring, "auth" / buffer)
ReplyHeader = Struct("xid" / int_, "zxid" / long, "err" / int_)
GetDataRequest = Struct("path" / ustring, "watch" / boolean)
SetDataRequest = Struct("path" / ustring, "data" / buffer, "version" / int_)
ReconfigRequest = Struct(
    "joiningServers" / ustring, "leavingServers" / ustring, "newMembers" / ustring, "curConfigId" / long
)
SetDataResponse = Struct("stat" / Stat)
GetSASLRequest = Struct("token" / buffer)
CreateRequest = Struct("path" / ustring, "data" / buffer, "acl" / Vector(ACL), "flags" / int_)
CreateTTLRequest = Struct(
    "path" / ustring, "data" / buffer, "acl" / Vector(ACL), "flags" / int_, "ttl" / long
)
DeleteRequest = Struct("path" / ustring, "version" / int_)
GetChildrenRequest = Struct("path" / ustring, "watch" / boolean)
GetAllChildrenNumberRequest = Struct("path" / ustring)
GetChildren2Request = Struct("path" / ustring, "watch" / boolean)
CheckVersionRequest = Struct("path" / ustring, "version" / int_)
SyncRequest = Struct("path" / ustring)
GetACLRequest = Struct("path" / ustring)
SetACLRequest = Struct("path" / ustring, "acl" / Vector(ACL), "version" / int_)
AddWatchRequest = Struct("path" / ustring, "mode" / int_)
WatcherEvent = Struct("type" / int_, "state" / int_, "path" / ustring)
ErrorResponse = Struct("err" / int_)
CreateResponse = Struct("path" / ustring)
Create2Response = Struct("path" / ustring, "stat" / Stat)
ExistsRequest = Struct("path" / ustring, "watch" / boolean)
ExistsResponse = Struct("stat" / Stat)
GetDataResponse = Struct("data" / buffer, "stat" / Stat)
GetChildrenResponse = Struct("children" / Vector(ustring))
GetChildren2Response = Struct("children" / Vector(ustring), "stat" / Stat)
CheckWatchesRequest = Struct("path" / ustring, "type" / int_)
RemoveWatchesRequest = Struct("path" / ustring, "type" / int_)
GetEphemeralsRequest = Struct("prefixPath" / ustring)


# What ZooKeeper wrote by hand

Nothing = Struct()
DeleteContainerRequest = Struct("path" / ustring)


def _multi(operations: Mapping[int, Construct]) -> Construct:
    """Headers, each with the record of its type behind it, up to one that says `done` and ends the list."""
    body = Switch(this.header.type, dict(operations), default=construct.Error)
    element = Struct("header" / MultiHeader, "body" / If(~this.header.done, body))
    return Struct("operations" / RepeatUntil(lambda obj, _so_far, _context: obj["header"]["done"], element))


MultiOperationRecord = _multi(
    {
        OpCode.CREATE: CreateRequest,
        OpCode.CREATE2: CreateRequest,
        OpCode.CREATE_CONTAINER: CreateRequest,
        OpCode.CREATE_TTL: CreateTTLRequest,
        OpCode.DELETE: DeleteRequest,
        OpCode.SET_DATA: SetDataRequest,
        OpCode.CHECK: CheckVersionRequest,
        OpCode.GET_CHILDREN: GetChildrenRequest,
        OpCode.GET_DATA: GetDataRequest,
    }
)
MultiResponse = _multi(
    {
        OpCode.CREATE: CreateResponse,
        OpCode.CREATE2: Create2Response,
        OpCode.DELETE: Nothing,
        OpCode.SET_DATA: SetDataResponse,
        OpCode.CHECK: Nothing,
        OpCode.GET_CHILDREN: GetChildrenResponse,
        OpCode.GET_DATA: GetDataResponse,
        OpCode.ERROR: ErrorResponse,
    }
)


# What follows the header of a request, by its type

REQUESTS: Mapping[OpCode, Construct] = {
    OpCode.CREATE: CreateRequest,
    OpCode.DELETE: DeleteRequest,
    OpCode.EXISTS: ExistsRequest,
    OpCode.GET_DATA: GetDataRequest,
    OpCode.SET_DATA: SetDataRequest,
    OpCode.GET_ACL: GetACLRequest,
    OpCode.SET_ACL: SetACLRequest,
    OpCode.GET_CHILDREN: GetChildrenRequest,
    OpCode.SYNC: SyncRequest,
    OpCode.PING: Nothing,
    OpCode.GET_CHILDREN2: GetChildren2Request,
    OpCode.CHECK: CheckVersionRequest,
    OpCode.MULTI: MultiOperationRecord,
    OpCode.CREATE2: CreateRequest,
    OpCode.RECONFIG: ReconfigRequest,
    OpCode.CHECK_WATCHES: CheckWatchesRequest,
    OpCode.REMOVE_WATCHES: RemoveWatchesRequest,
    OpCode.CREATE_CONTAINER: CreateRequest,
    OpCode.DELETE_CONTAINER: DeleteContainerRequest,
    OpCode.CREATE_TTL: CreateTTLRequest,
    OpCode.MULTI_READ: MultiOperationRecord,
    OpCode.AUTH: AuthPacket,
    OpCode.SET_WATCHES: SetWatches,
    OpCode.SASL: GetSASLRequest,
    OpCode.GET_EPHEMERALS: GetEphemeralsRequest,
    OpCode.GET_ALL_CHILDREN_NUMBER: GetAllChildrenNumberRequest,
    OpCode.SET_WATCHES2: SetWatches2,
    OpCode.ADD_WATCH: AddWatchRequest,
    OpCode.WHO_AM_I: Nothing,
    OpCode.CLOSE_SESSION: Nothing,
}


# ClickHouse Keeper's extensions

WideRequestHeader = Struct("xid" / long, "type" / int_)
WideReplyHeader = Struct("xid" / long, "zxid" / long, "err" / int_)
# Of protocol version 11, whose frame length says one byte less.
WideConnectRequest = Struct(
    "protocolVersion" / int_,
    "useCompression" / boolean,
    "lastZxidSeen" / long,
    "timeOut" / int_,
    "sessionId" / long,
    "passwd" / buffer,
    "readOnly" / boolean,
)
# Of protocol version 12, whose frame length says two bytes less.
TracedConnectRequest = Struct(
    "protocolVersion" / int_,
    "useWideXids" / boolean,
    "useCompression" / boolean,
    "lastZxidSeen" / long,
    "timeOut" / int_,
    "sessionId" / long,
    "passwd" / buffer,
    "readOnly" / boolean,
)
FilteredListRequest = Struct("path" / ustring, "watch" / boolean, "filter" / byte)
CheckNotExistsRequest = Struct("path" / ustring, "version" / int_)
RemoveRecursiveRequest = Struct("path" / ustring, "limit" / unsigned)
CheckStatRequest = Struct("path" / ustring, "version" / int_, "stat" / Stat)
TryRemoveRequest = Struct("path" / ustring, "version" / int_)
ListWithStatAndDataRequest = Struct(
    "path" / ustring, "watch" / boolean, "filter" / byte, "withStat" / boolean, "withData" / boolean
)
ListWithStatAndDataResponse = Struct(
    "children" / Vector(ustring), "stat" / Stat, "stats" / Vector(Stat), "data" / Vector(buffer)
)
ListRecursiveRequest = Struct("path" / ustring, "limit" / unsigned)
ListRecursiveResponse = Struct("paths" / Vector(ustring))

KEEPER_REQUESTS: Mapping[KeeperOpCode, Construct] = {
    KeeperOpCode.FILTERED_LIST: FilteredListRequest,
    KeeperOpCode.CHECK_NOT_EXISTS: CheckNotExistsRequest,
    KeeperOpCode.CREATE_IF_NOT_EXISTS: CreateRequest,
    KeeperOpCode.REMOVE_RECURSIVE: RemoveRecursiveRequest,
    KeeperOpCode.CHECK_STAT: CheckStatRequest,
    KeeperOpCode.TRY_REMOVE: TryRemoveRequest,
    KeeperOpCode.LIST_WITH_STAT_AND_DATA: ListWithStatAndDataRequest,
    KeeperOpCode.LIST_RECURSIVE: ListRecursiveRequest,
}

EVERY_REQUEST: Mapping[int, Construct] = {
    int(opcode): record for opcode, record in (*REQUESTS.items(), *KEEPER_REQUESTS.items())
}


def decode(record: Construct, data: bytes, position: int = 0) -> Any:
    """Read a declared record: its fields as attributes. Raises MalformedPacket; ignores trailing bytes."""
    try:
        return record.parse(data[position:])
    except construct.ConstructError as error:
        # The first line of its text is the path, which is the class's and the field's names.
        field = str(error.path).rpartition(" -> ")[2]
        raise MalformedPacket(f"{field}: {str(error).splitlines()[-1]}") from error


def encode(record: Construct, fields: Mapping[str, Any]) -> bytes:
    """The bytes of a declared record, whose fields are given by name (or as `decode` returned them)."""
    data: bytes = record.build(fields)
    return data


def fields_of(opcode: int) -> list[str]:
    """The names of a request's fields, in order."""
    return [field.name for field in EVERY_REQUEST[opcode].subcons]


_USUAL: Mapping[str, Any] = {
    "path": "/",
    "watch": False,
    "data": b"",
    "acl": [{"perms": 31, "id": {"scheme": "world", "id": "anyone"}}],
    "flags": CreateMode.PERSISTENT,
    "ttl": 1000,
    "version": -1,
    "stat": {field.name: -1 for field in Stat.subcons},  # whatever it is
    "limit": 1 << 20,
    "filter": ListFilter.ALL,
    "withStat": True,
    "withData": True,
    **dict.fromkeys(("joiningServers", "leavingServers", "newMembers")),
    "curConfigId": -1,
}
_MODES: Mapping[int, CreateMode] = {
    OpCode.CREATE_CONTAINER: CreateMode.CONTAINER,
    OpCode.CREATE_TTL: CreateMode.PERSISTENT_WITH_TTL,
}


def body(opcode: int, **fields: Any) -> bytes:
    """The body of a request: of these fields those that it has, and usual values in its others."""
    mode = {"flags": _MODES[opcode]} if opcode in _MODES else {}
    return encode(EVERY_REQUEST[opcode], {**_USUAL, **mode, **fields})
