"""Hand-tuned twins of the declarations in records.py, for the requests and replies of the hot path.

Every function here is proven equal to its declaration, byte for byte, by tests/codec/test_packets.py. Decoders
take a frame and the position behind the request header, ignore trailing bytes as ZooKeeper does, and raise
MalformedPacket, or its NullString where the packet is whole but a mandatory string is null.
"""

from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from codec.constants import Xid
from codec.errors import MalformedPacket, NullString
from codec.jute import INT, Acl, Reader, from_text, pack_buffer, to_text

REQUEST_HEADER = Struct(">ii")  # xid, opcode
REPLY_HEADER = Struct(">iqi")  # xid, zxid, err
MULTI_HEADER = Struct(">i?i")  # type, done, err; as Java does, `?` takes any byte but 0 for true
# czxid mzxid ctime mtime version cversion aversion ephemeralOwner dataLength numChildren pzxid
STAT = Struct(">qqqqiiiqiiq")

_FRAMED_REPLY_HEADER = Struct(">iiqi")
_EVENT_HEAD = Struct(">iiqiiii")
_CONNECT_RESPONSE_HEAD = Struct(">iiq")


def decode_path(frame: bytes, position: int) -> str:
    """The path of a request that starts with one (sync, getACL, getEphemerals, ...)."""
    return Reader(frame, position).text()


def decode_path_watch(frame: bytes, position: int) -> tuple[str, bool]:
    """The path and watch flag of exists, getData, getChildren and getChildren2."""
    try:
        length: int = INT.unpack_from(frame, position)[0]
        if length < 0:
            raise _bad_length(length)
        start = position + 4
        end = start + length
        watch = frame[end] != 0  # being there, it shows that the path is whole too
        return frame[start:end].decode(), watch
    except UnicodeDecodeError:
        return to_text(frame[start:end]), watch
    except (StructError, IndexError):
        raise MalformedPacket("cut within a path and watch flag") from None


def decode_path_version(frame: bytes, position: int) -> tuple[str, int]:
    """The path and version of delete and check; also path and mode or type of addWatch and removeWatches."""
    return read_path_version(Reader(frame, position))


def decode_create(frame: bytes, position: int) -> tuple[str, bytes | None, list[Acl] | None, int]:
    """Path, data, ACL and flags of create, create2 and createContainer."""
    return read_create(Reader(frame, position))


def decode_create_ttl(frame: bytes, position: int) -> tuple[str, bytes | None, list[Acl] | None, int, int]:
    """Path, data, ACL, flags and TTL (milliseconds) of createTTL."""
    return read_create_ttl(Reader(frame, position))


def decode_set_data(frame: bytes, position: int) -> tuple[str, bytes | None, int]:
    """Path, data and version of setData."""
    return read_set_data(Reader(frame, position))


def decode_set_acl(frame: bytes, position: int) -> tuple[str, list[Acl] | None, int]:
    """Path, ACL and version of setACL."""
    return read_set_acl(Reader(frame, position))


def read_path_watch(reader: Reader) -> tuple[str, bool]:
    """decode_path_watch at the reader's position, which moves behind it."""
    return reader.text(), reader.boolean()


def read_path_version(reader: Reader) -> tuple[str, int]:
    """decode_path_version at the reader's position, which moves behind it."""
    return reader.text(), reader.int()


def read_create(reader: Reader) -> tuple[str, bytes | None, list[Acl] | None, int]:
    """decode_create at the reader's position, which moves behind it."""
    return reader.text(), reader.buffer(), reader.acls(), reader.int()


def read_create_ttl(reader: Reader) -> tuple[str, bytes | None, list[Acl] | None, int, int]:
    """decode_create_ttl at the reader's position, which moves behind it."""
    return reader.text(), reader.buffer(), reader.acls(), reader.int(), reader.long()


def read_set_data(reader: Reader) -> tuple[str, bytes | None, int]:
    """decode_set_data at the reader's position, which moves behind it."""
    return reader.text(), reader.buffer(), reader.int()


def read_set_acl(reader: Reader) -> tuple[str, list[Acl] | None, int]:
    """decode_set_acl at the reader's position, which moves behind it."""
    return reader.text(), reader.acls(), reader.int()


def read_multi_header(reader: Reader) -> tuple[int, bool, int]:
    """Type, done and err of the header before each operation of a multi."""
    try:
        header: tuple[int, bool, int] = MULTI_HEADER.unpack_from(reader.data, reader.position)
    except StructError:
        raise MalformedPacket("cut within a multi header") from None
    reader.position += MULTI_HEADER.size
    return header


def frame(xid: int, zxid: int, err: int, body: bytes = b"") -> bytes:
    """A whole reply, its length included."""
    return _FRAMED_REPLY_HEADER.pack(16 + len(body), xid, zxid, err) + body


def encode_event(event_type: int, state: int, path: str, zxid: int) -> bytes:
    """A whole watch notification, its length included. `zxid` is the header's."""
    raw = from_text(path)
    size = len(raw)
    return _EVENT_HEAD.pack(28 + size, Xid.NOTIFICATION, zxid, 0, event_type, state, size) + raw


class ConnectRequest(NamedTuple):
    """The first packet of a client. `read_only` is None where an old client (before 3.4) left it out.

    That counts as False, and the response then leaves it out too.
    """

    protocol_version: int
    last_zxid_seen: int
    timeout_ms: int
    session_id: int
    password: bytes | None
    read_only: bool | None


def decode_connect(frame: bytes) -> ConnectRequest:
    """The first packet of a client: a ConnectRequest without any header."""
    reader = Reader(frame)
    version, last_zxid, timeout = reader.int(), reader.long(), reader.int()
    session_id, password = reader.long(), reader.buffer()
    read_only = reader.boolean() if reader.remaining else None
    return ConnectRequest(version, last_zxid, timeout, session_id, password, read_only)


def encode_connect_response(timeout_ms: int, session_id: int, password: bytes, read_only: bool | None) -> bytes:
    """A whole ConnectResponse, its length included; `read_only` None leaves the byte out, for old clients."""
    body = _CONNECT_RESPONSE_HEAD.pack(0, timeout_ms, session_id) + pack_buffer(password)
    if read_only is not None:
        body += b"\x01" if read_only else b"\x00"
    return INT.pack(len(body)) + body


def _bad_length(length: int) -> MalformedPacket:
    return NullString("a path is null") if length == -1 else MalformedPacket(f"unreasonable length {length}")
