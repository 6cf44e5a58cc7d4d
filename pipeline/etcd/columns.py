"""Pages of znodes to and from Arrow, column by column: an object for each field would cost too much.

The layout is that of schema.pages. The tests compare every page that is made here with the one that
schema.pages makes of the same znodes, byte for byte.
"""

from collections.abc import Iterator
from struct import Struct
from zlib import crc32

import numpy
import numpy.typing
import pyarrow as pa
import pyarrow.compute as pc

from codec.jute import OPEN_ACL, Acl
from pipeline.batches import without_members
from pipeline.formats import digest
from pipeline.table import ZNODES
from schema import pages
from schema.errors import BadValue
from schema.paths import ZOOKEEPER

_ACL = ZNODES.field("acl").type
_LONGS = ("czxid", "mzxid", "pzxid", "ctime", "mtime", "owner")
_INTS = ("version", "created", "aversion")
_DIGEST_STAT = numpy.dtype(
    [
        *((name, ">i8") for name in ("czxid", "mzxid", "pzxid", "ctime", "mtime")),
        *((name, ">i4") for name in ("version", "created", "aversion")),
        ("owner", ">i8"),
    ]
)
_STAT = Struct(f"{_DIGEST_STAT.itemsize}s")
_ROOM = 4096  # bytes of a request that are not the page: the key, the load's guard
_LEAST_RAW = 1 << 20  # bytes of data and paths that are enough for a page

Numbers = numpy.typing.NDArray[numpy.int64]


def pages_of(
    batches: Iterator[pa.RecordBatch], max_request_bytes: int, target: int = pages.PAGE_BYTES
) -> Iterator[tuple[bytes, pa.RecordBatch]]:
    """Pages of about `target` bytes, each with its rows. The rows may come in any order; a page is sorted."""
    ratio = 2.0  # bytes of paths and data to those of a page; learned from page to page
    for batch in _gathered(batches):
        ordered = batch.take(pc.sort_indices(batch.column("path")))
        ends = numpy.cumsum(lengths(ordered.column("path")) + lengths(ordered.column("data")) + 16)
        start = 0
        while start < len(ends):
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(numpy.searchsorted(ends, before + int(target * ratio), "right")))
            size = 0
            for page, rows in _bounded(ordered.slice(start, stop - start), max_request_bytes - _ROOM):
                size += len(page)
                yield page, rows
            ratio = min(max((int(ends[stop - 1]) - before) / size, 1.0), 16.0)
            start = stop


def encode(batch: pa.RecordBatch) -> bytes:
    """The page of a batch's rows, which are sorted by path. Raises ValueError for what no znode can have."""
    count = batch.num_rows
    paths = batch.column("path").cast(pa.binary()).to_pylist()
    joined = b"\0".join(paths)
    if joined.count(b"\0") != count - 1:
        raise ValueError("a path holds a NUL character, which ZooKeeper allows in no path")
    data = batch.column("data")
    sizes = lengths(data)
    if data.null_count:
        sizes[data.is_null().to_numpy(zero_copy_only=False)] = -1
    acls, indexes = acl_table(batch.column("acl"))
    packed = b"".join(
        (
            *(numbers(batch, name).astype(">i8").tobytes() for name in _LONGS),
            *(numbers(batch, name).astype(">i4").tobytes() for name in _INTS),
            sizes.astype(">i4").tobytes(),
            indexes.astype(">u4").tobytes(),
        )
    )
    content = b"".join(value or b"" for value in data.to_pylist())
    return pages.pack_columns(
        count, paths[0].decode(), paths[-1].decode(), packed, joined, pages.pack_acls(acls), content
    )


