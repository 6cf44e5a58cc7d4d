"""Checks that the paths of a table make one tree: each exists once, and so does its parent.

Every path is hashed to 64 bits where it is read, so that the rows need not be sorted. The hashes are put into
buckets and checked bucket by bucket, so memory does not grow with the tree. Equal hashes alone are not an
error: then the paths themselves are compared.
"""

import functools
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy
import numpy.typing
import pyarrow as pa
import pyarrow.compute as pc

from schema.paths import ROOT, parent_of

Hashes = numpy.typing.NDArray[numpy.uint64]

# Odd, so that it has an inverse; 5 modulo 8, so that its powers repeat late.
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)
_SLASH = 47
_SHOWN = 3  # paths in a message
_MOST = 10_000  # faults of a bucket that are looked at


class Faults(NamedTuple):
    """Hashes of paths that may be wrong."""

    repeated: Hashes  # of paths that may occur more than once; some of them
    missing: Hashes  # of parents that are missing; some of them

    def __bool__(self) -> bool:
        return bool(len(self.repeated) or len(self.missing))


def hashes(column: pa.Array) -> tuple[Hashes, Hashes]:
    """(the hash of each path, that of each parent); a path of one byte has none, as the root.

    A polynomial modulo 2^64, taken from one running sum over all paths: the difference of the sums at the end
    and the start of a path is its hash times the power at the start. A parent's hash ends at the last slash.
    """
    paths = column.cast(pa.string())
    count = len(paths)
    if not count:
        return numpy.zeros(0, numpy.uint64), numpy.zeros(0, numpy.uint64)
    _, offsets, content = paths.buffers()
    bounds = numpy.frombuffer(offsets, numpy.int32, count + 1, 4 * paths.offset).astype(numpy.int64)
    raw = numpy.frombuffer(content, numpy.uint8)[bounds[0] : bounds[-1]]
    starts, ends = bounds[:-1] - bounds[0], bounds[1:] - bounds[0]
    powers, inverses = _powers(len(raw))
    sums = numpy.zeros(len(raw) + 1, numpy.uint64)
    numpy.cumsum(raw * powers[: len(raw)], out=sums[1:])
    # Other checks refuse what has no slash; here it is below the root.
    slashes = numpy.concatenate([numpy.full(1, -1), numpy.flatnonzero(raw == _SLASH)])
    last = numpy.maximum(slashes[numpy.searchsorted(slashes, ends) - 1], starts)
    # The root's hash is that of the empty text, which precedes the slash of its children.
    root = ends - starts == 1
    before, scale = sums[starts], inverses[starts]
    own = numpy.where(root, numpy.uint64(0), (sums[ends] - before) * scale)
    return own, ((sums[last] - before) * scale)[~root]


#: Hashes to check. `parents`: of the parents of some rows, not of the rows themselves.
SCHEMA = pa.schema([("hash", pa.uint64()), ("parents", pa.bool_())])


