"""The sink "zookeeper": a table of znodes as a snapshot that ZooKeeper 3.8 and 3.9 load, written in parallel.

    frame.write.format("zookeeper").mode("append").option("zxid", 4711).save("/var/lib/zookeeper")

Options, besides the directory (dataDir or its version-2, under one path on the driver and the workers):
zxid         that the tree is at, and the file's name; the largest in any node
sessions     the table of sessions, as JSON: [[id, timeout in ms], ...]; none
trailer      seal (default; every server takes it), digest, full (with the last zxid, for 3.9's restore; a 3.9
             server with digests off refuses it)
compression  gz, snappy; none

Rows may have any order and partitioning. ZooKeeper requires parents before their children, so each task
writes a file for each depth, and commit() concatenates all depths. A task that is run again leaves a file
that is not used. The snapshot gets its name only when it is complete. The directory must contain no other
snapshot and no log, since a server would prefer that snapshot, or replay that log.
"""

import json
import os
import shutil
import uuid
import zlib
from collections.abc import Collection, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy
import pyarrow

from codec import snapshot_file
from codec.jute import INT, NULL
from codec.longs import signed
from codec.seal import adler32_combine, sealed_tail
from pipeline.batches import without_members
from pipeline.etcd import columns
from pipeline.folders import check_writable, clear, named
from pipeline.formats import log, snapshot
from pipeline.formats.compression import SNAPPY_HEADER, Compressor
from pipeline.table import ZNODE_NUMBERS, ZNODES, AclRow, SessionRow
from proxy.support.files import FOLDER, new_file, new_folder, sync_folder

TRAILERS = ("seal", "digest", "full")
_FLUSH = 1 << 20
_STAGING = ".export"


class SinkOptions(NamedTuple):
    """The parsed options."""

    folder: Path
    zxid: int | None
    sessions: tuple[SessionRow, ...]
    trailer: str
    codec: str
    overwrite: bool


def options_of(given: MutableMapping[str, str], folder: str, overwrite: bool) -> SinkOptions:
    """Parse the options. Raises ValueError for invalid ones."""
    trailer = given.get("trailer", "seal")
    if trailer not in TRAILERS:
        raise ValueError(f"trailer is one of {', '.join(TRAILERS)}, not {trailer}")
    codec = given.get("compression", "")
    if codec not in ("", "gz", "snappy"):
        raise ValueError(f"compression is gz or snappy, not {codec}")
    try:
        pairs = json.loads(given.get("sessions", "[]"))
        sessions = tuple(SessionRow(int(number), int(timeout)) for number, timeout in pairs)
    except (ValueError, TypeError) as error:
        raise ValueError("sessions is a JSON list of pairs: id, timeout in ms") from error
    zxid = int(given["zxid"], 0) if "zxid" in given else None
    return SinkOptions(folder_of(folder), zxid, sessions, trailer, codec, overwrite)


def folder_of(directory: str) -> Path:
    """The folder with the files of a dataDir, which is named directly or by its version-2."""
    path = Path(directory)
    return path if path.name == "version-2" else path / "version-2"


def check_folder(folder: Path, name: str | None = None, *, overwrite: bool = False) -> None:
    """Raises ValueError if a server would not load a file `name` (None: any) there as the tree, or if no file
    can be written there.
    """
    check_writable(folder)
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        is_snapshot = snapshot.zxid_of(file.name) is not None
        if not is_snapshot and log.zxid_of(file.name) is None:
            continue
        if is_snapshot and overwrite and name in (None, file.name):
            continue
        raise ValueError(f"{folder} holds {file.name} already: the directory must be empty of other trees")


@dataclass(frozen=True)
class _Part:
    """The nodes of one depth, from one task."""

    depth: int
    file: str
    adler: int
    size: int  # bytes, uncompressed


@dataclass(frozen=True)
class _Written:
    """The result of one task."""

    parts: tuple[_Part, ...]
    roots: int
    acls: dict[int, tuple[AclRow, ...]]
    digest: int
    newest: int  # the largest zxid


