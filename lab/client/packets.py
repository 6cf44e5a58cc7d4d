"""Requests as a client's bytes, and a server's bytes taken apart."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from codec.constants import OpCode
from codec.framing import Framer
from codec.jute import OPEN_ACLS, Acl, pack_acls, pack_buffer, pack_string


def framed(payload: bytes) -> bytes:
    """A payload with its length before it."""
    return struct.pack(">i", len(payload)) + payload


def connect(
    *, timeout_ms: int = 4000, session_id: int = 0, password: bytes = bytes(16), last_zxid: int = 0
) -> bytes:
    """A connect request of a new client."""
    return framed(struct.pack(">iqiq", 0, last_zxid, timeout_ms, session_id) + pack_buffer(password) + b"\0")


def request(xid: int, opcode: int, body: bytes = b"") -> bytes:
    """Any request."""
    return framed(struct.pack(">ii", xid, opcode) + body)


def read(xid: int, opcode: OpCode, path: str, *, watch: bool = False) -> bytes:
    """exists, getData, getChildren or getChildren2."""
    return request(xid, opcode, pack_string(path) + bytes((watch,)))


def get(xid: int, path: str, *, watch: bool = False) -> bytes:
    """getData."""
    return read(xid, OpCode.GET_DATA, path, watch=watch)


def create(xid: int, path: str, data: bytes = b"", flags: int = 0) -> bytes:
    """create with the open ACL."""
    return request(
        xid, OpCode.CREATE, pack_string(path) + pack_buffer(data) + OPEN_ACLS + struct.pack(">i", flags)
    )


def put(xid: int, path: str, data: bytes, version: int = -1) -> bytes:
    """setData."""
    return request(xid, OpCode.SET_DATA, pack_string(path) + pack_buffer(data) + struct.pack(">i", version))


def delete(xid: int, path: str, version: int = -1) -> bytes:
    """delete."""
    return request(xid, OpCode.DELETE, pack_string(path) + struct.pack(">i", version))


def set_acl(xid: int, path: str, acl: Sequence[Acl]) -> bytes:
    """setACL."""
    return request(xid, OpCode.SET_ACL, pack_string(path) + pack_acls(acl) + struct.pack(">i", -1))


def auth(scheme: str, credentials: bytes) -> bytes:
    """addauth."""
    return request(-4, OpCode.AUTH, struct.pack(">i", 0) + pack_string(scheme) + pack_buffer(credentials))


def sasl(token: bytes | None) -> bytes:
    """sasl, with xid 7."""
    return request(7, OpCode.SASL, pack_buffer(token))


def ping() -> bytes:
    """ping."""
    return request(-2, OpCode.PING)


def close(xid: int) -> bytes:
    """closeSession."""
    return request(xid, OpCode.CLOSE_SESSION)


class Reply(NamedTuple):
    """One packet of the server behind the connect response; events have xid -1."""

    xid: int
    zxid: int
    err: int
    body: bytes

    @property
    def data(self) -> bytes:
        """The data of a getData reply."""
        (size,) = struct.unpack_from(">i", self.body)
        return self.body[4 : 4 + size]

    @property
    def event(self) -> tuple[int, str]:
        """(type, path) of a watch event."""
        kind, _, size = struct.unpack_from(">iii", self.body)
        return kind, self.body[12 : 12 + size].decode()


class ConnectReply(NamedTuple):
    """The answer to a connect request; timeout and session are 0 for a refusal."""

    timeout_ms: int
    session_id: int
    password: bytes


def take_apart(raw: bytes) -> list[bytes]:
    """The payloads of whole packets."""
    framer = Framer(1 << 30)
    frames = framer.feed(raw)
    assert not framer.buffered
    return frames


def replies(frames: list[bytes]) -> list[Reply]:
    """Packets behind the connect response."""
    return [Reply._make((*struct.unpack_from(">iqi", payload), payload[16:])) for payload in frames]


def connect_reply(payload: bytes) -> ConnectReply:
    """The connect response."""
    _, timeout_ms, session_id, size = struct.unpack_from(">iiqi", payload)
    return ConnectReply(timeout_ms, session_id, payload[20 : 20 + size])
