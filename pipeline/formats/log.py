"""A transaction log's entries: FileTxnLog's framing. transactions.py decodes their content."""

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from pipeline.formats.compression import Buffer, Source
from pipeline.formats.errors import BadFile
from pipeline.formats.text import hexadecimal

MAGIC = 0x5A4B4C47
PREFIX = "log."
HEADER_SIZE = 16
_HEAD = struct.Struct(">qi")
_INT = struct.Struct(">i")
_ZXID = struct.Struct(">q")
_ZXID_AT = 12  # of an entry's body: session, cxid, zxid
SHORTEST = 32  # bytes of an entry's body: TxnHeader
MARK = 0x42  # "B", after each entry


class BadSum(BadFile):
    """An entry's checksum is wrong."""


class Entry(NamedTuple):
    """One entry of a log."""

    offset: int  # of the entry in its file
    body: bytes


class End(NamedTuple):
    """How a log ends."""

    offset: int  # after the last entry
    torn: str | None  # the fault of what follows; None: only padding, or nothing
    padded: bool  # whether zeros follow, as in every log that a server preallocated


def zxid_of(name: str) -> int | None:
    """The zxid in a log's name; None for other files."""
    if not name.startswith(PREFIX):
        return None
    return hexadecimal(name.removeprefix(PREFIX))


def follows(zxid: int, following: int) -> bool:
    """Whether a transaction directly follows another; a new leader counts from 1 in its own epoch."""
    return following == zxid + 1 or (following >> 32 > zxid >> 32 and following & 0xFFFFFFFF == 1)


def check_header(source: Source, file: str) -> None:
    """Raises BadFile if the file is not a log."""
    check_magic(bytes(source.buffer[:HEADER_SIZE]), file)


def check_magic(head: bytes, file: str) -> None:
    """`head` is the file's first HEADER_SIZE bytes. Raises BadFile where they are no log's."""
    if len(head) < HEADER_SIZE:
        raise BadFile(file, 0, f"is cut short in its header: {len(head)} bytes")
    if head[:4] != _INT.pack(MAGIC):
        raise BadFile(file, 0, f"is no transaction log: it begins with {head[:4].hex()}")


def splits(source: Source, start: int, step: int, end: int) -> list[int]:
    """Where runs of about `step` bytes of whole entries begin, from `start` on; `end` is the last number."""
    found, due, at = [start], start + step, start
    while at < end:
        if at >= due:
            found.append(at)
            due = at + step
        following = _following(source.buffer, at)
        if following is None:
            break
        at = following
    return [*found, end]


def end_of(source: Source, start: int, most: int | None = None) -> End:
    """How the log ends, walking from the entry at `start`; or the place after at least `most` bytes of it.

    Checksums are not compared.
    """
    buffer = source.buffer
    at = start
    while (following := _following(buffer, at)) is not None:
        at = following
        if most is not None and at - start >= most:
            return End(at, None, False)
    rest = bytes(buffer[at:])
    if not rest.strip(b"\0"):
        return End(at, None, len(rest) >= _HEAD.size)
    return End(at, _flaw(rest), False)


def entries(source: Source, file: str, start: int, end: int | None = None) -> Iterator[Entry]:
    """The entries from byte `start` (HEADER_SIZE, or one of `splits`) to `end`, or to where the log ends.

    Raises BadSum for a wrong checksum, BadFile for an entry that is too short for any transaction.
    """
    buffer = source.buffer
    at = start
    unpack, adler32, head = _HEAD.unpack_from, zlib.adler32, _HEAD.size
    while end is None or at < end:
        # As `_following`, inline: logs have hundreds of thousands of entries.
        try:
            written, length = unpack(buffer, at)
            following = at + head + length + 1
            if length <= 0 or buffer[following - 1] != MARK:
                return
        except (struct.error, IndexError):
            return
        body = bytes(buffer[at + head : following - 1])
        adler = adler32(body)
        if adler != written:
            raise BadSum(file, at, f"the entry's checksum is {adler:08x}, but the log says {written:08x}")
        if length < SHORTEST:
            raise BadFile(file, at, f"an entry of {length} bytes is shorter than a transaction's header")
        yield Entry(at, body)
        at = following


def zxid_at(body: bytes) -> int:
    """An entry's zxid."""
    zxid: int = _ZXID.unpack_from(body, _ZXID_AT)[0]
    return zxid


def entry_size(body: bytes) -> int:
    """How many bytes an entry takes in its file."""
    return entry_size_of(len(body))


def entry_size_of(length: int) -> int:
    """The same, of an entry whose body has `length` bytes."""
    return _HEAD.size + length + 1


def pack_header() -> bytes:
    """A log's first bytes."""
    return struct.pack(">iiq", MAGIC, 2, 0)


def pack_entry(body: bytes) -> bytes:
    """One entry."""
    return _HEAD.pack(zlib.adler32(body), len(body)) + body + bytes((MARK,))


def _following(buffer: Buffer, at: int) -> int | None:
    """Where the next entry begins; None if there is no complete one at `at`."""
    try:
        _, length = _HEAD.unpack_from(buffer, at)
        following: int = at + _HEAD.size + length + 1
        if length <= 0 or buffer[following - 1] != MARK:
            return None
    except (struct.error, IndexError):
        return None
    return following


def _flaw(rest: bytes) -> str:
    if len(rest) < _HEAD.size:
        return f"{len(rest)} bytes follow that are no entry"
    _, length = _HEAD.unpack_from(rest)
    if not length > 0:
        return f"an entry of length {length}, and more behind it"
    if len(rest) < _HEAD.size + length + 1:
        return f"an entry of {length} bytes is cut short after {len(rest) - _HEAD.size}"
    return f"an entry of {length} bytes does not end with its mark"