class ZooKeeperWriter:
    """Writes one snapshot."""

    def __init__(self, options: SinkOptions, columns: Collection[str]) -> None:
        """Raises ValueError for columns that are missing, or a folder that holds other files."""
        missing = [name for name in ZNODES.names if name not in columns]
        if missing:
            raise ValueError(f"the table has no column {', '.join(missing)}")
        self._options = options
        self._staging = options.folder / f"{_STAGING}-{uuid.uuid4().hex}"
        check_folder(options.folder, overwrite=options.overwrite)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> _Written:
        """Write one task's nodes, into separate files."""
        self._staging.mkdir(FOLDER, parents=True, exist_ok=True)
        task = _Task(self._staging, self._options.codec, self._options.trailer != "seal")
        for batch in iterator:
            with named(self._staging):
                task.add(batch)
        with named(self._staging):
            return task.end()

    def commit(self, parts: Sequence[_Written]) -> None:
        """Concatenate the parts, seal the file and give it its name. Raises ValueError."""
        try:
            with named(self._options.folder):
                self._commit(parts)
        finally:
            shutil.rmtree(self._staging, ignore_errors=True)

    def abort(self) -> None:
        """Remove the files that the tasks have written."""
        shutil.rmtree(self._staging, ignore_errors=True)

    def _commit(self, written: Sequence[_Written]) -> None:
        roots = sum(message.roots for message in written)
        if roots != 1:
            raise ValueError(f"the table has {roots} rows for /, not one: a snapshot is a whole tree")
        newest = max(message.newest for message in written)
        zxid = newest if self._options.zxid is None else self._options.zxid
        if zxid < newest:
            raise ValueError(f"zxid is {zxid:#x}, but a node has {newest:#x}: zxids would run backwards")
        acls: dict[int, tuple[AclRow, ...]] = {}
        for message in written:
            for number, acl in message.acls.items():
                if acls.setdefault(number, acl) != acl:
                    raise ValueError(f"two ACLs have the number {number}")
        trailers = []
        if self._options.trailer != "seal":
            total = signed(sum(message.digest for message in written))
            trailers.append(snapshot_file.pack_digest(zxid, total))
        if self._options.trailer == "full":
            trailers.append(snapshot_file.pack_last_zxid(zxid))
        name = f"snapshot.{zxid:x}" + (f".{self._options.codec}" if self._options.codec else "")
        check_folder(self._options.folder, name, overwrite=self._options.overwrite)
        self._options.folder.mkdir(FOLDER, parents=True, exist_ok=True)
        whole = self._staging / name
        new_folder(self._staging)
        with new_file(whole) as file:
            if self._options.codec == "snappy":
                file.write(SNAPPY_HEADER)
            head = snapshot_file.pack_head(self._options.sessions, acls)
            adler = zlib.adler32(head)
            self._put(file, head)
            parts = [part for message in written for part in message.parts]
            for part in sorted(parts, key=attrgetter("depth")):
                with Path(part.file).open("rb") as source:
                    shutil.copyfileobj(source, file, 8 << 20)
                adler = adler32_combine(adler, part.adler, part.size)
            self._put(file, snapshot_file.END + sealed_tail(zlib.adler32(snapshot_file.END, adler), trailers))
            file.flush()
            os.fsync(file.fileno())
        whole.rename(self._options.folder / name)
        sync_folder(self._options.folder)
        clear(self._options.folder, _STAGING)

    def _put(self, file: BinaryIO, raw: bytes) -> None:
        compressor = Compressor(self._options.codec)
        file.write(compressor.add(raw) + compressor.end())


