"""Packets of ZooKeeper's client protocol as bytes: what the generator sends, and the replies it reads.

Requests are whole packets with their length prefix, made of bytes: `lab.oracle.requests`, which takes values,
needs ten times as long for one. Independent of `codec` on purpose. No sockets in here.
"""

from struct import Struct

from lab.oracle.requests import OPEN
from lab.oracle.wire import STAT, Cursor, Stat, frame, pack_acls, pack_connect

CREATE = 1
DELETE = 2
EXISTS = 3
GET_DATA = 4
SET_DATA = 5
GET_CHILDREN = 8
SYNC = 9
CHECK = 13
MULTI = 14
CLOSE_SESSION = -11

PERSISTENT = 0
SEQUENTIAL = 2

NO_NODE = -101

INT = Struct(">i")
HEADER = Struct(">iii")  # packet length, xid, opcode
REPLY = Struct(">iiqi")  # packet length, xid, zxid, error
MULTI_HEADER = Struct(">i?i")  # type, done, error

REPLY_SIZE = REPLY.size
STAT_SIZE = STAT.size
MULTI_END = MULTI_HEADER.pack(-1, True, -1)

# One entry, world:anyone with all permissions, as kazoo and ClickHouse send it.
OPEN_ACL = pack_acls(OPEN)


def text(value: bytes) -> bytes:
    """A jute string or buffer."""
    return INT.pack(len(value)) + value


def packet(xid: int, opcode: int, body: bytes = b"") -> bytes:
    """A whole request: length, header, body."""
    return HEADER.pack(8 + len(body), xid, opcode) + body


def create_body(path: bytes, data: bytes, flags: int = PERSISTENT) -> bytes:
    """CreateRequest with an open ACL."""
    return text(path) + text(data) + OPEN_ACL + INT.pack(flags)


def delete_body(path: bytes) -> bytes:
    """DeleteRequest, of any version."""
    return text(path) + INT.pack(-1)


def read_body(path: bytes) -> bytes:
    """ExistsRequest, GetDataRequest or GetChildrenRequest, without a watch."""
    return text(path) + b"\0"


def set_body(path: bytes, data: bytes) -> bytes:
    """SetDataRequest, of any version."""
    return text(path) + text(data) + INT.pack(-1)


def check_body(path: bytes, version: int) -> bytes:
    """CheckVersionRequest."""
    return text(path) + INT.pack(version)


def multi_part(opcode: int, body: bytes) -> bytes:
    """One operation inside a multi."""
    return MULTI_HEADER.pack(opcode, False, -1) + body


def connect_packet(timeout_ms: int) -> bytes:
    """ConnectRequest for a new session, in the form with the read-only byte."""
    return frame(pack_connect(timeout_ms=timeout_ms))


def decode_stat(body: bytes) -> Stat:
    """The Stat that an exists reply consists of; raises struct.error when it's cut short."""
    return Cursor(body).stat()


def decode_names(body: bytes) -> list[bytes]:
    """The names in a getChildren reply; raises struct.error when it's cut short."""
    (count,) = INT.unpack_from(body)
    names = []
    position = 4
    for _ in range(count):
        (length,) = INT.unpack_from(body, position)
        position += 4
        names.append(body[position : position + length])
        position += length
    return names
