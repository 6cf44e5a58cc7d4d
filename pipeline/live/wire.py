"""The client's side of ZooKeeper's protocol, as far as reading a tree needs it. Pure.

codec/records.py declares the records; its `build` and `parse` are used for the handshake. codec.jute decodes
frequent replies.
"""

from typing import NamedTuple

from construct import ConstructError

from codec.constants import ErrorCode, OpCode, Xid
from codec.errors import MalformedPacket
from codec.jute import INT, Acl, Reader, pack_buffer, pack_string
from codec.packets import REPLY_HEADER, REQUEST_HEADER, STAT
from codec.records import AuthPacket, ConnectRequest, ConnectResponse

_PASSWORD = bytes(16)


class Stat(NamedTuple):
    """ZooKeeper's Stat."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    owner: int
    data_length: int
    num_children: int
    pzxid: int


class Reply(NamedTuple):
    """A reply's header and where its body begins."""

    xid: int
    zxid: int
    error: int
    body: Reader


class Data(NamedTuple):
    """The answer to getData."""

    data: bytes | None
    stat: Stat


class Acls(NamedTuple):
    """The answer to getACL."""

    acl: list[Acl]
    stat: Stat


class Children(NamedTuple):
    """The answer to getChildren2."""

    names: list[str]
    stat: Stat


def connect(timeout_ms: int) -> bytes:
    """The frame that requests a session."""
    fields = {
        "protocolVersion": 0,
        "lastZxidSeen": 0,
        "timeOut": timeout_ms,
        "sessionId": 0,
        "passwd": _PASSWORD,
        "readOnly": False,
    }
    return pack_buffer(ConnectRequest.build(fields))


def session_of(frame: bytes) -> tuple[int, int]:
    """(id, timeout in ms) from the answer to `connect`; the id is 0 if there is none.

    Raises MalformedPacket.
    """
    try:
        response = ConnectResponse.parse(frame)
    except ConstructError as error:
        raise MalformedPacket(f"an answer of {len(frame)} bytes to a connect request") from error
    return int(response.sessionId), int(response.timeOut)


def auth(scheme: str, identity: bytes) -> bytes:
    """The frame that adds an identity to the connection."""
    packet = AuthPacket.build({"type": 0, "scheme": scheme, "auth": identity})
    return pack_buffer(REQUEST_HEADER.pack(Xid.AUTH, OpCode.AUTH) + packet)


def ask(xid: int, operation: OpCode, path: str) -> bytes:
    """The frame of getData, getACL or getChildren2, without a watch, or of sync."""
    body = REQUEST_HEADER.pack(xid, operation) + pack_string(path)
    if operation in (OpCode.GET_DATA, OpCode.GET_CHILDREN2):
        body += b"\0"
    return INT.pack(len(body)) + body


def ping() -> bytes:
    """The frame that keeps the session alive."""
    return pack_buffer(REQUEST_HEADER.pack(Xid.PING, OpCode.PING))


def close_request(xid: int) -> bytes:
    """The frame that ends the session."""
    return pack_buffer(REQUEST_HEADER.pack(xid, OpCode.CLOSE_SESSION))


def reply(frame: bytes) -> Reply:
    """A frame that answers a request. Raises MalformedPacket for a frame that is too short."""
    if len(frame) < REPLY_HEADER.size:
        raise MalformedPacket(f"a reply of {len(frame)} bytes")
    xid, zxid, error = REPLY_HEADER.unpack_from(frame)
    return Reply(xid, zxid, error, Reader(frame, REPLY_HEADER.size))


def data_of(body: Reader) -> Data:
    """The body of getData's reply."""
    return Data(body.buffer(), _stat(body))


def acls_of(body: Reader) -> Acls:
    """The body of getACL's reply."""
    return Acls(list(body.acls() or ()), _stat(body))


def children_of(body: Reader) -> Children:
    """The body of getChildren2's reply."""
    return Children([name or "" for name in body.strings() or ()], _stat(body))


def name_of(error: int) -> str:
    """The name of an error code."""
    try:
        return ErrorCode(error).name
    except ValueError:
        return str(error)


def _stat(body: Reader) -> Stat:
    if body.remaining < STAT.size:
        raise MalformedPacket("a reply ends within a Stat")
    stat = Stat(*STAT.unpack_from(body.data, body.position))
    body.position += STAT.size
    return stat
