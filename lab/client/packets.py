"""Requests as a client's bytes, and a server's bytes split into replies: for tests that hold no client."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from codec.constants import OpCode, Xid
from codec.framing import Framer
from codec.jute import INT, Acl, pack_buffer, pack_string
from codec.packets import REQUEST_HEADER
from lab.client import requests
from lab.client.requests import Reply


def framed(payload: bytes) -> bytes:
    """A payload with its length before it."""
    return INT.pack(len(payload)) + payload


def connect(
    *, timeout_ms: int = 4000, session_id: int = 0, password: bytes = bytes(16), last_zxid: int = 0
) -> bytes:
    """A connect request of a new client."""
    return requests.connect(timeout_ms, last_zxid, session_id, password)


def request(xid: int, opcode: int, body: bytes = b"") -> bytes:
    """Any request."""
    return framed(REQUEST_HEADER.pack(xid, opcode) + body)


def read(xid: int, opcode: OpCode, path: str, *, watch: bool = False) -> bytes:
    """exists, getData, getChildren or getChildren2."""
    return request(xid, opcode, pack_string(path) + bytes((watch,)))


def get(xid: int, path: str, *, watch: bool = False) -> bytes:
    """getData."""
    return requests.packet(xid, requests.get(path, watch))


def create(xid: int, path: str, data: bytes = b"", flags: int = 0) -> bytes:
    """create with the open ACL."""
    return requests.packet(xid, requests.create(path, data, flags))


def put(xid: int, path: str, data: bytes, version: int = -1) -> bytes:
    """setData."""
    return requests.packet(xid, requests.set_data(path, data, version))


def delete(xid: int, path: str, version: int = -1) -> bytes:
    """delete."""
    return requests.packet(xid, requests.delete(path, version))


def set_acl(xid: int, path: str, acl: Sequence[Acl]) -> bytes:
    """setACL."""
    return requests.packet(xid, requests.set_acl(path, acl))


def auth(scheme: str, credentials: bytes) -> bytes:
    """addauth."""
    return request(Xid.AUTH, OpCode.AUTH, INT.pack(0) + pack_string(scheme) + pack_buffer(credentials))


def sasl(token: bytes | None) -> bytes:
    """sasl, with xid 7."""
    return request(7, OpCode.SASL, pack_buffer(token))


def ping() -> bytes:
    """ping."""
    return requests.PING


def close(xid: int) -> bytes:
    """closeSession."""
    return requests.packet(xid, requests.close())


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
    """Packets after the connect response; events have xid -1."""
    return [Reply(*requests.header(frame), frame[16:]) for frame in frames]


def connect_reply(payload: bytes) -> ConnectReply:
    """The connect response."""
    _, timeout_ms, session_id, size = struct.unpack_from(">iiqi", payload)
    return ConnectReply(timeout_ms, session_id, payload[20 : 20 + size])