class _Task:
    """Packs rows into a file for each depth."""

    def __init__(self, folder: Path, codec: str, digests: bool) -> None:
        self._folder = folder
        self._codec = codec
        self._digests = digests
        self._name = uuid.uuid4().hex
        self._depths: dict[int, _Depth] = {}
        self._acls: dict[tuple[AclRow, ...], int] = {}
        self._digest = 0
        self._newest = 0
        self._roots = 0

    def add(self, batch: pyarrow.RecordBatch) -> None:
        """Add rows. Raises ValueError for a path that no tree has."""
        if not batch.num_rows:
            return
        batch = without_members(batch.select(ZNODES.names).cast(ZNODES))
        fixed = numpy.zeros(batch.num_rows, snapshot.FIXED)
        for name in ZNODE_NUMBERS:
            fixed[name] = batch.column(name).to_numpy()
        fixed["acl"] = self._acl_ids(batch.column("acl"))
        self._newest = max(self._newest, *(int(fixed[name].max()) for name in ("czxid", "mzxid", "pzxid")))
        paths = [path_bytes(path) for path in batch.column("path").to_pylist()]
        data = batch.column("data").to_pylist()
        size = snapshot.FIXED.itemsize
        raw = fixed.tobytes()
        for position, (path, value) in enumerate(zip(paths, data, strict=True)):
            content = NULL if value is None else INT.pack(len(value)) + value
            record = INT.pack(len(path)) + path + content + raw[position * size : (position + 1) * size]
            self._depth(path.count(b"/")).add(record)
        if self._digests:
            self._digest += sum(columns.hashes(batch))

    def end(self) -> _Written:
        """Close the files."""
        parts = tuple(depth.end() for depth in self._depths.values())
        acls = {number: acl for acl, number in self._acls.items()}
        return _Written(parts, self._roots, acls, self._digest, self._newest)

    def _depth(self, depth: int) -> "_Depth":
        if depth == 0:
            self._roots += 1
        found = self._depths.get(depth)
        if found is None:
            file = self._folder / f"{depth}-{self._name}"
            found = self._depths[depth] = _Depth(depth, file, Compressor(self._codec))
        return found

    def _acl_ids(self, column: pyarrow.ListArray) -> list[int]:
        entries = column.flatten()
        perms, schemes, identities = (entries.field(at).to_pylist() for at in range(3))
        flat = list(map(AclRow, perms, schemes, identities))
        ids = []
        at = 0
        for length in column.value_lengths().to_pylist():
            if length is None:
                ids.append(snapshot_file.OPEN_ACL_ID)
                continue
            acl = tuple(flat[at : at + length])
            at += length
            number = self._acls.get(acl)
            if number is None:
                number = self._acls[acl] = acl_number(acl)
            ids.append(number)
        return ids


class _Depth:
    """The file of one depth."""

    def __init__(self, depth: int, file: Path, compressor: Compressor) -> None:
        self._depth = depth
        self._path = file
        self._file = new_file(file)
        self._compressor = compressor
        self._waiting: list[bytes] = []
        self._waiting_size = 0
        self._adler = 1
        self._size = 0

    def add(self, record: bytes) -> None:
        """Add a record."""
        self._waiting.append(record)
        self._waiting_size += len(record)
        if self._waiting_size >= _FLUSH:
            self._flush()

    def end(self) -> _Part:
        """Close the file."""
        self._flush()
        self._file.write(self._compressor.end())
        self._file.close()
        return _Part(self._depth, str(self._path), self._adler, self._size)

    def _flush(self) -> None:
        raw = b"".join(self._waiting)
        self._adler = zlib.adler32(raw, self._adler)
        self._size += len(raw)
        self._file.write(self._compressor.add(raw))
        self._waiting, self._waiting_size = [], 0


def path_bytes(path: str) -> bytes:
    """A path in the file's form. Raises ValueError for one that no tree has."""
    if path == "/":
        return b""
    if not path.startswith("/") or path.endswith("/") or "//" in path or "\0" in path:
        raise ValueError(f"{path!r} is no znode's path")
    return path.encode()


def acl_number(acl: tuple[AclRow, ...]) -> int:
    """An ACL's id in the file, made of its content, so that tasks need not agree. Servers count from it."""
    return int.from_bytes(sha256(repr([tuple(entry) for entry in acl]).encode()).digest()[:6], "big") + 1
