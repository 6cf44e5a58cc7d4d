"""A snapshot file's head, nodes and trailers, both ways: FileSnap, DataTree and StatPersisted of ZooKeeper.

Nodes are read in runs, column by column, since a tree has millions of them. Every fault raises BadFile with
its byte offset.
"""

import struct
import zlib
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy

from codec import seal
from codec.snapshot_file import END, MAGIC
from pipeline.formats import compression
from pipeline.formats.compression import Source
from pipeline.formats.errors import BadFile
from pipeline.formats.text import decode, hexadecimal
from pipeline.table import ZNODE_NUMBERS, AclRow, SessionRow, ZnodeRow

PREFIX = "snapshot."

# The fields after a node's data: aclId, StatPersisted.
FIXED = numpy.dtype(
    [
        ("acl", ">i8"),
        ("czxid", ">i8"),
        ("mzxid", ">i8"),
        ("ctime", ">i8"),
        ("mtime", ">i8"),
        ("version", ">i4"),
        ("created", ">i4"),
        ("aversion", ">i4"),
        ("owner", ">i8"),
        ("pzxid", ">i8"),
    ]
)
_FIXED = struct.Struct(">qqqqqiiiqq")
_FIXED_SIZE = _FIXED.size
_OWNER_AT = 52  # of the fixed part
_INT = struct.Struct(">i")
_HEADER = struct.Struct(">iiq")
_SESSION = struct.Struct(">qi")
_DIGEST = struct.Struct(">qiq")
_LONG = struct.Struct(">q")
_DIGEST_VERSION = 2
_TAIL = len(END) + seal.SEAL_SIZE + 54
# Bytes of a path, of data, and of a text of an ACL. A server with a jute.maxbuffer of 1 MiB reads no 2 MiB.
_LONGEST = 1 << 26
_MOST = 1 << 28  # bytes of all sessions, of all ACLs, and of one ACL: this bounds a bad number


class Head(NamedTuple):
    """The part of the file before the nodes."""

    sessions: tuple[SessionRow, ...]
    acls: Mapping[int, tuple[AclRow, ...]]
    nodes_at: int  # the first node's byte


class Checked(NamedTuple):
    """The data at a snapshot's end, after its last seal was checked."""

    size: int  # of the file, uncompressed
    end: int | None  # the byte of the mark after the last node; None if an older kind of trailer follows
    digest: tuple[int, int] | None  # zxid, sum as a signed long
    last_zxid: int | None

    @property
    def written_at(self) -> int:
        """The last transaction of which the file may have a part; 0 if no trailer says so."""
        return max(self.digest[0] if self.digest is not None else 0, self.last_zxid or 0)


class Nodes(NamedTuple):
    """A run of nodes as columns."""

    offsets: list[int]  # of each record, bytes from the file's start
    paths: list[bytes]  # b"" is the root
    data: list[bytes | None]
    fixed: "numpy.ndarray[tuple[int], numpy.dtype[numpy.void]]"  # of dtype FIXED
    end: int  # the byte after the last record
    last: bool  # whether the end mark follows; `end` is before it


def zxid_of(name: str) -> int | None:
    """The zxid in a snapshot's name; None for other files."""
    if not name.startswith(PREFIX):
        return None
    return hexadecimal(name.split(".")[1])


