"""What the server reads and writes: hand-tuned twins of the declarations in lab/oracle.

Each is proven equal to its declaration, byte for byte, by tests/codec/test_packets.py.
Decoders take a frame and the position behind the request header, ignore trailing bytes as ZooKeeper does,
and raise MalformedPacket, or its NullString where the packet is whole but the path is null
(README.md has what ZooKeeper answers to each). Encoders trust their arguments.
"""

from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from codec.constants import Xid
from codec.errors import MalformedPacket, NullString
from codec.jute import (
    INT,
    OPEN_ACL,
    OPEN_ACL_PACKED,
    OPEN_ACL_SIZE,
    STRAIGHT,
    Acl,
    Reader,
    Steps,
    from_text,
    pack_buffer,
)

REQUEST_HEADER = Struct(">ii")  # xid, opcode
REPLY_HEADER = Struct(">iqi")  # xid, zxid, err
MULTI_HEADER = Struct(">i?i")  # type, done, err; as Java does, `?` takes any byte but 0 for true
# czxid mzxid ctime mtime version cversion aversion ephemeralOwner dataLength numChildren pzxid
STAT = Struct(">qqqqiiiqiiq")
#: ZooKeeper's names of the fields.
STAT_NAMES: tuple[str, ...] = ("czxid", "mzxid", "ctime", "mtime", "version", "cversion", "aversion")
STAT_NAMES += ("ephemeralOwner", "dataLength", "numChildren", "pzxid")

PathVersion: TypeAlias = tuple[str, int]
Create: TypeAlias = tuple[str | None, bytes | None, tuple[Acl, ...] | None, int]
CreateTtl: TypeAlias = tuple[str | None, bytes | None, tuple[Acl, ...] | None, int, int]
SetData: TypeAlias = tuple[str, bytes | None, int]
SetAcl: TypeAlias = tuple[str, tuple[Acl, ...] | None, int]
Record = TypeVar("Record")
Record_co = TypeVar("Record_co", covariant=True)

_int_at = INT.unpack_from
_pack_reply = Struct(">iiqi").pack  # length, then a reply header
_pack_event = Struct(">iiqiiii").pack  # length, reply header, type, state, length of the path
_pack_connected = Struct(">iiq").pack  # version, timeout, session
_NOTIFICATION_XID = int(Xid.NOTIFICATION)  # a plain number packs faster than an enum looks it up


# The decoders of what changes something return the record and the position behind it: they serve requests by
# themselves and parts of a multi alike. `steps`: for the entries of an ACL, which may be very many. Those of
# reads, always alone in a packet, return the record only.
#
# Of all these, the hot ones first try what most packets look like, in as few steps as possible. Whatever is
# unusual (nulls, other ACLs, bad UTF-8, cut packets) they leave to their sisters read_*, which define the
# answer. Measured with 45-byte paths: create 0.38 us against 0.75, setData 0.28 against 0.62, path and watch
# 0.15 against 0.45. Reading the last field proves those before it whole: no length is negative.


class Decode(Protocol[Record_co]):
    """A decoder of what changes something."""

    def __call__(self, frame: bytes, position: int, steps: Steps = STRAIGHT, /) -> tuple[Record_co, int]:
        """The record, and the position behind it."""


def decoder(read: Callable[[Reader], Record]) -> Decode[Record]:
    """The decoder of what `read` reads, for requests that are not hot."""

    def decode(frame: bytes, position: int, steps: Steps = STRAIGHT) -> tuple[Record, int]:
        reader = Reader(frame, position, steps)
        return read(reader), reader.position

    return decode


def decode_path(frame: bytes, position: int) -> str:
    """The path of a read that has nothing else (getACL, getAllChildrenNumber)."""
    return Reader(frame, position).text()


def decode_optional_path(frame: bytes, position: int) -> str | None:
    """The path of getEphemerals, which may be null: ZooKeeper 3.9 answers with success."""
    return Reader(frame, position).string()


def decode_path_watch(frame: bytes, position: int) -> tuple[str, bool]:
    """The path and watch flag of exists, getData, getChildren and getChildren2."""
    try:
        (length,) = _int_at(frame, position)
        if length >= 0:
            start = position + 4
            end = start + length
            watch = frame[end] != 0
            return frame[start:end].decode(), watch
    except (StructError, IndexError, UnicodeDecodeError):
        pass
    return read_path_watch(Reader(frame, position))


def decode_path_version(frame: bytes, position: int, steps: Steps = STRAIGHT) -> tuple[PathVersion, int]:
    """The path and version of delete and check."""
    try:
        (length,) = _int_at(frame, position)
        if length >= 0:
            start = position + 4
            end = start + length
            (version,) = _int_at(frame, end)
            return (frame[start:end].decode(), version), end + 4
    except (StructError, UnicodeDecodeError):
        pass
    return _careful_path_version(frame, position, steps)


