"""The client's side of the protocol: the handshake, frames of requests, and what replies begin with. Pure.

The server's side is in packets.py. Readers raise MalformedPacket.
"""

from typing import NamedTuple

from codec import packets, records
from codec.constants import ErrorCode, OpCode, Xid
from codec.errors import MalformedPacket
from codec.jute import Reader, pack_buffer


class Stat(NamedTuple):
    """ZooKeeper's Stat; ctime and mtime are milliseconds since the epoch."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class Children(NamedTuple):
    """The answer to getChildren2: names in the server's order."""

    names: list[str]
    stat: Stat


class Connected(NamedTuple):
    """The answer to a connect request. Session 0: the server refuses the session."""

    session: int
    password: bytes
    timeout_ms: int


class Header(NamedTuple):
    """The header of a reply."""

    xid: int
    zxid: int
    error: int


def connect(timeout_ms: int, last_zxid: int = 0, session: int = 0, password: bytes = bytes(16)) -> bytes:
    """The frame that requests a new session (0), or continues one."""
    fields = {
        "protocolVersion": 0,
        "lastZxidSeen": last_zxid,
        "timeOut": timeout_ms,
        "sessionId": session,
        "passwd": password,
        "readOnly": False,
    }
    return pack_buffer(records.encode(records.ConnectRequest, fields))


def connected(frame: bytes) -> Connected:
    """The answer to a connect request."""
    try:
        fields = records.decode(records.ConnectResponse, frame)
    except MalformedPacket as error:
        raise MalformedPacket(f"an answer of {len(frame)} bytes to a connect request") from error
    return Connected(int(fields.sessionId), bytes(fields.passwd or b""), int(fields.timeOut))


def request(xid: int, opcode: int, body: bytes = b"") -> bytes:
    """The frame of any request."""
    return pack_buffer(packets.REQUEST_HEADER.pack(xid, opcode) + body)


PING = request(Xid.PING, OpCode.PING)


def header(frame: bytes) -> Header:
    """The header of a reply or an event."""
    if len(frame) < packets.REPLY_HEADER.size:
        raise MalformedPacket(f"a reply of {len(frame)} bytes")
    return Header(*packets.REPLY_HEADER.unpack_from(frame))


def body(frame: bytes) -> Reader:
    """What follows the header."""
    return Reader(frame, packets.REPLY_HEADER.size)


def stat(reader: Reader) -> Stat:
    """A Stat."""
    if reader.remaining < packets.STAT.size:
        raise MalformedPacket("a reply ends within a Stat")
    found = Stat._make(packets.STAT.unpack_from(reader.data, reader.position))
    reader.position += packets.STAT.size
    return found


def children(reader: Reader) -> Children:
    """The body of getChildren2's reply."""
    return Children([name or "" for name in reader.strings() or ()], stat(reader))


def name_of(code: int) -> str:
    """The name of an error code."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
