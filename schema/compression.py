"""The envelope of entries and pages: format, checksum, a head that stays readable, a compressed body.

    1  format: what the value is, and in which layout
    4  CRC-32 of everything behind this field
    1  compression of the body: 0 none, 1 zstd, 2 lz4 (a bare block)
    4  size of the head
    4  size of the body before compression
    n  the head, never compressed
    m  the body

The checksum covers the stored bytes, so that nothing damaged reaches the decompressor. zstd makes bodies half
as large as lz4 does, but each call takes 40 us before it has done anything: README.md has the figures.
"""

from struct import Struct
from struct import error as StructError
from zlib import crc32

import cramjam

from schema.errors import BadValue

_ZSTD_LEVEL = 1
# Smaller bodies are stored as they are: compressing them takes longer than etcd needs for their bytes.
COMPRESS_FROM = 4 << 10
# From here on zstd, below lz4.
ZSTD_FROM = 64 << 10
# No value is larger than etcd's 1.5 MiB. A body that compresses more than 40 times is no real one: it is
# stored as it is, and no reader decompresses it.
MAX_BODY = 64 << 20

_NONE = 0
_ZSTD = 1
_LZ4 = 2

_FORMAT = Struct(">BI")
_SIZES = Struct(">BII")
_ALL = Struct(">BIBII")
_CRC_FROM = _FORMAT.size  # the checksum covers what follows it
ENVELOPE_SIZE = _ALL.size


def wrap(format_byte: int, body: bytes, head: bytes = b"") -> bytes:
    """The finished value: `body` compressed where that makes it smaller, with a checksum over all."""
    size = len(body)
    compression = _NONE
    if COMPRESS_FROM <= size <= MAX_BODY:
        if size >= ZSTD_FROM:
            chosen, compressed = _ZSTD, bytes(cramjam.zstd.compress(body, _ZSTD_LEVEL))
        else:
            chosen, compressed = _LZ4, bytes(cramjam.lz4.compress_block(body, store_size=False))
        if len(compressed) < size:
            compression, body = chosen, compressed
    covered = b"".join((_SIZES.pack(compression, len(head), size), head, body))
    return _FORMAT.pack(format_byte, crc32(covered)) + covered


def unwrap(format_byte: int, value: bytes, what: str) -> tuple[bytes, bytes]:
    """(head, body) of a wrapped value; `what` names it in errors. Raises BadValue."""
    compression, start, size = _checked(format_byte, value, what)
    head = value[ENVELOPE_SIZE:start]
    if compression == _NONE:
        if size != len(value) - start:
            raise BadValue(f"{what} announces a body of {size} bytes and has {len(value) - start}")
        return head, value[start:]
    if compression not in (_ZSTD, _LZ4):
        raise BadValue(f"{what} has compression {compression}; this release reads {_NONE} to {_LZ4}")
    if size > MAX_BODY:
        raise BadValue(f"{what} announces a body of {size} bytes; the limit is {MAX_BODY}")
    return head, _decompress(compression, value[start:], size, what)


def size_before(value: bytes) -> int:
    """The size before compression of a value's body. Raises BadValue if it is too short to have one."""
    try:
        size: int = _ALL.unpack_from(value)[-1]
    except StructError:
        raise BadValue(f"a value of {len(value)} bytes is cut short") from None
    return size


def unwrap_head(format_byte: int, value: bytes, what: str) -> bytes:
    """The head of a wrapped value, without decompressing its body. Raises BadValue."""
    _, start, _ = _checked(format_byte, value, what)
    return value[ENVELOPE_SIZE:start]


def _checked(format_byte: int, value: bytes, what: str) -> tuple[int, int, int]:
    """(compression, where the body starts, its size before compression)."""
    try:
        found, crc, compression, head_size, size = _ALL.unpack_from(value)
    except StructError:
        raise BadValue(f"{what} of {len(value)} bytes is cut short") from None
    if found != format_byte:
        raise BadValue(f"{what} has format {found:#04x}; this release reads {format_byte:#04x}")
    if crc32(memoryview(value)[_CRC_FROM:]) != crc:
        raise BadValue(f"{what} of {len(value)} bytes is damaged: its checksum does not match")
    start = ENVELOPE_SIZE + head_size
    if start > len(value):
        raise BadValue(f"{what} announces a head of {head_size} bytes and has {len(value)} bytes in all")
    return compression, start, size


def _decompress(compression: int, compressed: bytes, size: int, what: str) -> bytes:
    # Into a buffer of the announced size, so that a body cannot grow beyond it.
    body = bytearray(size)
    try:
        if compression == _ZSTD:
            written = cramjam.zstd.decompress_into(compressed, body)
        else:
            written = cramjam.lz4.decompress_block_into(compressed, body, output_len=size)
    except cramjam.DecompressionError as error:
        raise BadValue(f"{what} cannot be decompressed to {size} bytes: {error}") from None
    if written != size:
        raise BadValue(f"{what} announces a body of {size} bytes and decompresses to {written}")
    return bytes(body)