def decode_create(frame: bytes, position: int, steps: Steps = STRAIGHT) -> tuple[Create, int]:
    """Path, data, ACL and flags of create, create2 and createContainer."""
    try:
        (length,) = _int_at(frame, position)
        start = position + 4
        end = start + length
        (size,) = _int_at(frame, end)
        data_start = end + 4
        data_end = data_start + size
        if length >= 0 and size >= 0 and frame.startswith(OPEN_ACL_PACKED, data_end):
            acls_end = data_end + OPEN_ACL_SIZE
            (flags,) = _int_at(frame, acls_end)
            path = frame[start:end].decode()
            return (path, frame[data_start:data_end], OPEN_ACL, flags), acls_end + 4
    except (StructError, UnicodeDecodeError):
        pass
    return _careful_create(frame, position, steps)


def decode_set_data(frame: bytes, position: int, steps: Steps = STRAIGHT) -> tuple[SetData, int]:
    """Path, data and version of setData."""
    try:
        (length,) = _int_at(frame, position)
        start = position + 4
        end = start + length
        (size,) = _int_at(frame, end)
        if length >= 0 and size >= 0:
            data_start = end + 4
            data_end = data_start + size
            (version,) = _int_at(frame, data_end)
            return (frame[start:end].decode(), frame[data_start:data_end], version), data_end + 4
    except (StructError, UnicodeDecodeError):
        pass
    return _careful_set_data(frame, position, steps)


# The same at a reader's position, which moves behind the record. A null path is raised only once the whole
# record is read: ZooKeeper fails on it only after decoding the packet. That of a create is returned, for
# ZooKeeper looks at the flags before it.


def read_path_watch(reader: Reader) -> tuple[str, bool]:
    """decode_path_watch for a reader."""
    path, watch = reader.string(), reader.boolean()
    return present(path, reader.position), watch


def read_path_version(reader: Reader) -> PathVersion:
    """decode_path_version for a reader."""
    path, version = reader.string(), reader.int()
    return present(path, reader.position), version


def read_create(reader: Reader) -> Create:
    """decode_create for a reader."""
    return reader.string(), reader.buffer(), reader.acls(), reader.int()


def read_create_ttl(reader: Reader) -> CreateTtl:
    """Path, data, ACL, flags and TTL (milliseconds) of createTTL."""
    return reader.string(), reader.buffer(), reader.acls(), reader.int(), reader.long()


def read_set_data(reader: Reader) -> SetData:
    """decode_set_data for a reader."""
    path, data, version = reader.string(), reader.buffer(), reader.int()
    return present(path, reader.position), data, version


def read_set_acl(reader: Reader) -> SetAcl:
    """Path, ACL and version of setACL."""
    path, acls, version = reader.string(), reader.acls(), reader.int()
    return present(path, reader.position), acls, version


def present(path: str | None, end: int) -> str:
    """The path of a record that has been read to its `end`. Raises NullString for null."""
    if path is None:
        raise NullString("the path is null", end)
    return path


_careful_path_version = decoder(read_path_version)
_careful_create = decoder(read_create)
_careful_set_data = decoder(read_set_data)


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
    return _pack_reply(16 + len(body), xid, zxid, err) + body


def encode_event(event_type: int, state: int, path: str, zxid: int) -> bytes:
    """A whole watch notification, its length included. `zxid` is the header's."""
    raw = from_text(path)
    size = len(raw)
    return _pack_event(28 + size, _NOTIFICATION_XID, zxid, 0, event_type, state, size) + raw


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
    return read_connect(reader, reader.int(), may_end_early=True)


def read_connect(reader: Reader, version: int, *, may_end_early: bool = False) -> ConnectRequest:
    """What follows a ConnectRequest's version. `may_end_early`: before the last byte."""
    last_zxid, timeout_ms, session_id, password = reader.long(), reader.int(), reader.long(), reader.buffer()
    read_only = None if may_end_early and not reader.remaining else reader.boolean()
    return ConnectRequest(version, last_zxid, timeout_ms, session_id, password, read_only)


def encode_connect_response(
    timeout_ms: int, session_id: int, password: bytes, read_only: bool | None, version: int = 0
) -> bytes:
    """A whole ConnectResponse, its length included; `read_only` None leaves the byte out, for old clients."""
    last = b"" if read_only is None else bytes((read_only,))
    return pack_buffer(_pack_connected(version, timeout_ms, session_id) + pack_buffer(password) + last)