def decode(page: bytes) -> pa.RecordBatch:
    """The znodes of a page as rows. Raises BadValue."""
    raw = pages.unpack_columns(page)
    count = raw.nodes
    columns: dict[str, pa.Array] = {}
    at = pages.NUMBERS_START
    for name in _LONGS:
        columns[name] = pa.array(numpy.frombuffer(raw.body, ">i8", count, at).astype("<i8"))
        at += 8 * count
    for name in _INTS:
        columns[name] = pa.array(numpy.frombuffer(raw.body, ">i4", count, at).astype("<i4"))
        at += 4 * count
    lengths = numpy.frombuffer(raw.body, ">i4", count, at).astype(numpy.int64)
    indexes = numpy.frombuffer(raw.body, ">u4", count, at + 4 * count).astype(numpy.int64)
    columns["path"] = _texts(raw.body[raw.paths_start : raw.acls_start], count)
    columns["data"] = _blobs(raw.body[raw.data_start :], lengths)
    table = pages.unpack_acls(raw.body[raw.acls_start : raw.data_start])
    if indexes.max() >= len(table):
        raise BadValue("a page has a znode whose ACL is not in it")
    acls = [None if acl == OPEN_ACL else [entry._asdict() for entry in acl] for acl in table]
    columns["acl"] = pa.array(acls, _ACL).take(pa.array(indexes))
    return pa.RecordBatch.from_arrays([columns[name] for name in ZNODES.names], schema=ZNODES)


def paths_of(page: bytes) -> pa.Array:
    """The paths of a page's znodes alone. Raises BadValue."""
    raw = pages.unpack_columns(page)
    return _texts(raw.body[raw.paths_start : raw.acls_start], raw.nodes)


def hashes(batch: pa.RecordBatch, *, ascii_only: bool = False) -> list[int]:
    """Each row's share in the tree's digest (proxy.state.digest.node_hash), in the order of the rows.

    `ascii_only`: as a server does whose locale has no other characters.
    """
    if ascii_only:
        paths = [path.encode("ascii", "replace") for path in batch.column("path").to_pylist()]
    else:
        paths = batch.column("path").cast(pa.binary()).to_pylist()
    column = batch.column("data")
    data = pc.fill_null(column, b"").to_pylist() if column.null_count else column.to_pylist()
    # As pipeline.formats.digest.of_packed, for many at once.
    found = [
        crc32(stat, crc32(value, crc32(path)))
        for path, value, (stat,) in zip(paths, data, _STAT.iter_unpack(stats(batch).tobytes()), strict=True)
    ]
    special = pc.starts_with(batch.column("path"), ZOOKEEPER + "/")
    for at in (*pc.indices_nonzero(special).to_pylist(), *_roots(paths)):
        stat = stats(batch.slice(at, 1)).tobytes()
        found[at] = digest.of_packed(b"" if paths[at] == b"/" else paths[at], data[at], stat)
    return found


def _roots(paths: list[bytes]) -> list[int]:
    return [at for at, path in enumerate(paths) if path == b"/"] if b"/" in paths else []


def stats(batch: pa.RecordBatch) -> "numpy.typing.NDArray[numpy.void]":
    """The 60 bytes of each row that are part of its digest."""
    made = numpy.zeros(batch.num_rows, _DIGEST_STAT)
    for name in _DIGEST_STAT.names or ():
        made[name] = numbers(batch, name)
    return made


def numbers(batch: pa.RecordBatch, name: str) -> Numbers:
    """A column of numbers."""
    column: Numbers = batch.column(name).to_numpy(zero_copy_only=False)
    return column


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows to store, in batches large enough for a page, with only the columns of ZNODES, in order."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(without_members(batch.select(ZNODES.names).cast(ZNODES)))
        size += batch.nbytes
        if size >= _LEAST_RAW:
            yield pa.concat_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def _bounded(batch: pa.RecordBatch, most: int) -> Iterator[tuple[bytes, pa.RecordBatch]]:
    page = encode(batch)
    if len(page) <= most or batch.num_rows == 1:
        yield page, batch
        return
    half = batch.num_rows // 2
    yield from _bounded(batch.slice(0, half), most)
    yield from _bounded(batch.slice(half), most)


