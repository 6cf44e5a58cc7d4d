"""Checks that the paths of a table make one tree: each exists once, and so does its parent.

Every path is hashed to 64 bits where it is read, so that the rows need not be sorted: the driver has 8 bytes
for each znode. Equal hashes alone are not an error: then the paths themselves are compared.
"""

import functools
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy
import numpy.typing
import pyarrow as pa

from schema.paths import ROOT, parent_of

Hashes = numpy.typing.NDArray[numpy.uint64]

# Odd, so that it has an inverse; 5 modulo 8, so that its powers repeat late.
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)
_SLASH = 47
_SHOWN = 3  # paths in a message


class Paths(NamedTuple):
    """The hashes of some rows' paths."""

    own: bytes  # of each row
    parents: bytes  # of their parents, each once

    @classmethod
    def of(cls, batches: Iterable[tuple[Hashes, Hashes]]) -> "Paths":
        """From the result of `hashes` for each batch."""
        found = list(batches)
        if not found:
            return cls(b"", b"")
        own, parents = (numpy.concatenate(column) for column in zip(*found, strict=True))
        return cls(own.tobytes(), numpy.unique(parents).tobytes())


class Faults(NamedTuple):
    """Hashes of paths that may be wrong."""

    repeated: Hashes  # of paths that may occur more than once
    missing: Hashes  # of parents that are missing

    def __bool__(self) -> bool:
        return bool(len(self.repeated) or len(self.missing))


def hashes(column: pa.Array) -> tuple[Hashes, Hashes]:
    """(the hash of each path, that of each parent); the root has none.

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
    slashes = numpy.flatnonzero(raw == _SLASH)
    if not len(slashes):  # no paths of znodes; other checks refuse them
        slashes = numpy.zeros(1, numpy.int64)
    last = numpy.maximum(slashes[numpy.searchsorted(slashes, ends) - 1], starts)
    # The root's hash is that of the empty text, which precedes the slash of its children.
    root = ends - starts == 1
    before, scale = sums[starts], inverses[starts]
    own = numpy.where(root, numpy.uint64(0), (sums[ends] - before) * scale)
    return own, ((sums[last] - before) * scale)[~root]


def check(parts: Iterable[Paths]) -> Faults:
    """The faults of all parts together."""
    found = list(parts)
    own = numpy.sort(numpy.frombuffer(b"".join(part.own for part in found), numpy.uint64))
    parents = numpy.unique(numpy.frombuffer(b"".join(part.parents for part in found), numpy.uint64))
    repeated = numpy.unique(own[1:][own[1:] == own[:-1]])
    there = numpy.zeros(len(parents), numpy.bool_)
    if len(own):
        at = numpy.minimum(numpy.searchsorted(own, parents), len(own) - 1)
        there = own[at] == parents
    return Faults(repeated, parents[~there])


def suspects(column: pa.Array, faults: Faults) -> list[str]:
    """The paths of a batch whose own hash is repeated, or whose parent's is missing."""
    own, _ = hashes(column)
    wrong = numpy.isin(own, faults.repeated)
    paths = column.to_pylist()
    below = numpy.array([path != ROOT for path in paths], numpy.bool_)
    _, parents = hashes(column.filter(pa.array(below, pa.bool_())))
    wrong[numpy.flatnonzero(below)[numpy.isin(parents, faults.missing)]] = True
    return [paths[at] for at in numpy.flatnonzero(wrong)]


def describe(found: Iterable[str], faults: Faults) -> str | None:
    """The faults of the paths that `suspects` found, in words; None if only their hashes were equal."""
    ordered = sorted(found)
    repeated = sorted({one for one, other in pairwise(ordered) if one == other})
    if repeated:
        return f"a path came more than once: {', '.join(repeated[:_SHOWN])}"
    if not len(faults.missing):
        return None
    below = [path for path in ordered if path != ROOT]
    _, parents = hashes(pa.array(below))
    path = below[int(numpy.flatnonzero(numpy.isin(parents, faults.missing))[0])]
    return f"{path} is in the table, but its parent {parent_of(path)} is not"


@functools.lru_cache(maxsize=4)
def _table(size: int) -> tuple[Hashes, Hashes]:
    return tuple(numpy.cumprod(numpy.full(size, base, numpy.uint64)) for base in (_BASE, _INVERSE))  # type: ignore[return-value]


def _powers(size: int) -> tuple[Hashes, Hashes]:
    """At least so many powers of the base, and those of its inverse."""
    return _table(1 << max(20, size.bit_length()))
