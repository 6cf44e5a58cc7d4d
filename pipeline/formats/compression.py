"""Plain, gzip and snappy files behind one reader: a buffer that grows on demand.

The name's ending determines the codec, not the content, as in SnapStream. gzip may have several members;
snappy is snappy-java's stream of blocks (xerial), not the framing format.
"""

import mmap
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias

import cramjam

from pipeline.formats.errors import BadFile

CHUNK = 4 << 20
_INT = struct.Struct(">i")
SNAPPY_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_SNAPPY_BLOCK = 32 << 10  # snappy-java's default
_SNAPPY_RATIO = 32  # more than any block has: three bytes of one stand for 64 at most
_SNAPPY_MAGIC = _INT.unpack(SNAPPY_HEADER[:4])[0]


Buffer: TypeAlias = bytes | mmap.mmap


class Source(Protocol):
    """Uncompressed bytes: `buffer[0]` is the file's byte `base`."""

    buffer: Buffer
    base: int

    def more(self, position: int) -> bool:
        """Drop what is before `position` in the buffer and append more. False, without effect, at the end."""
        ...


class BytesSource:
    """A plain file, mapped or read whole."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.base = 0

    def more(self, position: int) -> bool:
        """There is no more."""
        return False


class _Streamed:
    """A compressed file, read a chunk at a time."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.buffer: Buffer = b""
        self.base = 0
        self._chunks = chunks

    def more(self, position: int) -> bool:
        """As Source.more."""
        kept = self.buffer[position:]
        parts, size = [kept], 0
        # At least as much as is kept: a record of many chunks would else be copied with each of them.
        while size <= len(kept) and (chunk := next(self._chunks, None)) is not None:
            parts.append(chunk)
            size += len(chunk)
        if len(parts) == 1:
            return False
        self.buffer = b"".join(parts)
        self.base += position
        return True


def codec_of(name: str) -> str:
    """ "gz", "snappy" or "": what a file's name says of its compression."""
    suffix = name.rpartition(".")[2]
    return suffix if suffix in ("gz", "snappy") else ""


@contextmanager
def opened(path: str) -> Iterator[Source]:
    """A file to read. Reading raises BadFile for bytes that do not decompress; OSError as open() does."""
    with Path(path).open("rb") as file:
        if codec_of(path):
            yield _Streamed(_uncompressed(file, path))
            return
        if Path(path).stat().st_size == 0:
            yield BytesSource(b"")  # an empty file cannot be mapped
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            yield BytesSource(mapped)


def chunks(path: str) -> Iterator[bytes]:
    """A file's uncompressed bytes, in pieces. Raises BadFile, OSError."""
    with Path(path).open("rb") as file:
        yield from _uncompressed(file, path)


def _uncompressed(file: BinaryIO, path: str) -> Iterator[bytes]:
    codec = codec_of(path)
    if codec == "gz":
        yield from _gunzip(file, path)
    elif codec == "snappy":
        yield from _unsnap(file, path)
    else:
        while chunk := file.read(CHUNK):
            yield chunk


def _gunzip(file: BinaryIO, path: str) -> Iterator[bytes]:
    inflate = None
    raw = b""
    while raw := raw or file.read(1 << 18):
        if inflate is None:
            inflate = zlib.decompressobj(31)
        try:
            chunk = inflate.decompress(raw, CHUNK)
        except zlib.error as error:
            raise BadFile(path, None, f"is no proper gzip file: {error}") from error
        if chunk:
            yield chunk
        if inflate.eof:
            raw = inflate.unused_data
            inflate = None
        else:
            raw = inflate.unconsumed_tail
    if inflate is not None:
        # Output that the limit has kept back may wait without any input.
        yield inflate.flush()
        if not inflate.eof:
            raise BadFile(path, None, "is cut short: its gzip stream does not end")


def _unsnap(file: BinaryIO, path: str) -> Iterator[bytes]:
    if file.read(len(SNAPPY_HEADER)) != SNAPPY_HEADER:
        raise BadFile(path, 0, "is no snappy-java stream: another header")
    end = os.fstat(file.fileno()).st_size
    pieces: list[bytes] = []
    size = 0
    while head := file.read(4):
        length = _INT.unpack(head)[0] if len(head) == 4 else -1
        if length == _SNAPPY_MAGIC:  # a stream after a stream
            file.read(len(SNAPPY_HEADER) - 4)
            continue
        # Not left to read(): it allocates all that it is asked for before it reads.
        if not 0 <= length <= end - file.tell():
            raise BadFile(path, None, f"is cut short in the snappy block at compressed byte {file.tell()}")
        block = file.read(length)
        try:
            # The library would make room for what is announced, and end the process if there is none.
            announced = cramjam.snappy.decompress_raw_len(block)
            if announced > _SNAPPY_RATIO * length:
                raise BadFile(
                    path,
                    None,
                    f"has a broken snappy block before compressed byte {file.tell()}: {length} bytes that"
                    f" announce {announced}",
                )
            piece = bytes(cramjam.snappy.decompress_raw(block))
        except cramjam.DecompressionError as error:
            raise BadFile(
                path, None, f"has a broken snappy block before compressed byte {file.tell()}"
            ) from error
        pieces.append(piece)
        size += len(piece)
        if size >= CHUNK:
            yield b"".join(pieces)
            pieces, size = [], 0
    if pieces:
        yield b"".join(pieces)


class Compressor:
    """Compresses a part of a file: gzip members, or snappy blocks without the stream's header."""

    def __init__(self, codec: str) -> None:
        """`codec` as of codec_of."""
        self._codec = codec
        self._gzip = zlib.compressobj(6, zlib.DEFLATED, 31) if codec == "gz" else None
        self._waiting = bytearray()

    def add(self, raw: bytes) -> bytes:
        """The bytes that can be written now."""
        if self._gzip is not None:
            return self._gzip.compress(raw)
        if self._codec != "snappy":
            return raw
        self._waiting += raw
        whole = len(self._waiting) // _SNAPPY_BLOCK * _SNAPPY_BLOCK
        out = _blocks(bytes(self._waiting[:whole]))
        del self._waiting[:whole]
        return out

    def end(self) -> bytes:
        """The part's last bytes; the compressor cannot be used afterwards."""
        return self._gzip.flush() if self._gzip is not None else _blocks(bytes(self._waiting))


def _blocks(raw: bytes) -> bytes:
    out = []
    for start in range(0, len(raw), _SNAPPY_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(raw[start : start + _SNAPPY_BLOCK]))
        out += [_INT.pack(len(block)), block]
    return b"".join(out)