def lengths(column: pa.Array) -> Numbers:
    """The length of each value, 0 for null."""
    found: Numbers = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    return found.astype(numpy.int64)


def acl_table(column: pa.ListArray) -> tuple[list[tuple[Acl, ...]], Numbers]:
    """(the distinct ACLs in the order of their first row, each row's index among them)."""
    if column.null_count == len(column):
        return [OPEN_ACL], numpy.zeros(len(column), numpy.int64)
    sizes: Numbers = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
    sizes = sizes.astype(numpy.int64)
    entries = column.flatten()
    table = [entries.field(name).dictionary_encode() for name in ("scheme", "id")]
    codes = numpy.stack(
        [entries.field("perms").to_numpy(), *(part.indices.to_numpy() for part in table)], axis=1
    ).astype(numpy.int64)
    schemes, ids = (part.dictionary.to_pylist() for part in table)
    starts = numpy.cumsum(numpy.maximum(sizes, 0)) - numpy.maximum(sizes, 0)
    # ACLs of one length at a time, as rows of a matrix; each distinct one is decoded once.
    first_rows: dict[tuple[Acl, ...], int] = {}
    numbered: Numbers = numpy.zeros(len(column), numpy.int64)
    distinct: list[tuple[Acl, ...]] = []
    known: dict[tuple[Acl, ...], int] = {}
    for length in numpy.unique(sizes):
        rows = numpy.flatnonzero(sizes == length)
        if length <= 0:
            found = [OPEN_ACL if length < 0 else ()]
            first = inverse = numpy.zeros(len(rows), numpy.int64)
        else:
            wide = codes[starts[rows][:, None] + numpy.arange(length)].reshape(len(rows), -1)
            unique, first, inverse = numpy.unique(wide, axis=0, return_index=True, return_inverse=True)
            found = [
                tuple(
                    Acl(int(perms), schemes[scheme], ids[identity])
                    for perms, scheme, identity in row.reshape(-1, 3)
                )
                for row in unique
            ]
        for acl, at in zip(found, first, strict=False):
            if acl not in known:
                known[acl] = len(distinct)
                distinct.append(acl)
            first_rows[acl] = min(first_rows.get(acl, len(column)), int(rows[at]))
        numbered[rows] = numpy.array([known[acl] for acl in found])[inverse.reshape(-1)]
    ordered = sorted(distinct, key=first_rows.__getitem__)
    places = {acl: place for place, acl in enumerate(ordered)}
    return ordered, numpy.array([places[acl] for acl in distinct])[numbered]


def _texts(raw: bytes, count: int) -> pa.Array:
    """Texts separated by NUL."""
    found = numpy.frombuffer(raw, numpy.uint8)
    ends = numpy.flatnonzero(found == 0)
    if len(ends) != count - 1:
        raise BadValue(f"a page of {count} znodes has {len(ends) + 1} paths")
    offsets = numpy.zeros(count + 1, numpy.int32)
    offsets[1:-1] = ends - numpy.arange(count - 1)
    offsets[-1] = len(raw) - (count - 1)
    texts = found[found != 0].tobytes()
    array = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(texts))
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise BadValue(f"a page has a path that is not UTF-8: {error}") from None
    return array


def _blobs(raw: bytes, lengths: Numbers) -> pa.Array:
    sizes = numpy.maximum(lengths, 0)
    offsets = numpy.zeros(len(lengths) + 1, numpy.int32)
    numpy.cumsum(sizes, out=offsets[1:])
    if lengths.min() < -1 or offsets[-1] != len(raw):
        raise BadValue(f"a page's data should have {int(sizes.sum())} bytes, not {len(raw)}")
    absent = lengths < 0
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(raw)]
    if absent.any():
        buffers[0] = pa.py_buffer(numpy.packbits(~absent, bitorder="little").tobytes())
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)