class SnapshotReader:
    """Reads one snapshot front to back, within the `with` of compression.opened."""

    def __init__(self, source: Source, file: str, position: int = 0) -> None:
        """`position` is the byte to begin at; only in plain files can it be other than 0."""
        self._source = source
        self._file = file
        self._at = position  # within the buffer

    @property
    def offset(self) -> int:
        """The next byte, from the file's start."""
        return self._source.base + self._at

    def head(self) -> Head:
        """Header, sessions, ACLs. Raises BadFile."""
        magic, _, _ = self._unpack(_HEADER, "the header")
        if magic != MAGIC:
            raise BadFile(self._file, 0, f"is no snapshot: it begins with {magic & 0xFFFFFFFF:08x}")
        count = self._count("sessions", _SESSION.size)
        sessions = [SessionRow(*self._unpack(_SESSION, "a session")) for _ in range(count)]
        acls: dict[int, tuple[AclRow, ...]] = {}
        for _ in range(self._count("ACLs", 12)):
            (number,) = self._unpack(_LONG, "an ACL's id")
            acls[number] = self._acl()
        return Head(tuple(sessions), acls, self.offset)

    def nodes(self, limit: int | None = None, most: int = 8192) -> Nodes:
        """The next run of up to `most` nodes, those that begin before byte `limit`. Raises BadFile."""
        while True:
            run = self._run(limit, most)
            if run.offsets or run.last or (limit is not None and self.offset >= limit):
                return run
            self._more("a node")

    def hop(
        self,
        wanted: Collection[bytes],
        owners: Collection[bytes],
        found: Callable[[int, ZnodeRow, int], None],
        step: int,
    ) -> list[int]:
        """Walk over all nodes without decoding them; return where runs of about `step` bytes begin.

        Calls `found(offset, node, acl id)` for nodes whose path is among `wanted`, or whose owner's 8 bytes
        are among `owners`; its acl is None. The last number returned is the byte of the end mark; the reader
        is then after it. Raises BadFile.
        """
        splits = [self.offset]
        due = self.offset + step
        check = bool(wanted) or bool(owners)
        unpack = _INT.unpack_from
        while True:
            buffer, base, at = self._source.buffer, self._source.base, self._at
            size = len(buffer)
            try:
                while True:
                    (length,) = unpack(buffer, at)
                    data_at = at + 4 + length
                    if length <= 1:
                        if length == 1 and data_at > size:
                            break
                        if length == 1 and buffer[at + 4 : data_at] == b"/":
                            self._at = data_at
                            splits.append(base + at)
                            return splits
                        if length:
                            raise BadFile(self._file, base + at, f"a node's path has length {length}")
                    elif length > _LONGEST:
                        raise BadFile(self._file, base + at, f"a node's path has length {length}")
                    (data_size,) = unpack(buffer, data_at)
                    if not 0 <= data_size <= _LONGEST:
                        if data_size != -1:
                            raise self._bad_data(base + data_at, data_size)
                        data_size = 0
                    fixed_at = data_at + 4 + data_size
                    following = fixed_at + _FIXED_SIZE
                    if following > size:
                        break
                    if base + at >= due:
                        splits.append(base + at)
                        due = base + at + step
                    if check:
                        owner_at = fixed_at + _OWNER_AT
                        if buffer[at + 4 : data_at] in wanted or (
                            owners and buffer[owner_at : owner_at + 8] in owners
                        ):
                            self._at = at
                            self._found(found)
                    at = following
            except struct.error:
                pass
            self._at = at
            self._more("a node")

    def _found(self, found: Callable[[int, ZnodeRow, int], None]) -> None:
        at = self._at
        run = self._run(None, 1)
        self._at = at
        fixed = run.fixed[0]
        node = ZnodeRow(
            path_text(run.paths[0], self._file, run.offsets[0]),
            run.data[0],
            None,
            *(int(fixed[name]) for name in ZNODE_NUMBERS),
        )
        found(run.offsets[0], node, int(fixed["acl"]))

    def _run(self, limit: int | None, most: int) -> Nodes:
        buffer, base, at = self._source.buffer, self._source.base, self._at
        size = len(buffer)
        bound = size if limit is None else min(size, limit - base)
        unpack = _INT.unpack_from
        offsets: list[int] = []
        paths: list[bytes] = []
        data: list[bytes | None] = []
        fixed: list[bytes] = []
        last = False
        try:
            bound = min(bound, at + compression.CHUNK)
            while at < bound and len(offsets) < most:
                (length,) = unpack(buffer, at)
                data_at = at + 4 + length
                if length <= 1:
                    if length == 1 and data_at > size:
                        break
                    if length == 1 and buffer[at + 4 : data_at] == b"/":
                        last = True
                        break
                    if length:
                        raise BadFile(self._file, base + at, f"a node's path has length {length}")
                elif length > _LONGEST:
                    raise BadFile(self._file, base + at, f"a node's path has length {length}")
                (data_size,) = unpack(buffer, data_at)
                start = data_at + 4
                if not 0 <= data_size <= _LONGEST:
                    if data_size != -1:
                        raise self._bad_data(base + data_at, data_size)
                    fixed_at = start
                else:
                    fixed_at = start + data_size
                following = fixed_at + _FIXED_SIZE
                if following > size:
                    break
                offsets.append(base + at)
                paths.append(bytes(buffer[at + 4 : data_at]))
                data.append(None if data_size < 0 else bytes(buffer[start:fixed_at]))
                fixed.append(buffer[fixed_at:following])
                at = following
        except struct.error:
            pass
        self._at = at
        return Nodes(offsets, paths, data, numpy.frombuffer(b"".join(fixed), FIXED), base + at, last)

    def _bad_data(self, at: int, size: int) -> BadFile:
        most = f", and {_LONGEST} is the most" if size > 0 else ""
        return BadFile(self._file, at, f"a node's data have length {size}{most}")

    def _more(self, what: str) -> None:
        if not self._source.more(self._at):
            raise BadFile(self._file, self.offset, f"ends within {what}: it is cut short")
        self._at = 0

    def _unpack(self, what: struct.Struct, name: str) -> tuple[int, ...]:
        while len(self._source.buffer) - self._at < what.size:
            self._more(name)
        values: tuple[int, ...] = what.unpack_from(self._source.buffer, self._at)
        self._at += what.size
        return values

    def _count(self, what: str, smallest: int) -> int:
        at = self.offset
        (count,) = self._unpack(_INT, f"the number of {what}")
        if count < 0 or count * smallest > _MOST:
            raise BadFile(self._file, at, f"{count} {what}")
        return count

    def _acl(self) -> tuple[AclRow, ...]:
        at = self.offset
        entries = []
        # A vector of -1 is null, which the servers never write for an ACL.
        for _ in range(self._count("entries of an ACL", 12)):
            (perms,) = self._unpack(_INT, "an ACL")
            entries.append(AclRow(perms, self._string(at), self._string(at)))
        return tuple(entries)

    def _string(self, start: int) -> str:
        (length,) = self._unpack(_INT, "an ACL")
        if not 0 <= length <= _LONGEST:
            raise BadFile(self._file, start, f"an ACL holds a text of length {length}")
        while len(self._source.buffer) - self._at < length:
            self._more("an ACL")
        raw = bytes(self._source.buffer[self._at : self._at + length])
        self._at += length
        return decode(raw)