def assigned(found: Iterable[tuple[Hashes, Hashes]], buckets: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The results of `hashes` for some batches, by the number of the bucket that equal hashes share."""
    columns = list(zip(*found, strict=True))
    for parents, column in enumerate(columns):
        values = numpy.concatenate(column)
        if parents:
            values = numpy.unique(values)
        if not len(values):
            continue
        numbers = _numbers(values, buckets)
        order = numpy.argsort(numbers, kind="stable")
        chosen, starts = numpy.unique(numbers[order], return_index=True)
        for number, some in zip(chosen.tolist(), numpy.split(values[order], starts[1:]), strict=True):
            kinds = numpy.full(len(some), bool(parents))
            yield number, pa.RecordBatch.from_arrays([pa.array(some), pa.array(kinds)], schema=SCHEMA)


def check(batches: Iterable[pa.RecordBatch]) -> Faults:
    """The faults in a bucket."""
    sides: tuple[list[Hashes], list[Hashes]] = ([], [])
    for batch in batches:
        parents = batch.column("parents")
        for side, wanted in zip(sides, (pc.invert(parents), parents), strict=True):
            side.append(batch.column("hash").filter(wanted).to_numpy(zero_copy_only=False))
    none = numpy.zeros(0, numpy.uint64)
    own = numpy.sort(numpy.concatenate([none, *sides[0]]))
    above = numpy.unique(numpy.concatenate([none, *sides[1]]))
    repeated = numpy.unique(own[1:][own[1:] == own[:-1]])
    there = numpy.zeros(len(above), numpy.bool_)
    if len(own):
        at = numpy.minimum(numpy.searchsorted(own, above), len(own) - 1)
        there = own[at] == above
    return Faults(repeated[:_MOST], above[~there][:_MOST])


def merged(parts: Iterable[Faults]) -> Faults:
    """The faults of all buckets."""
    none = numpy.zeros(0, numpy.uint64)
    found = [Faults(none, none), *parts]
    repeated, missing = (numpy.sort(numpy.concatenate(column))[:_MOST] for column in zip(*found, strict=True))
    return Faults(repeated, missing)


def by_bucket(batch: pa.RecordBatch, key: str, buckets: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """A batch's rows with the number of their bucket, which equal texts in the column `key` share."""
    if not batch.num_rows:
        return
    if buckets == 1:
        yield 0, batch
        return
    own, _ = hashes(batch.column(key))
    numbers = _numbers(own, buckets)
    order = numpy.argsort(numbers, kind="stable")
    ordered = batch.take(pa.array(order))
    found, starts = numpy.unique(numbers[order], return_index=True)
    ends = [*starts[1:].tolist(), batch.num_rows]
    for number, start, end in zip(found.tolist(), starts.tolist(), ends, strict=True):
        yield int(number), ordered.slice(start, end - start)


def _numbers(values: Hashes, buckets: int) -> Hashes:
    numbers: Hashes = (values >> numpy.uint64(32)) % numpy.uint64(buckets)
    return numbers


def suspects(column: pa.Array, faults: Faults) -> list[str]:
    """The paths of a batch whose own hash is repeated, or whose parent's is missing."""
    own, _ = hashes(column)
    wrong = numpy.isin(own, faults.repeated)
    paths = column.to_pylist()
    below = numpy.array([_has_parent(path) for path in paths], numpy.bool_)
    _, parents = hashes(column.filter(pa.array(below, pa.bool_())))
    wrong[numpy.flatnonzero(below)[numpy.isin(parents, faults.missing)]] = True
    return [paths[at] for at in numpy.flatnonzero(wrong)]


def _has_parent(path: str) -> bool:
    """Whether `hashes` gives its parent's hash."""
    return len(path.encode()) != 1


def describe(found: Iterable[str], faults: Faults) -> str | None:
    """The faults of the paths that `suspects` found, in words; None if only their hashes were equal."""
    ordered = sorted(found)
    repeated = sorted({one for one, other in pairwise(ordered) if one == other})
    if repeated:
        return f"a path came more than once: {', '.join(repeated[:_SHOWN])}"
    if not len(faults.missing):
        return None
    below = [path for path in ordered if path.startswith(ROOT) and path != ROOT]
    _, parents = hashes(pa.array(below, pa.string()))
    for at in numpy.flatnonzero(numpy.isin(parents, faults.missing)):
        return f"{below[at]} is in the table, but its parent {parent_of(below[at])} is not"
    return None


@functools.lru_cache(maxsize=4)
def _table(size: int) -> tuple[Hashes, Hashes]:
    return tuple(numpy.cumprod(numpy.full(size, base, numpy.uint64)) for base in (_BASE, _INVERSE))  # type: ignore[return-value]


def _powers(size: int) -> tuple[Hashes, Hashes]:
    """At least so many powers of the base, and those of its inverse."""
    return _table(1 << max(20, size.bit_length()))
