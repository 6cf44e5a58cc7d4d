"""A history's requests as packets, and replies as a history's records. Pure."""

from struct import Struct
from typing import NamedTuple

import lab.client.requests
from bench import wire
from proof.history import (
    AddWatch,
    Check,
    CloseSession,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Reply,
    SetData,
    SetWatches,
    Stat,
    Sync,
)
from proof.history.records import Request

PING, SET_WATCHES_2, ADD_WATCH, GET_CHILDREN_2 = 11, 105, 106, 12
CREATE_CONTAINER, CREATE_TTL = 19, 21
_CONTAINER_FLAG, _TTL_FLAG = 4, 5
EVENT_XID, PING_XID, SET_WATCHES_XID = -1, -2, -8
_REPLY = Struct(">iqi")  # xid, zxid, error
_CONNECTED = Struct(">iiq")  # protocol version, timeout, session id
_EVENT = Struct(">ii")  # type, state

PING_PACKET = wire.packet(PING_XID, PING)


class CreateExpiring(NamedTuple):
    """A new TTL node, or a container if there is no TTL. `expiring_nodes` judges it."""

    path: str
    data: bytes = b""
    ttl_ms: int = 0


def connect(zxid: int, timeout_ms: int, session: int, password: bytes) -> bytes:
    """A ConnectRequest, for a new session (0) or to continue one."""
    body = wire.CONNECT.pack(0, zxid, timeout_ms, session) + wire.text(password) + b"\0"
    return wire.INT.pack(len(body)) + body


def connected(frame: bytes) -> tuple[int, int, bytes]:
    """Timeout, session id and password of a ConnectResponse; session 0: refused."""
    _, timeout, session = _CONNECTED.unpack_from(frame)
    (length,) = wire.INT.unpack_from(frame, _CONNECTED.size)
    start = _CONNECTED.size + 4
    return timeout, session, frame[start : start + length]


def header(frame: bytes) -> tuple[int, int, int]:
    """xid, zxid and error of a reply."""
    xid, zxid, error = _REPLY.unpack_from(frame)
    return xid, zxid, error


def event(frame: bytes) -> tuple[int, str]:
    """Type and path of a watch event."""
    kind, _ = _EVENT.unpack_from(frame, _REPLY.size)
    path, _ = _text(frame, _REPLY.size + _EVENT.size)
    return kind, (path or b"").decode()


def packet(xid: int, request: Request | CreateExpiring) -> bytes:
    """A request as it goes to the server."""
    opcode, body = parts_of(request)
    if isinstance(request, SetWatches):
        xid = SET_WATCHES_XID
    return wire.packet(xid, opcode, body)


def frame(zxid: int, error: int, body: bytes) -> bytes:
    """A reply, of whatever xid."""
    return _REPLY.pack(0, zxid, error) + body


def parts_of(request: Request | CreateExpiring) -> tuple[int, bytes]:
    """Opcode and body of a request."""
    match request:
        case Create(path, data, ephemeral, sequential):
            flags = (1 if ephemeral else 0) + (2 if sequential else 0)
            return wire.CREATE, wire.create_body(path.encode(), data or b"", flags)
        case CreateExpiring(path, data, 0):
            return CREATE_CONTAINER, wire.create_body(path.encode(), data, _CONTAINER_FLAG)
        case CreateExpiring(path, data, ttl_ms):
            body = wire.create_body(path.encode(), data, _TTL_FLAG)
            return CREATE_TTL, body + Struct(">q").pack(ttl_ms)
        case Delete(path, version):
            return wire.DELETE, wire.delete_body(path.encode(), version)
        case SetData(path, data, version):
            return wire.SET_DATA, wire.set_body(path.encode(), data or b"", version)
        case Check(path, version):
            return wire.CHECK, wire.check_body(path.encode(), version)
        case Multi(parts):
            return wire.MULTI, b"".join(wire.multi_part(*parts_of(part)) for part in parts) + wire.MULTI_END
        case CloseSession():
            return wire.CLOSE_SESSION, b""
        case Exists(path, watch):
            return wire.EXISTS, wire.text(path.encode()) + bytes([watch])
        case GetData(path, watch):
            return wire.GET_DATA, wire.text(path.encode()) + bytes([watch])
        case GetChildren(path, watch):
            return GET_CHILDREN_2, wire.text(path.encode()) + bytes([watch])
        case Sync(path):
            return wire.SYNC, wire.text(path.encode())
        case AddWatch(path, recursive):
            return ADD_WATCH, wire.text(path.encode()) + wire.INT.pack(1 if recursive else 0)
        case SetWatches():
            zxid, *kinds = request
            lists = b"".join(
                wire.INT.pack(len(paths)) + b"".join(wire.text(path.encode()) for path in paths)
                for paths in kinds
            )
            return SET_WATCHES_2, Struct(">q").pack(zxid) + lists
    raise TypeError(f"not a request: {request!r}")


def reply(request: Request, frame: bytes) -> Reply:
    """What a reply to a request says."""
    _, zxid, error = header(frame)
    position = _REPLY.size
    if isinstance(request, Multi) and position < len(frame):
        return Reply(error, zxid, parts=_parts(request, frame, position))
    if error:
        return Reply(error, zxid)
    return _result(request, frame, position, zxid)[0]


def _result(request: Request, frame: bytes, position: int, zxid: int | None) -> tuple[Reply, int]:
    match request:
        case Create():
            path, position = _text(frame, position)
            return Reply(0, zxid, path=(path or b"").decode()), position
        case SetData() | Exists():
            stat, position = _stat(frame, position)
            return Reply(0, zxid, stat=stat), position
        case GetData():
            data, position = _text(frame, position)
            stat, position = _stat(frame, position)
            return Reply(0, zxid, data=data, stat=stat), position
        case GetChildren():
            (count,) = wire.INT.unpack_from(frame, position)
            position += 4
            names = []
            for _ in range(count):
                name, position = _text(frame, position)
                names.append((name or b"").decode())
            stat, position = _stat(frame, position)
            return Reply(0, zxid, names=tuple(names), stat=stat), position
    return Reply(0, zxid), position


def _parts(request: Multi, frame: bytes, position: int) -> tuple[Reply, ...]:
    parts = []
    for part in request.parts:
        opcode, _, _ = wire.MULTI_HEADER.unpack_from(frame, position)
        position += wire.MULTI_HEADER.size
        if opcode == -1:
            (error,) = wire.INT.unpack_from(frame, position)
            position += 4
            parts.append(Reply(error))
        else:
            result, position = _result(part, frame, position, None)
            parts.append(result)
    return tuple(parts)


def _text(frame: bytes, position: int) -> tuple[bytes | None, int]:
    (length,) = wire.INT.unpack_from(frame, position)
    position += 4
    if length < 0:
        return None, position
    return frame[position : position + length], position + length


def _stat(frame: bytes, position: int) -> tuple[Stat, int]:
    stat = lab.client.requests.Stat._make(wire.STAT.unpack_from(frame, position))
    found = Stat(
        stat.czxid,
        stat.mzxid,
        stat.version,
        stat.cversion,
        stat.ephemeral_owner,
        stat.data_length,
        stat.num_children,
        stat.pzxid,
    )
    return found, position + wire.STAT_SIZE