def path_text(raw: bytes, file: str, offset: int) -> str:
    """A node's path as text. Raises BadFile if it is not UTF-8 or has no slash, which the server refuses."""
    if not raw:
        return "/"
    if raw[:1] != b"/":
        raise BadFile(file, offset, f"the path {raw!r} does not begin with a slash")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise BadFile(file, offset, f"the path {raw!r} is no UTF-8: {error.reason}") from error


def check_seal(path: str) -> Checked:
    """Compare a snapshot's last seal with all bytes before it, and read the trailers after the nodes.

    Raises BadFile, OSError.
    """
    adler, size, tail = 1, 0, b""
    for chunk in compression.chunks(path):
        if not size and chunk[:4] != _INT.pack(MAGIC):
            raise BadFile(path, 0, f"is no snapshot: it begins with {chunk[:4].hex()}")
        size += len(chunk)
        view = memoryview(tail + chunk if len(chunk) < _TAIL else chunk)
        if len(chunk) >= _TAIL:
            adler = zlib.adler32(tail, adler)
        adler = zlib.adler32(view[:-_TAIL], adler)
        tail = bytes(view[-_TAIL:])
    if not size:
        raise BadFile(path, 0, "is empty")
    adler = zlib.adler32(tail[: -seal.SEAL_SIZE], adler)
    written = seal.sealed(tail[-seal.SEAL_SIZE :])
    at = max(0, size - seal.SEAL_SIZE)
    if written is None:
        raise BadFile(path, at, "no seal at its end: it is cut short or was never finished")
    if written != adler:
        raise BadFile(path, at, f"the checksum is {adler:08x}, but the seal says {written:08x}")
    return _checked(size, tail)


def _checked(size: int, tail: bytes) -> Checked:
    """Decode the trailers. The file does not say which ones it has, but their lengths differ."""
    for length in (54, 33, 21, 0):
        rest = tail[len(tail) - len(END) - seal.SEAL_SIZE - length :]
        if not rest.startswith(END) or seal.sealed(rest[len(END) : len(END) + seal.SEAL_SIZE]) is None:
            continue
        at = len(END) + seal.SEAL_SIZE
        digest = last_zxid = None
        if length in (33, 54):
            zxid, version, total = _DIGEST.unpack_from(rest, at)
            if version == _DIGEST_VERSION and zxid:
                digest = (zxid, total)
            at += _DIGEST.size + seal.SEAL_SIZE
        if length in (21, 54):
            (last_zxid,) = _LONG.unpack_from(rest, at)
        return Checked(size, size - len(rest), digest, last_zxid)
    return Checked(size, None, None, None)
