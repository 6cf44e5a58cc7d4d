"""ZooKeeper's files: snapshots, logs, transactions, and the compressed forms of the first."""

import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from pipeline.formats import compression, log, snapshot, transactions
from pipeline.formats.compression import BytesSource
from pipeline.formats.errors import BadFile
from pipeline.table import ZnodeRow
from proof.fuzzing.target import Target, Wrong
from proof.fuzzing.targets.pieces import same

_FILE = "fuzzed"


def a_log(data: bytes) -> None:
    """A log: its runs have all its entries, in order, up to its end."""
    source = BytesSource(data)
    log.check_header(source, _FILE)
    end = log.end_of(source, log.HEADER_SIZE)
    if not log.HEADER_SIZE <= end.offset <= max(len(data), log.HEADER_SIZE):
        raise Wrong(f"the log ends at byte {end.offset} of {len(data)}")
    starts = log.splits(source, log.HEADER_SIZE, 64, end.offset)
    found = list(log.entries(source, _FILE, log.HEADER_SIZE))
    parts = [one for begin, stop in pairwise(starts) for one in log.entries(source, _FILE, begin, stop)]
    same("entries in runs", parts, found)
    for one in found:
        same(
            "an entry's bytes",
            log.pack_entry(one.body),
            data[one.offset : one.offset + log.entry_size(one.body)],
        )


def transaction(data: bytes) -> None:
    """An entry's body: its rows, packed again, are read the same."""
    entry = log.Entry(0, data)
    found = list(transactions.rows(entry, _FILE, ""))
    again = list(transactions.rows(log.Entry(0, transactions.pack(found)), _FILE, ""))
    same("read again", again, found)
    same("its type", transactions.kind_of(entry, _FILE) == found[0].type or found[0].part >= 0, True)


def a_snapshot(data: bytes) -> None:
    """A snapshot, read in runs of any length, and hopped over: the same nodes every way."""
    reader = snapshot.SnapshotReader(BytesSource(data), _FILE)
    head = reader.head()
    found = _nodes(reader)
    same("in short runs", _nodes(snapshot.SnapshotReader(BytesSource(data), _FILE, head.nodes_at), 2), found)
    hopped: list[int] = []

    def note(offset: int, _node: ZnodeRow, _acl: int) -> None:
        hopped.append(offset)

    paths = {path for _, path, _, _ in found}
    reader = snapshot.SnapshotReader(BytesSource(data), _FILE, head.nodes_at)
    for offset, path, _, _ in found:
        snapshot.path_text(path, _FILE, offset)
    reader.hop(paths, (), note, 64)
    same("hopped over", hopped, [offset for offset, _, _, _ in found])


def _nodes(reader: snapshot.SnapshotReader, most: int = 8192) -> list[tuple[int, bytes, bytes | None, bytes]]:
    found: list[tuple[int, bytes, bytes | None, bytes]] = []
    while True:
        run = reader.nodes(most=most)
        fixed = run.fixed.tobytes()
        size = snapshot.FIXED.itemsize
        found += [
            (offset, path, data, fixed[place * size : place * size + size])
            for place, (offset, path, data) in enumerate(zip(run.offsets, run.paths, run.data, strict=True))
        ]
        if run.last:
            return found


def seal(data: bytes) -> None:
    """A snapshot's last bytes, on a file."""
    with _file(data, "snapshot.1") as path:
        snapshot.check_seal(path)


def compressed(data: bytes) -> None:
    """A gzip or snappy file: a reader that asks for more gets what all chunks together have."""
    suffix = "gz" if data[:1] < b"\x80" else "snappy"
    with _file(data[1:], f"snapshot.1.{suffix}") as path:
        whole = _sum(compression.chunks(path))
        with compression.opened(path) as source:

            def pieces() -> Iterator[bytes]:
                while source.more(len(source.buffer)):
                    yield bytes(source.buffer)

            same("read on demand", _sum(pieces()), whole)


def _sum(pieces: Iterator[bytes]) -> tuple[int, int]:
    """Size and checksum: a compressed file may be too large to be kept."""
    size, adler = 0, 1
    for piece in pieces:
        size += len(piece)
        adler = zlib.adler32(piece, adler)
    return size, adler


@contextmanager
def _file(data: bytes, name: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="zketcd-fuzzing-") as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        yield str(path)


_CHUNKS = 4 * compression.CHUNK  # bytes that reading a compressed file may keep, whatever it holds

FILES = (
    Target("log", "A transaction log.", a_log, (BadFile,)),
    Target(
        "transaction",
        "An entry of a transaction log, without its checksum.",
        transaction,
        (BadFile,),
        bytes_each=2000,
    ),
    Target("snapshot", "A snapshot.", a_snapshot, (BadFile,), bytes_each=2000),
    Target("seal", "A snapshot, of which only the seal is looked at.", seal, (BadFile,), fixed_bytes=_CHUNKS),
    Target(
        "compressed",
        "gzip or snappy, as the first byte says, then a file's bytes.",
        compressed,
        (BadFile,),
        fixed_bytes=_CHUNKS,
    ),
)
