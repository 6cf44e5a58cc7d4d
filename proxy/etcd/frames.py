"""HTTP/2 frames and gRPC's headers and messages as bytes, and back. Pure.

The settings forbid a dynamic header table. So equal header blocks mean the same on every stream, and
HPACK's decoder (the hpack library) runs only once for each distinct block.
"""

import struct
from functools import lru_cache

import hpack

from proxy.etcd.transport import Metadata

HEAD = struct.Struct(">IBI")  # length and type in one word, flags, stream
WORD = struct.Struct(">I")
SETTING = struct.Struct(">HI")
MESSAGE = struct.Struct(">BI")  # compressed or not, length

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
HEADER_TABLE_SIZE, ENABLE_PUSH, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 1, 2, 4, 5
CANCEL = 8  # the code of a reset

LARGEST = (1 << 31) - 1  # a stream's number, and a window
# RFC 9113's initial values, which hold until the settings of the peer arrive.
DEFAULT_WINDOW = 65_535
DEFAULT_FRAME = 16_384
_LARGEST_FRAME = (1 << 24) - 1
# The bytes that the peer may send before we acknowledge them: a watch that catches up brings tens of MiB.
WINDOW = 64 << 20
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, flags: int, stream: int, payload: bytes | memoryview = b"") -> bytes:
    """One frame."""
    return HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def preface() -> bytes:
    """What a client sends first."""
    settings = ((HEADER_TABLE_SIZE, 0), (ENABLE_PUSH, 0), (INITIAL_WINDOW_SIZE, WINDOW))
    return (
        _PREFACE
        + frame(SETTINGS, 0, 0, b"".join(SETTING.pack(*setting) for setting in settings))
        + frame(WINDOW_UPDATE, 0, 0, WORD.pack(WINDOW - DEFAULT_WINDOW))
    )


def without_padding(flags: int, payload: bytes) -> bytes:
    """The payload of DATA or HEADERS without its padding. Raises ValueError, and IndexError if empty."""
    if not flags & PADDED:
        return payload
    padding = payload[0]
    if padding >= len(payload):
        raise ValueError("more padding than payload")
    return payload[1 : len(payload) - padding]


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """The settings of the peer. Raises ValueError for one out of bounds, and struct.error."""
    settings = list(SETTING.iter_unpack(payload))
    for name, value in settings:
        if name == INITIAL_WINDOW_SIZE and value > LARGEST:
            raise ValueError(f"settings: an initial window of {value} bytes")
        if name == MAX_FRAME_SIZE and not DEFAULT_FRAME <= value <= _LARGEST_FRAME:
            raise ValueError(f"settings: frames of {value} bytes")
    return settings


class ReceiveWindow:
    """Counts received bytes of one flow-control window: a stream's, or the connection's."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def add(self, size: int) -> int:
        """Count a payload, padding included (RFC 9113, 6.1); the increment to send now, or 0."""
        self._count += size
        if self._count < WINDOW // 2:
            return 0
        count, self._count = self._count, 0
        return count


def _text(value: str) -> bytes:
    """A string of a header field: its length as HPACK's integer with a prefix of 7 bits, then its bytes."""
    data = value.encode()
    rest = len(data) - 127
    if rest < 0:
        return bytes((len(data),)) + data
    length = bytearray((127,))
    while rest >= 128:
        length.append(rest & 127 | 128)
        rest >>= 7
    length.append(rest)
    return bytes(length) + data


@lru_cache(maxsize=256)
def request_headers(
    scheme: str, authority: str, path: str, timeout: float | None, metadata: Metadata
) -> bytes:
    """The header block of a request: literals that enter no table. `timeout`: seconds."""
    fields = [
        b"\x83",  # :method POST
        b"\x87" if scheme == "https" else b"\x86",
        b"\x04" + _text(path),
        b"\x01" + _text(authority),
        b"\x0f\x10" + _text("application/grpc"),
        b"\x00" + _text("te") + _text("trailers"),
    ]
    if timeout is not None:
        # At most eight digits, by gRPC's rules: a day in milliseconds fits.
        fields.append(b"\x00" + _text("grpc-timeout") + _text(f"{max(1, round(timeout * 1000))}m"))
    fields += (b"\x00" + _text(name) + _text(value) for name, value in metadata)
    return b"".join(fields)


@lru_cache(maxsize=256)
def header_fields(block: bytes) -> dict[str, str]:
    """The fields of a header block. Raises hpack.HPACKError."""
    decoder = hpack.Decoder()
    decoder.header_table_size = 0
    decoder.max_allowed_table_size = 0
    fields = decoder.decode(block, raw=True)
    return {bytes(name).decode("latin-1"): bytes(value).decode("latin-1") for name, value in fields}
