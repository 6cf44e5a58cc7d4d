"""ClickHouse Keeper's extensions to the protocol: its long handshake, 64-bit xids, and its own requests.

Twins of what lab/oracle declares, as in packets.py and with the same errors. Here is only what Keeper
adds; nothing here knows what a server answers.
"""

from struct import Struct
from struct import error as StructError
from typing import NamedTuple, TypeAlias

from codec.constants import ProtocolVersion
from codec.errors import FrameTooLong, MalformedPacket
from codec.framing import Framer
from codec.jute import INT, Reader, from_text
from codec.packets import STAT, ConnectRequest, present, read_connect
from codec.trace_context import TracedFramer

WIDE_REQUEST_HEADER = Struct(">qi")  # xid, opcode
_pack_reply = Struct(">iqqi").pack  # length, xid, zxid, err
_pack_event = Struct(">iqqiiii").pack  # length, reply header, type, state, length of the path

StatValues: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int]

#: Bytes of the longest handshake that is taken; a client's has 44 to 47. ZooKeeper's limit is jute.maxbuffer:
#: it keeps a megabyte of each that is never complete.
MOST_OF_HANDSHAKE = 1024
# What a handshake says is its length, and the bytes that come beyond that, by its version.
_HANDSHAKE_LENGTH = 45
_BEYOND = {ProtocolVersion.WIDE_XIDS: 1, ProtocolVersion.TRACING: 2}


class OpeningFramer:
    """The frames of a connection. The first one is short, and may be Keeper's handshake, longer than it says.

    Once the first frame is there, `rest` frames all that follows and may be used in its place.
    """

    __slots__ = ("_held", "_keeper", "_max_frame", "rest")

    def __init__(self, max_frame: int, *, keeper: bool = True) -> None:
        """`keeper`: whether it may be Keeper's."""
        self._held: bytearray | None = bytearray()
        self._max_frame = max_frame
        self._keeper = keeper
        self.rest: Framer | TracedFramer = Framer(max_frame)

    @property
    def held(self) -> bytes:
        """The bytes of an incomplete frame."""
        return self.rest.held if self._held is None else bytes(self._held)

    def feed(self, data: bytes) -> list[bytes]:
        """As Framer.feed, and with its errors."""
        held = self._held
        if held is None:
            return self.rest.feed(data)
        held += data
        if len(held) < INT.size:
            return []
        (length,) = INT.unpack_from(held)
        limit = min(self._max_frame, MOST_OF_HANDSHAKE)
        if not 0 <= length <= limit:
            raise FrameTooLong(length, limit, [], bytes(held[INT.size :]))
        end = INT.size + length
        if len(held) < end:
            return []
        if self._keeper and length == _HANDSHAKE_LENGTH:
            (version,) = INT.unpack_from(held, INT.size)
            end += _BEYOND.get(version, 0)
            if len(held) < end:
                return []
            if version == ProtocolVersion.TRACING:
                self.rest = TracedFramer(self._max_frame)
        first, rest = bytes(held[INT.size : end]), bytes(held[end:])
        self._held = None
        try:
            return [first, *self.rest.feed(rest)]
        except FrameTooLong as error:
            raise FrameTooLong(error.length, error.limit, [first, *error.frames], error.rest) from None


class KeeperConnectRequest(NamedTuple):
    """The handshake of protocol version 11, which asks for 64-bit xids, or 12, which has trace contexts."""

    request: ConnectRequest
    use_wide_xids: bool
    use_compression: bool


def decode_wide_connect(frame: bytes) -> KeeperConnectRequest:
    """The handshake of protocol version 11. Raises MalformedPacket."""
    reader = Reader(frame)
    version, use_compression = reader.int(), reader.boolean()
    return KeeperConnectRequest(read_connect(reader, version), True, use_compression)


def decode_traced_connect(frame: bytes) -> KeeperConnectRequest:
    """The handshake of protocol version 12. Raises MalformedPacket."""
    reader = Reader(frame)
    version, use_wide_xids, use_compression = reader.int(), reader.boolean(), reader.boolean()
    return KeeperConnectRequest(read_connect(reader, version), use_wide_xids, use_compression)


def wide_frame(xid: int, zxid: int, err: int, body: bytes = b"") -> bytes:
    """packets.frame with a 64-bit xid."""
    return _pack_reply(20 + len(body), xid, zxid, err) + body


def wide_event(event_type: int, state: int, path: str, zxid: int) -> bytes:
    """packets.encode_event with a 64-bit xid."""
    raw = from_text(path)
    size = len(raw)
    return _pack_event(32 + size, -1, zxid, 0, event_type, state, size) + raw


def read_filtered_list(reader: Reader) -> tuple[str, bool, int]:
    """Path, watch and filter (a ListFilter, or an unknown number) of FILTERED_LIST."""
    path, watch, only = reader.string(), reader.boolean(), _unsigned_byte(reader)
    return present(path, reader.position), watch, only


def read_path_limit(reader: Reader) -> tuple[str, int]:
    """Path and limit, an unsigned number of nodes, of REMOVE_RECURSIVE and LIST_RECURSIVE."""
    path, limit = reader.string(), reader.int() & 0xFFFFFFFF
    return present(path, reader.position), limit


def read_check_stat(reader: Reader) -> tuple[str, int, StatValues]:
    """Path, version and Stat, in the order of the record, of CHECK_STAT."""
    path, version = reader.string(), reader.int()
    try:
        stat: StatValues = STAT.unpack_from(reader.data, reader.position)
    except StructError:
        raise MalformedPacket("cut within a Stat") from None
    reader.position += STAT.size
    return present(path, reader.position), version, stat


def read_list_with_stat_and_data(reader: Reader) -> tuple[str, bool, int, bool, bool]:
    """Path, watch, filter, and whether Stats and data are wanted, of LIST_WITH_STAT_AND_DATA."""
    path, watch, only = reader.string(), reader.boolean(), _unsigned_byte(reader)
    with_stat, with_data = reader.boolean(), reader.boolean()
    return present(path, reader.position), watch, only, with_stat, with_data


def _unsigned_byte(reader: Reader) -> int:
    return reader.byte() & 0xFF
